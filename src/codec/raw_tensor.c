/* Bytes to tensors and masks, without a copy where the bytes are what is wanted. What lies in the body then lives as
 * long as the body does. Pure functions: any thread. */
#include "codec/raw_tensor.h"

#include "base/size.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Holds the text of any shape of RAW_TENSOR_MAX_RANK axes. */
#define SHAPE_TEXT_BYTES (RAW_TENSOR_MAX_RANK * 22 + 3)

static const char *dtype_name(const struct raw_tensor *raw)
{
    if (raw->dtype_name)
        return raw->dtype_name;
    return raw->dtype == DTYPE_COUNT ? "of an unknown format" : dtype_json_name(raw->dtype);
}

static bool check_shape(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct error *error)
{
    char shape[SHAPE_TEXT_BYTES];
    size_t expected;
    tensor_shape_text(raw->shape, raw->rank, shape, sizeof shape);
    if (raw->rank == 0)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the shape is [], a single number; expected a tensor of 1 to %u axes", max_rank);
    if (raw->rank > max_rank)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the shape %s has %u axes, more than %u, the most there may be here", shape, raw->rank,
                            max_rank);
    for (unsigned axis = 0; axis < raw->rank; axis++)
        if (raw->shape[axis] == 0)
            return error_set_at(error, ERROR_INVALID, pointer,
                                "axis %u of the shape %s is empty; each extent is at least 1", axis, shape);
    if (!tensor_bytes(raw->shape, raw->rank, dtype_bytes(raw->dtype), &expected))
        return error_set_at(error, ERROR_INVALID, pointer, "the shape %s makes more numbers than memory can hold",
                            shape);
    if (raw->bytes != expected)
        return error_set_at(error, ERROR_INVALID, pointer, "expected %zu bytes (the shape %s of %s), found %zu",
                            expected, shape, dtype_name(raw), raw->bytes);
    return true;
}

bool tensor_not_finite_error(const char *pointer, size_t index, size_t count, struct error *error)
{
    return error_set_at(error, ERROR_NOT_FINITE, pointer,
                        "the number at index %zu of %zu is not finite, or beyond float32", index, count);
}

bool tensor_mask_error(const char *pointer, size_t index, size_t count, struct error *error)
{
    return error_set_at(error, ERROR_INVALID, pointer, "a mask holds 0 or 1; the value at index %zu of %zu is neither",
                        index, count);
}

bool tensor_integer_error(const char *pointer, size_t index, const size_t *shape, unsigned rank, struct error *error)
{
    char place[sizeof error->pointer];
    if (rank == 2)
        snprintf(place, sizeof place, "%.400s/%zu/%zu", pointer, index / shape[1], index % shape[1]);
    else
        snprintf(place, sizeof place, "%.400s/%zu", pointer, index);
    return error_set_at(error, ERROR_INVALID, place, "the number is below 0 or beyond 4294967295");
}

bool raw_tensor_read(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                     struct tensor *tensor, struct error *error)
{
    const size_t count = raw->count;
    if (raw->dtype == DTYPE_COUNT || !dtype_is_float(raw->dtype))
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the numbers are %.64s, expected floating point: of 32, 16 or 64 bits, or bfloat16",
                            dtype_name(raw));
    if (!check_shape(raw, pointer, max_rank, error))
        return false;
    const bool in_place = raw->dtype == DTYPE_F32 && (uintptr_t)raw->data % _Alignof(float) == 0;
    const float *data = (const void *)raw->data;
    size_t right;
    if (in_place) {
        right = dtype_first_not_finite(data, count);
    } else {
        float *converted = arena_take(arena, count * sizeof *converted); /* no overflow: F16, half of it, are there */
        if (!converted)
            return error_out_of_memory(error);
        right = dtype_to_f32(raw->dtype, raw->data, converted, count);
        data = converted;
    }
    if (right < count) {
        if (!in_place)
            arena_shorten(arena, data, 0);
        return tensor_not_finite_error(pointer, right, count, error);
    }
    *tensor = (struct tensor){.rank = raw->rank, .count = count, .data = data, .dtype = raw->dtype};
    memcpy(tensor->shape, raw->shape, raw->rank * sizeof *raw->shape);
    return true;
}

bool raw_tensor_mask(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                     struct mask *mask, struct error *error)
{
    const size_t count = raw->count;
    if (raw->dtype == DTYPE_COUNT)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "the values are %.64s, expected booleans, unsigned bytes, integers of 32 or 64 bits, or "
                            "floating point",
                            dtype_name(raw));
    if (!check_shape(raw, pointer, max_rank, error))
        return false;
    const bool in_place = raw->dtype == DTYPE_BOOL || raw->dtype == DTYPE_U8;
    const uint8_t *data = raw->data;
    size_t right;
    if (in_place) {
        right = dtype_first_not_mask(data, count);
    } else {
        uint8_t *converted = arena_take(arena, count);
        if (!converted)
            return error_out_of_memory(error);
        right = dtype_to_mask(raw->dtype, raw->data, converted, count);
        data = converted;
    }
    if (right < count) {
        if (!in_place)
            arena_shorten(arena, data, 0);
        return tensor_mask_error(pointer, right, count, error);
    }
    *mask = (struct mask){.rank = raw->rank, .count = count, .data = data};
    memcpy(mask->shape, raw->shape, raw->rank * sizeof *raw->shape);
    return true;
}

bool raw_tensor_integers(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                         struct integers *integers, struct error *error)
{
    const size_t count = raw->count;
    if (raw->dtype == DTYPE_COUNT || !dtype_is_integer(raw->dtype))
        return error_set_at(error, ERROR_INVALID, pointer, "the numbers are %.64s, expected integers of 32 or 64 bits",
                            dtype_name(raw));
    if (!check_shape(raw, pointer, max_rank, error))
        return false;
    uint32_t *data = count <= SIZE_MAX / sizeof *data ? arena_take(arena, count * sizeof *data) : NULL;
    if (!data)
        return error_out_of_memory(error);
    const size_t right = dtype_to_u32(raw->dtype, raw->data, data, count);
    if (right < count) {
        arena_shorten(arena, data, 0);
        return tensor_integer_error(pointer, right, raw->shape, raw->rank, error);
    }
    *integers = (struct integers){.rank = raw->rank, .count = count, .data = data};
    memcpy(integers->shape, raw->shape, raw->rank * sizeof *raw->shape);
    return true;
}
