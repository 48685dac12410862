/* The answer of /v1/forward: its members, and each tensor in the form that was asked for. Owns nothing; entered by the
 * thread that computed the result. */
#include "codec/forward_answer.h"

#include "base/size.h"
#include "codec/base64.h"
#include "codec/forward_returned.h"
#include "codec/tensor_write.h"

#include <string.h>

/* What stands around the tensors: the members' names, three numbers of 20 digits at most, four times of 43, and what
 * compare has found. */
#define ENVELOPE_BYTES (512 + RETURNED_APPROXIMATION_BYTES)
/* What stands around one tensor: its name twice and its shape four times, which has at most 40 characters because its
 * product is a size; for top_k the names of its members. */
#define TENSOR_BYTES 384

/* A tensor is at most four texts and two pieces of numbers; the beginning joins the first text, and the end has two
 * texts and the time between. */
#define MOST_PIECES (RETURNED_COUNT * 6 + 3)

/* A digit and its comma. */
#define FLAG_BYTES 2

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
static size_t key_bytes(const struct returned_tensor *map)
{
    return tensor_write_digits(map->shape[map->rank - 1] - 1) + 1;
}

static bool add_tensor(const struct forward_request *request, const struct returned_tensor *tensor, size_t *total)
{
    size_t kept_shape[RETURNED_MAX_RANK];
    const size_t *shape = tensor->shape;
    if (tensor->kept) {
        returned_kept_shape(tensor, kept_shape);
        shape = kept_shape;
    }
    if (!size_add(*total, TENSOR_BYTES, total))
        return false;
    if (request->encoding == ENCODING_BASE64)
        return add_base64(total, shape, tensor->rank) && (!tensor->kept || add_base64(total, shape, tensor->rank));
    if (tensor->index == RETURNED_HEADS_USED)
        return add_nested(total, shape, tensor->rank, FLAG_BYTES);
    const size_t number =
        tensor->is_map ? tensor_write_weight_bytes(request->decimals) : tensor_write_number_bytes(request->decimals);
    return add_nested(total, shape, tensor->rank, number) &&
           (!tensor->kept || add_nested(total, shape, tensor->rank, key_bytes(tensor)));
}

bool forward_answer_bytes(const struct forward_request *request, const struct attention_shape *shape,
                          const struct forward_input *problem, size_t *bytes, struct error *error)
{
    struct returned_tensor list[RETURNED_COUNT];
    size_t count = returned_list(request, shape, problem, NULL, list);
    size_t total = ENVELOPE_BYTES + FORWARD_ANSWER_NAME_BYTES + (request->id ? strlen(request->id) : 0);
    for (size_t i = 0; i < count; i++)
        if (!add_tensor(request, &list[i], &total))
            return error_set(error, ERROR_TOO_LARGE,
                             "the answer's %s would not fit in any memory; ask for less with return, include_layers, "
                             "include_heads or top_k",
                             list[i].name);
    *bytes = total;
    return true;
}

static size_t literal_bytes(const struct forward_request *request)
{
    return ENVELOPE_BYTES + FORWARD_ANSWER_NAME_BYTES + (request->id ? strlen(request->id) : 0) +
           RETURNED_COUNT * TENSOR_BYTES;
}

size_t forward_answer_memory(const struct forward_request *request, const struct attention_shape *shape,
                             const struct forward_input *problem)
{
    struct returned_tensor list[RETURNED_COUNT];
    size_t count = returned_list(request, shape, problem, NULL, list), total = 0;
    if (!answer_pieces_need(&total, MOST_PIECES, literal_bytes(request)) || !returned_kept_need(list, count, &total))
        return SIZE_MAX;
    return total;
}

/* {"shape", "top_k", "keys", "weights"} of a map. */
static bool add_top_k(struct answer_pieces *pieces, const struct forward_request *request,
                      const struct returned_tensor *map, size_t number_bytes, const struct parallel *parallel,
                      struct arena *arena, struct error *error)
{
    struct returned_kept kept;
    if (!returned_keep(map, parallel, arena, &kept, error))
        return false;
    struct tensor_rows keys = {.integers = kept.keys,
                               .shape = kept.shape,
                               .rank = map->rank,
                               .number_bytes = key_bytes(map)},
                       weights = {.data = kept.weights,
                                  .shape = kept.shape,
                                  .rank = map->rank,
                                  .decimals = request->decimals,
                                  .number_bytes = number_bytes};
    text_append_string(&pieces->literal, "{\"shape\":");
    tensor_write_shape(&pieces->literal, map->shape, map->rank);
    text_append_string(&pieces->literal, ",\"top_k\":");
    text_append_size(&pieces->literal, map->kept);
    text_append_string(&pieces->literal, ",\"keys\":");
    answer_pieces_add_tensor(pieces, request->encoding == ENCODING_BASE64, &keys);
    text_append_string(&pieces->literal, ",\"weights\":");
    answer_pieces_add_tensor(pieces, request->encoding == ENCODING_BASE64, &weights);
    text_append(&pieces->literal, "}", 1);
    return true;
}

static void write_name(struct text *text, const char *name)
{
    text_append(text, ",\"", 2);
    text_append_string(text, name);
    text_append(text, "\":", 2);
}

/* What stands before the tensors. */
static void write_beginning(struct text *text, const struct forward_request *request, const char *weights,
                            const char *digest, const struct returned_tensor *list, size_t count)
{
    text_append(text, "{", 1);
    if (request->id) {
        text_append_string(text, "\"id\":");
        text_append_string(text, request->id);
        text_append(text, ",", 1);
    }
    text_append_string(text, "\"weights\":");
    text_append_json(text, weights, strlen(weights));
    text_append_string(text, ",\"digest\":\"");
    text_append_string(text, digest); /* digits */
    text_append_string(text, "\",\"shapes\":");
    returned_write_shapes(text, list, count);
}

/* What stands behind them. */
static void add_end(struct answer_pieces *pieces, const struct forward_request *request,
                    const struct forward_result *result, const struct approximation *approximation,
                    const struct forward_timing *timing)
{
    struct text *text = &pieces->literal;
    if (returned_approximate(request, result))
        text_append_string(text, ",\"approximate\":true");
    if (approximation) {
        text_append_string(text, ",\"approximation\":");
        returned_write_approximation(text, approximation);
    }
    text_append_string(text, ",\"fully_masked_rows\":");
    text_append_size(text, result->fully_masked_rows);
    text_append_string(text, ",\"timing_us\":");
    forward_timing_write(text, timing);
    answer_pieces_add_written_us(pieces);
    text_append(text, "}}", 2);
}

bool forward_answer_compose(const struct forward_request *request, const struct attention_shape *shape,
                            const struct forward_input *problem, const struct forward_result *result,
                            const struct approximation *approximation, const char *weights, const char *digest,
                            const struct forward_timing *timing, const struct parallel *parallel, struct arena *arena,
                            struct answer_pieces *pieces, struct error *error)
{
    struct returned_tensor list[RETURNED_COUNT];
    const size_t count = returned_list(request, shape, problem, result, list);
    if (!answer_pieces_init(pieces, arena, MOST_PIECES, literal_bytes(request)))
        return error_out_of_memory(error);
    write_beginning(&pieces->literal, request, weights, digest, list, count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t *integers = NULL;
        size_t number_bytes = 0;
        if (list[i].index == RETURNED_HEADS_USED) {
            number_bytes = FLAG_BYTES;
            if (!returned_integers(&list[i], arena, &integers, error))
                return false;
        } else if (request->encoding != ENCODING_BASE64) {
            const struct number_extremes most = returned_extremes(&list[i], parallel);
            if (most.magnitude >= NUMBER_INFINITY_BITS)
                return returned_not_finite(&list[i], "encoding base64, which carries it", error);
            number_bytes = list[i].is_map && most.bits < NUMBER_TWO_BITS ? tensor_write_weight_bytes(request->decimals)
                                                                         : tensor_write_number_bytes(request->decimals);
        }
        write_name(&pieces->literal, list[i].name);
        if (list[i].kept) {
            if (!add_top_k(pieces, request, &list[i], number_bytes, parallel, arena, error))
                return false;
            continue;
        }
        answer_pieces_add_tensor(pieces, request->encoding == ENCODING_BASE64,
                                 &(struct tensor_rows){.data = list[i].data,
                                                       .integers = integers,
                                                       .shape = list[i].shape,
                                                       .rank = list[i].rank,
                                                       .decimals = request->decimals,
                                                       .number_bytes = number_bytes});
    }
    add_end(pieces, request, result, approximation, timing);
    if (!answer_pieces_end(pieces))
        return error_out_of_memory(error);
    return true;
}
