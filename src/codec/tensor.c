/* The three forms of tensors and masks in JSON, told apart and checked against the shape they state.
 *
 * What it reads is in the caller's arena, and is given back when it turns out wrong. Entered by whichever thread
 * decodes the request. */
#include "codec/tensor.h"

#include "base/size.h"
#include "codec/tensor_base64.h"
#include "codec/tensor_text.h"
#include "json/names.h"
#include "json/reader.h"

#include <stdio.h>
#include <string.h>

char *tensor_shape_text(const size_t *shape, unsigned rank, char *buffer, size_t size)
{
    size_t at = 0;
    for (unsigned i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, "%s%zu", i ? ", " : "[", shape[i]);
    if (at < size)
        snprintf(buffer + at, size - at, rank ? "]" : "[]");
    return buffer;
}

/* What is read before it is known to be right: a tensor's floats, or a mask's bytes. */
struct values {
    unsigned rank; /* 0: none */
    size_t shape[TENSOR_MAX_RANK];
    size_t count;
    void *data; /* [count] float, or uint8_t for a mask */
    enum dtype dtype;
};

/* A tensor in its object form, while its members arrive in any order. */
struct object_form {
    struct arena *arena;
    bool is_mask;
    unsigned max_rank;
    struct values stated; /* `shape`, without data */
    struct values nested; /* `data` */
    enum dtype dtype;
    struct json_key base64;
};

/* The numbers of `tensor` become bytes where they stand; each must be 0 or 1. On failure they are untouched. */
static bool floats_to_mask(const struct json_reader *r, const struct tensor *tensor, float *floats, struct error *error)
{
    for (size_t i = 0; i < tensor->count; i++) {
        if (floats[i] == 0.0f || floats[i] == 1.0f)
            continue;
        size_t index[TENSOR_MAX_RANK], left = i;
        for (unsigned axis = tensor->rank; axis-- > 0; left /= tensor->shape[axis])
            index[axis] = left % tensor->shape[axis];
        return tensor_text_error(r, index, tensor->rank, error, ERROR_INVALID,
                                 "a mask holds 0 or 1 (or false, true), got %g", (double)floats[i]);
    }
    uint8_t *bytes = (uint8_t *)floats;
    for (size_t i = 0; i < tensor->count; i++)
        bytes[i] = floats[i] != 0.0f;
    return true;
}

static bool read_nested(struct json_reader *r, struct arena *arena, bool is_mask, unsigned max_rank,
                        struct values *values, struct error *error)
{
    struct tensor tensor = {0};
    float *floats = tensor_text_read(r, arena, &tensor, max_rank, is_mask, error);
    if (!floats)
        return false;
    if (is_mask && !floats_to_mask(r, &tensor, floats, error)) {
        arena_shorten(arena, floats, 0);
        return false;
    }
    if (is_mask)
        arena_shorten(arena, floats, tensor.count);
    *values = (struct values){.rank = tensor.rank, .count = tensor.count, .data = floats};
    memcpy(values->shape, tensor.shape, sizeof values->shape);
    return true;
}

bool tensor_read_shape(struct json_reader *r, unsigned max_rank, size_t element_bytes, size_t *shape, unsigned *rank,
                       size_t *count, struct error *error)
{
    unsigned found = 0;
    enum json_step step;
    int64_t extent;
    size_t bytes;
    if (!json_enter_array(r, error))
        return false;
    while ((step = json_next_element(r, error)) == JSON_ITEM) {
        if (!json_read_integer(r, 1, INT64_MAX, &extent, error))
            return false;
        if (found == max_rank)
            return json_error(r, error, ERROR_INVALID, "the shape has more than %u axes, the most there may be here",
                              max_rank);
        shape[found++] = (size_t)extent;
    }
    if (step == JSON_FAILED)
        return false;
    if (found == 0)
        return json_error(r, error, ERROR_INVALID, "an empty shape: a tensor has at least one axis");
    if (!tensor_bytes(shape, found, element_bytes, &bytes))
        return json_error(r, error, ERROR_INVALID, "the shape makes more numbers than memory can hold");
    *rank = found;
    *count = bytes / element_bytes;
    return true;
}

bool tensor_check_members(const struct json_reader *r, bool has_shape, bool has_data, bool has_base64,
                          struct error *error)
{
    if (!has_shape)
        return json_error(r, error, ERROR_INVALID, "a tensor as an object needs the member shape");
    return has_data != has_base64 ||
           json_error(r, error, ERROR_INVALID,
                      "beside shape, a tensor has the member data or the member base64, and %s",
                      has_data ? "not both" : "neither is there");
}

static bool read_shape(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    struct values stated = {0};
    if (!tensor_read_shape(r, form->max_rank, sizeof(float), stated.shape, &stated.rank, &stated.count, error))
        return false;
    form->stated = stated;
    return true;
}

static bool read_data(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    if (json_peek(r) != JSON_ARRAY)
        return json_type_error(r, error, "an array of numbers, flat or nested as the shape is");
    return read_nested(r, form->arena, form->is_mask, TENSOR_MAX_RANK, &form->nested, error);
}

static bool read_dtype(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    char shown[NAMES_SHOWN_BYTES], known[64] = "";
    struct json_key name;
    if (!json_read_in_place(r, &name, error))
        return false;
    names_show(&name, shown); /* what is cut or replaced in it is no dtype's name */
    enum dtype dtype = dtype_from_json_name(shown, strlen(shown));
    if (dtype == DTYPE_COUNT || (!form->is_mask && !dtype_is_float(dtype))) {
        for (int d = 0; d < DTYPE_COUNT && (form->is_mask || dtype_is_float((enum dtype)d)); d++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", d ? ", " : "",
                     dtype_json_name((enum dtype)d));
        return json_error(r, error, ERROR_INVALID, "dtype \"%s\" is not one of %s", shown, known);
    }
    form->dtype = dtype;
    return true;
}

/* Decoded once shape and dtype are known; until then its place in the body is enough. */
static bool read_base64(struct json_reader *r, void *context, struct error *error)
{
    struct object_form *form = context;
    return json_read_in_place(r, &form->base64, error);
}

enum { MEMBER_SHAPE, MEMBER_DATA, MEMBER_DTYPE, MEMBER_BASE64, MEMBER_COUNT };

static const struct json_member MEMBERS[MEMBER_COUNT] = {
    [MEMBER_SHAPE] = {"shape", read_shape},
    [MEMBER_DATA] = {"data", read_data},
    [MEMBER_DTYPE] = {"dtype", read_dtype},
    [MEMBER_BASE64] = {"base64", read_base64},
};

/* Numbers that were read from `data` are laid out as `shape` says. */
static bool lay_out(const struct values *stated, const struct values *nested, const char *place, struct error *error)
{
    char expected[TENSOR_SHAPE_TEXT_BYTES], found[TENSOR_SHAPE_TEXT_BYTES];
    bool flat = nested->rank == 1;
    if (flat ? nested->count == stated->count
             : nested->rank == stated->rank &&
                   memcmp(nested->shape, stated->shape, stated->rank * sizeof *stated->shape) == 0)
        return true;
    tensor_shape_text(stated->shape, stated->rank, expected, sizeof expected);
    if (flat)
        return error_set_at(error, ERROR_INVALID, place, "expected %zu numbers for the shape %s, found %zu",
                            stated->count, expected, nested->count);
    return error_set_at(error, ERROR_INVALID, place,
                        "the data is nested as %s, the shape is %s: nest it so, or send it flat",
                        tensor_shape_text(nested->shape, nested->rank, found, sizeof found), expected);
}

static bool read_object_form(struct json_reader *r, struct arena *arena, bool is_mask, unsigned max_rank,
                             struct values *values, struct error *error)
{
    struct object_form form = {.arena = arena, .is_mask = is_mask, .max_rank = max_rank, .dtype = DTYPE_F32};
    const size_t used = arena->used;
    uint64_t seen = 0;
    char pointer[sizeof error->pointer], place[sizeof pointer + sizeof "/data"];
    void *data;
    if (!json_read_object(r, MEMBERS, MEMBER_COUNT, &form, &seen, error))
        goto fail;
    json_pointer(r, pointer, sizeof pointer);
    bool has_data = seen >> MEMBER_DATA & 1, has_base64 = seen >> MEMBER_BASE64 & 1;
    if (!tensor_check_members(r, seen >> MEMBER_SHAPE & 1, has_data, has_base64, error))
        goto fail;
    if (has_data && form.dtype != DTYPE_F32) {
        snprintf(pointer + strlen(pointer), sizeof pointer - strlen(pointer), "/dtype");
        error_set_at(error, ERROR_INVALID, pointer, "dtype %s belongs to base64; the numbers of data are f32",
                     dtype_json_name(form.dtype));
        goto fail;
    }
    if (has_data) {
        snprintf(place, sizeof place, "%s/data", pointer);
        if (!lay_out(&form.stated, &form.nested, place, error))
            goto fail;
        data = form.nested.data;
    } else {
        data = is_mask
                   ? (void *)tensor_base64_mask(&form.base64, form.dtype, form.stated.count, arena, pointer, error)
                   : (void *)tensor_base64_numbers(&form.base64, form.dtype, form.stated.count, arena, pointer, error);
        if (!data)
            goto fail;
    }
    *values = form.stated;
    values->data = data;
    values->dtype = form.dtype;
    return true;
fail:
    arena_rewind(arena, used);
    return false;
}

static bool read_values(struct json_reader *r, struct arena *arena, bool is_mask, unsigned max_rank,
                        struct values *values, struct error *error)
{
    switch (json_peek(r)) {
    case JSON_ARRAY:
        return read_nested(r, arena, is_mask, max_rank, values, error);
    case JSON_OBJECT:
        return read_object_form(r, arena, is_mask, max_rank, values, error);
    default:
        return json_type_error(r, error,
                               "a tensor: nested arrays of numbers, or an object of shape and data or base64");
    }
}

bool tensor_read_json(struct json_reader *r, struct arena *arena, struct tensor *tensor, unsigned max_rank,
                      struct error *error)
{
    struct values values;
    if (!read_values(r, arena, false, max_rank, &values, error))
        return false;
    *tensor = (struct tensor){.rank = values.rank, .count = values.count, .data = values.data, .dtype = values.dtype};
    memcpy(tensor->shape, values.shape, sizeof tensor->shape);
    return true;
}

bool mask_read_json(struct json_reader *r, struct arena *arena, struct mask *mask, unsigned max_rank,
                    struct error *error)
{
    struct values values;
    if (!read_values(r, arena, true, max_rank, &values, error))
        return false;
    *mask = (struct mask){.rank = values.rank, .count = values.count, .data = values.data};
    memcpy(mask->shape, values.shape, sizeof mask->shape);
    return true;
}

void *tensor_read_data(struct json_reader *r, struct arena *arena, const size_t *shape, unsigned rank, bool is_mask,
                       struct error *error)
{
    struct values stated = {.rank = rank, .count = 1}, nested;
    char place[sizeof error->pointer];
    if (json_peek(r) != JSON_ARRAY) {
        json_type_error(r, error, "an array of numbers, flat or nested as the shape is");
        return NULL;
    }
    if (!read_nested(r, arena, is_mask, TENSOR_MAX_RANK, &nested, error))
        return NULL;
    for (unsigned axis = 0; axis < rank; axis++) {
        stated.shape[axis] = shape[axis];
        stated.count *= shape[axis];
    }
    if (lay_out(&stated, &nested, json_pointer(r, place, sizeof place), error))
        return nested.data;
    arena_shorten(arena, nested.data, 0);
    return NULL;
}
