/* The answer of /v1/forward: which tensors, of which shapes, in which form. Owns nothing; entered by the thread that
 * computed the result. */
#include "codec/forward_answer.h"

#include "base/clock.h"
#include "base/size.h"
#include "codec/base64.h"
#include "codec/tensor_write.h"
#include "codec/top_k.h"
#include "json/number.h"
#include "json/number_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX_RANK 4

/* What stands around the tensors: the members' names, three numbers of 20 digits at most, four times of 43. */
#define ENVELOPE_BYTES 512
/* What stands around one tensor: its name twice and its shape four times, which has at most 40 characters because its
 * product is a size; for top_k the names of its members. */
#define TENSOR_BYTES 384

/* A tensor of the answer. */
struct returned {
    const char *name;
    bool is_map;
    const float *data; /* [shape] */
    unsigned rank;
    size_t shape[ANSWER_MAX_RANK];
};

static size_t map_count(const struct forward_request *request, const struct attention_shape *shape)
{
    return request->include_heads ? request->n_include_heads : shape->num_heads;
}

/* The tensors that were asked for, in the order of FORWARD_RETURNS, without the batch axis where the request had none.
 * `result` may be NULL: no data. */
static size_t list_returned(const struct forward_request *request, const struct attention_shape *shape,
                            const struct forward_input *problem, const struct forward_result *result,
                            struct returned list[FORWARD_RETURN_COUNT])
{
    const struct forward_result none = {0}, *from = result ? result : &none;
    const size_t batch = problem->batch, queries = problem->query_length, keys = problem->key_length,
                 maps = map_count(request, shape);
    const struct returned all[FORWARD_RETURN_COUNT] = {
        [RETURN_OUTPUT_INDEX] = {"output", false, from->output, 3, {batch, queries, shape->d_model}},
        [RETURN_ATTENTION_INDEX] = {"attention", true, from->attention, 4, {batch, maps, queries, keys}},
        [RETURN_HEADS_INDEX] = {"heads", false, from->heads, 4, {batch, maps, queries, shape->d_v}},
        [RETURN_QUERY_INDEX] = {"query", false, from->query, 4, {batch, shape->num_heads, queries, shape->d_k}},
        [RETURN_KEY_INDEX] = {"key", false, from->key, 4, {batch, shape->num_heads, keys, shape->d_k}},
        [RETURN_VALUE_INDEX] = {"value", false, from->value, 4, {batch, shape->num_heads, keys, shape->d_v}},
    };
    size_t count = 0;
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
        if (!(request->returned >> i & 1))
            continue;
        struct returned *one = &list[count++];
        *one = all[i];
        if (problem->rank2)
            memmove(one->shape, one->shape + 1, --one->rank * sizeof *one->shape);
    }
    return count;
}

/* How many weights of each row stand in the answer; 0: this tensor is whole. */
static size_t kept_of(const struct forward_request *request, const struct returned *tensor)
{
    return tensor->is_map ? size_min(request->top_k, tensor->shape[tensor->rank - 1]) : 0;
}

/* The shape of what top_k keeps. */
static void kept_shape(const struct returned *tensor, size_t kept, size_t shape[ANSWER_MAX_RANK])
{
    memcpy(shape, tensor->shape, sizeof tensor->shape);
    shape[tensor->rank - 1] = kept;
}

static bool add_base64(size_t *total, const size_t *shape, unsigned rank)
{
    size_t bytes;
    return tensor_bytes(shape, rank, sizeof(float), &bytes) && bytes <= SIZE_MAX / 2 &&
           size_add(*total, base64_encoded_length(bytes), total);
}

static bool add_nested(size_t *total, const size_t *shape, unsigned rank, size_t number_bytes)
{
    size_t bytes;
    return tensor_write_bytes(shape, rank, number_bytes, &bytes) && size_add(*total, bytes, total);
}

/* Bytes of one key and its comma. */
static size_t key_bytes(const struct returned *map)
{
    return tensor_write_digits(map->shape[map->rank - 1] - 1) + 1;
}

static bool add_tensor(const struct forward_request *request, const struct returned *tensor, size_t *total)
{
    size_t kept = kept_of(request, tensor), shape[ANSWER_MAX_RANK];
    kept_shape(tensor, kept ? kept : tensor->shape[tensor->rank - 1], shape);
    if (!size_add(*total, TENSOR_BYTES, total))
        return false;
    if (request->encoding == ENCODING_BASE64)
        return add_base64(total, shape, tensor->rank) && (!kept || add_base64(total, shape, tensor->rank));
    size_t number =
        tensor->is_map ? tensor_write_weight_bytes(request->decimals) : tensor_write_number_bytes(request->decimals);
    return add_nested(total, shape, tensor->rank, number) &&
           (!kept || add_nested(total, shape, tensor->rank, key_bytes(tensor)));
}

bool forward_answer_bytes(const struct forward_request *request, const struct attention_shape *shape,
                          const struct forward_input *problem, size_t *bytes, struct error *error)
{
    struct returned list[FORWARD_RETURN_COUNT];
    size_t count = list_returned(request, shape, problem, NULL, list);
    size_t total = ENVELOPE_BYTES + FORWARD_ANSWER_NAME_BYTES + (request->id ? strlen(request->id) : 0);
    for (size_t i = 0; i < count; i++)
        if (!add_tensor(request, &list[i], &total))
            return error_set(
                error, ERROR_TOO_LARGE,
                "the answer's %s would not fit in any memory; ask for less with return, include_heads or top_k",
                list[i].name);
    *bytes = total;
    return true;
}

size_t forward_answer_scratch_bytes(const struct forward_request *request, const struct attention_shape *shape,
                                    const struct forward_input *problem)
{
    struct returned list[FORWARD_RETURN_COUNT];
    size_t count = list_returned(request, shape, problem, NULL, list), total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t kept = kept_of(request, &list[i]), each[ANSWER_MAX_RANK], bytes;
        if (!kept)
            continue;
        kept_shape(&list[i], kept, each);
        if (!tensor_bytes(each, list[i].rank, sizeof(float) + sizeof(uint32_t), &bytes) || !arena_need(&total, bytes))
            return SIZE_MAX;
    }
    return total;
}

static size_t count_of(const struct returned *tensor)
{
    size_t count = 1;
    for (unsigned axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

static bool not_finite(const struct returned *tensor, struct error *error)
{
    char place[ANSWER_MAX_RANK * 24] = "";
    size_t stride = count_of(tensor), at = dtype_first_not_finite(tensor->data, stride), left = at, length = 0;
    for (unsigned axis = 0; axis < tensor->rank; axis++) {
        stride /= tensor->shape[axis];
        length += (size_t)snprintf(place + length, sizeof place - length, "[%zu]", left / stride);
        left %= stride;
    }
    float value = tensor->data[at];
    return error_set(error, ERROR_NOT_FINITE,
                     "%s%s is %s: JSON has no such number; smaller inputs, or encoding base64, which carries it",
                     tensor->name, place,
                     isnan(value) ? "NaN"
                     : value > 0  ? "infinity"
                                  : "-infinity");
}

/* Writes one tensor in the form that was asked for. `number_bytes`: of its JSON numbers. */
static void write_plain(struct text *text, const struct forward_request *request, const float *data,
                        const size_t *shape, unsigned rank, size_t number_bytes)
{
    if (request->encoding == ENCODING_BASE64)
        tensor_write_base64(text, data, DTYPE_F32, shape, rank);
    else
        tensor_write_f32(text, data, shape, rank, request->decimals, number_bytes);
}

/* {"shape", "top_k", "keys", "weights"} of a map, what is kept of it in `scratch`. */
static void write_top_k(struct text *text, const struct forward_request *request, const struct returned *map,
                        size_t kept, struct arena *scratch, size_t number_bytes)
{
    size_t width = map->shape[map->rank - 1], rows = count_of(map) / width, shape[ANSWER_MAX_RANK];
    float *weights = arena_take(scratch, rows * kept * (sizeof *weights + sizeof(uint32_t))); /* [rows, kept] */
    if (!weights) {
        text->failed = true;
        return;
    }
    uint32_t *keys = (uint32_t *)(void *)(weights + rows * kept); /* [rows, kept] */
    kept_shape(map, kept, shape);
    for (size_t row = 0; row < rows; row++)
        top_k_select(map->data + row * width, width, kept, keys + row * kept, weights + row * kept);
    text_append_string(text, "{\"shape\":");
    tensor_write_shape(text, map->shape, map->rank);
    text_append_format(text, ",\"top_k\":%zu,\"keys\":", kept);
    if (request->encoding == ENCODING_BASE64)
        tensor_write_base64(text, keys, DTYPE_I32, shape, map->rank);
    else
        tensor_write_u32(text, keys, shape, map->rank, key_bytes(map));
    text_append_string(text, ",\"weights\":");
    write_plain(text, request, weights, shape, map->rank, number_bytes);
    text_append(text, "}", 1);
}

static void write_name(struct text *text, const char *separator, const char *name)
{
    text_append_string(text, separator);
    text_append(text, "\"", 1);
    text_append_string(text, name);
    text_append(text, "\":", 2);
}

static void write_time(struct text *text, const char *name, double us)
{
    char digits[NUMBER_FIXED_BYTES(1)];
    char *end = number_write_fixed(digits, isfinite(us) && us > 0 && us < 1e15 ? (float)us : 0.0f, 1);
    text_append_string(text, name);
    text_append(text, digits, (size_t)(end - digits));
}

bool forward_answer_encode(const struct forward_request *request, const struct attention_shape *shape,
                           const struct forward_input *problem, const struct forward_result *result,
                           const char *weights, const char *digest, struct forward_timing *timing,
                           struct arena *scratch, struct text *text, struct error *error)
{
    uint64_t begin = clock_ns();
    struct returned list[FORWARD_RETURN_COUNT];
    size_t count = list_returned(request, shape, problem, result, list), number_bytes[FORWARD_RETURN_COUNT] = {0},
           bytes, length = text->length, used = scratch->used;
    for (size_t i = 0; i < count; i++) {
        if (request->encoding == ENCODING_BASE64)
            continue;
        struct number_extremes most = number_rows_chosen()->extremes(list[i].data, count_of(&list[i]));
        if (most.magnitude >= NUMBER_INFINITY_BITS)
            return not_finite(&list[i], error);
        number_bytes[i] = list[i].is_map && most.bits < NUMBER_TWO_BITS ? tensor_write_weight_bytes(request->decimals)
                                                                        : tensor_write_number_bytes(request->decimals);
    }
    if (!forward_answer_bytes(request, shape, problem, &bytes, error))
        return false;
    if (!text_reserve(text, bytes))
        return error_out_of_memory(error);

    text_append(text, "{", 1);
    if (request->id) {
        text_append_string(text, "\"id\":");
        text_append_string(text, request->id);
        text_append(text, ",", 1);
    }
    text_append_string(text, "\"weights\":");
    text_append_json(text, weights, strlen(weights));
    text_append_string(text, ",\"digest\":");
    text_append_json(text, digest, strlen(digest));
    text_append_string(text, ",\"shapes\":{");
    for (size_t i = 0; i < count; i++) {
        write_name(text, i ? "," : "", list[i].name);
        tensor_write_shape(text, list[i].shape, list[i].rank);
    }
    text_append(text, "}", 1);
    for (size_t i = 0; i < count; i++) {
        size_t kept = kept_of(request, &list[i]);
        write_name(text, ",", list[i].name);
        if (kept)
            write_top_k(text, request, &list[i], kept, scratch, number_bytes[i]);
        else
            write_plain(text, request, list[i].data, list[i].shape, list[i].rank, number_bytes[i]);
    }
    text_append_format(text, ",\"fully_masked_rows\":%zu", result->fully_masked_rows);
    timing->encode_us = (double)(clock_ns() - begin) / 1000;
    write_time(text, ",\"timing_us\":{\"parse\":", timing->parse_us);
    write_time(text, ",\"queue\":", timing->queue_us);
    write_time(text, ",\"compute\":", timing->compute_us);
    write_time(text, ",\"encode\":", timing->encode_us);
    text_append(text, "}}", 2);
    arena_rewind(scratch, used);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
