/* Header and pieces of a safetensors answer. Owns nothing; entered by the thread that computed the result. */
#include "codec/forward_tensors.h"

#include "base/clock.h"
#include "base/size.h"
#include "codec/forward_answer.h"
#include "codec/forward_returned.h"
#include "codec/safetensors_write.h"

#include <stdint.h>
#include <string.h>

/* The header but for the id and what it says of each tensor: names and digest as JSON text, quoted once more, a number
 * of 20 digits, four times of 43, and what compare has found. */
#define ENVELOPE_BYTES (512 + 2 * FORWARD_ANSWER_NAME_BYTES + 2 * RETURNED_APPROXIMATION_BYTES)
/* Of one tensor: its name thrice, its shape thrice, which has at most 40 characters because its product is a size, and
 * four offsets of 20 digits. */
#define TENSOR_BYTES 512
/* All their shapes together, or all times, as JSON text. */
#define TEXT_BYTES 1024

/* A map that top_k cuts is two tensors. */
#define MOST_TENSORS (RETURNED_COUNT + 1)

/* A tensor of the file. */
struct entry {
    const char *name;
    enum dtype dtype;
    const void *data; /* [shape] */
    unsigned rank;
    size_t shape[RETURNED_MAX_RANK];
    size_t bytes;
};

static size_t header_most(const struct forward_request *request, size_t tensors)
{
    return ENVELOPE_BYTES + (request->id ? 2 * strlen(request->id) : 0) + tensors * TENSOR_BYTES;
}

bool forward_tensors_bytes(const struct forward_request *request, const struct attention_shape *shape,
                           const struct forward_input *problem, size_t *bytes, struct error *error)
{
    struct returned_tensor list[RETURNED_COUNT];
    const size_t count = returned_list(request, shape, problem, NULL, list);
    size_t total = header_most(request, count);
    for (size_t i = 0; i < count; i++) {
        size_t each[RETURNED_MAX_RANK], one;
        memcpy(each, list[i].shape, sizeof each);
        if (list[i].kept)
            returned_kept_shape(&list[i], each);
        const size_t number = list[i].kept ? sizeof(uint32_t) + sizeof(float) : sizeof(float);
        if (!tensor_bytes(each, list[i].rank, number, &one) || !size_add(total, one, &total))
            return error_set(error, ERROR_TOO_LARGE,
                             "the answer's %s would not fit in any memory; ask for less with return, include_layers, "
                             "include_heads or top_k",
                             list[i].name);
    }
    *bytes = total;
    return true;
}

size_t forward_tensors_memory(const struct forward_request *request, const struct attention_shape *shape,
                              const struct forward_input *problem)
{
    struct returned_tensor list[RETURNED_COUNT];
    size_t count = returned_list(request, shape, problem, NULL, list), total = 0;
    if (!answer_pieces_need(&total, MOST_TENSORS + 1, header_most(request, RETURNED_COUNT)) ||
        !returned_kept_need(list, count, &total))
        return SIZE_MAX;
    return total;
}

/* ---- the tensors */

static struct entry entry_of(const char *name, enum dtype dtype, const void *data, const size_t *shape, unsigned rank)
{
    struct entry entry = {.name = name, .dtype = dtype, .data = data, .rank = rank};
    memcpy(entry.shape, shape, rank * sizeof *shape);
    tensor_bytes(shape, rank, dtype_bytes(dtype), &entry.bytes); /* no overflow: the numbers are there */
    return entry;
}

/* Those of the file, in order; their number in *count. */
static bool list_entries(const struct returned_tensor *list, size_t returned, const struct parallel *parallel,
                         struct arena *arena, struct entry entries[MOST_TENSORS], size_t *count, struct error *error)
{
    size_t made = 0;
    for (size_t i = 0; i < returned; i++) {
        struct returned_kept kept;
        const uint32_t *integers;
        if (list[i].index == RETURNED_HEADS_USED) {
            if (!returned_integers(&list[i], arena, &integers, error))
                return false;
            entries[made++] = entry_of(list[i].name, DTYPE_I32, integers, list[i].shape, list[i].rank);
            continue;
        }
        if (!list[i].kept) {
            entries[made++] = entry_of(list[i].name, DTYPE_F32, list[i].data, list[i].shape, list[i].rank);
            continue;
        }
        if (!returned_keep(&list[i], parallel, arena, &kept, error))
            return false;
        entries[made++] = entry_of("attention_keys", DTYPE_I32, kept.keys, kept.shape, list[i].rank);
        entries[made++] = entry_of("attention_weights", DTYPE_F32, kept.weights, kept.shape, list[i].rank);
    }
    *count = made;
    return true;
}

/* ---- the header */

static void write_metadata(struct text *text, const struct forward_request *request, const char *weights,
                           const char *digest, const struct returned_tensor *list, size_t count,
                           const struct forward_result *result, const struct approximation *approximation,
                           const struct forward_timing *timing, uint64_t began)
{
    char buffer[TEXT_BYTES];
    struct text value;
    if (request->id) {
        text_append_string(text, "\"id\":");
        text_append_json(text, request->id, strlen(request->id));
        text_append(text, ",", 1);
    }
    text_init_fixed(&value, buffer, sizeof buffer);
    text_append_json(&value, weights, strlen(weights));
    safetensors_write_member(text, "\"weights\":", &value);

    text_init_fixed(&value, buffer, sizeof buffer);
    text_append_json(&value, digest, strlen(digest));
    safetensors_write_member(text, ",\"digest\":", &value);

    text_init_fixed(&value, buffer, sizeof buffer);
    returned_write_shapes(&value, list, count);
    safetensors_write_member(text, ",\"shapes\":", &value);
    if (returned_approximate(request, result))
        text_append_string(text, ",\"approximate\":\"true\"");
    if (approximation) {
        text_init_fixed(&value, buffer, sizeof buffer);
        returned_write_approximation(&value, approximation);
        safetensors_write_member(text, ",\"approximation\":", &value);
    }
    text_append_string(text, ",\"fully_masked_rows\":\"");
    text_append_size(text, result->fully_masked_rows);
    text_append_string(text, "\"");

    text_init_fixed(&value, buffer, sizeof buffer);
    forward_timing_write(&value, timing);
    forward_timing_write_us(&value, (double)(clock_ns() - began) / 1e3);
    text_append(&value, "}", 1);
    safetensors_write_member(text, ",\"timing_us\":", &value);
    safetensors_write_members_end(text);
}

bool forward_tensors_compose(const struct forward_request *request, const struct attention_shape *shape,
                             const struct forward_input *problem, const struct forward_result *result,
                             const struct approximation *approximation, const char *weights, const char *digest,
                             const struct forward_timing *timing, const struct parallel *parallel, struct arena *arena,
                             struct answer_pieces *pieces, struct error *error)
{
    const uint64_t began = clock_ns();
    struct returned_tensor list[RETURNED_COUNT];
    struct entry entries[MOST_TENSORS];
    const size_t returned = returned_list(request, shape, problem, result, list);
    size_t count;
    if (!answer_pieces_init(pieces, arena, MOST_TENSORS + 1, header_most(request, RETURNED_COUNT)))
        return error_out_of_memory(error);
    if (!list_entries(list, returned, parallel, arena, entries, &count, error))
        return false;
    safetensors_write_begin(&pieces->literal);
    write_metadata(&pieces->literal, request, weights, digest, list, returned, result, approximation, timing, began);
    for (size_t i = 0, offset = 0; i < count; offset += entries[i++].bytes)
        safetensors_write_entry(&pieces->literal, entries[i].name, entries[i].dtype, entries[i].shape, entries[i].rank,
                                offset, entries[i].bytes);
    safetensors_write_end(&pieces->literal);
    for (size_t i = 0; i < count; i++)
        answer_pieces_add_bytes(pieces, entries[i].data, entries[i].bytes);
    if (!answer_pieces_end(pieces))
        return error_out_of_memory(error);
    return true;
}
