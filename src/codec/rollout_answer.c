/* The members of a rollout's answer, and its one tensor in the form that was asked for. Owns nothing; entered by the
 * thread that computed the result. */
#include "codec/rollout_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"
#include "codec/base64.h"
#include "codec/safetensors_write.h"
#include "codec/tensor_write.h"

#include <string.h>

/* What stands around the tensor in JSON: names, its shape, which has at most 40 characters because its product is a
 * size. */
#define TENSOR_BYTES 256
/* Digest, head_fusion and the names of all members in __metadata__. */
#define METADATA_BYTES 512
/* The name of a set as JSON text, at most. */
#define TEXT_BYTES 1024
/* The text before, the tensor, the text behind. */
#define MOST_PIECES 3
#define MOST_RANK   4

/* [B, (H,) T, T], without B where the request had none. */
static unsigned shape_of(const struct rollout_found *found, size_t shape[MOST_RANK])
{
    const struct rollout *r = found->rollout;
    unsigned rank = 0;
    if (!found->rank2)
        shape[rank++] = r->batch;
    if (r->per_head)
        shape[rank++] = r->num_heads;
    shape[rank++] = r->length;
    shape[rank++] = r->length;
    return rank;
}

static size_t literal_bytes(const struct rollout_request *request, const char *weights)
{
    const size_t begin = analysis_text_begin_bytes(&request->analysis.forward, weights);
    if (request->analysis.forward.encoding != ENCODING_SAFETENSORS)
        return begin + TENSOR_BYTES;
    /* Texts in a text: a quote becomes two bytes, a backslash too. */
    return 2 * begin + METADATA_BYTES + SAFETENSORS_WRITE_BYTES + SAFETENSORS_WRITE_ENTRY_BYTES;
}

bool rollout_answer_bytes(const struct rollout_request *request, const struct rollout_found *found, const char *weights,
                          size_t *bytes)
{
    const struct forward_request *forward = &request->analysis.forward;
    size_t shape[MOST_RANK], raw, numbers = 0;
    const unsigned rank = shape_of(found, shape);
    if (!tensor_bytes(shape, rank, sizeof(float), &raw) || raw > SIZE_MAX / 2)
        return false;
    if (forward->encoding == ENCODING_JSON) {
        if (!tensor_write_bytes(shape, rank, tensor_write_weight_bytes(forward->decimals), &numbers))
            return false;
    } else {
        numbers = forward->encoding == ENCODING_BASE64 ? base64_encoded_length(raw) : raw;
    }
    return size_add(numbers, literal_bytes(request, weights), bytes);
}

size_t rollout_answer_memory(const struct rollout_request *request, const char *weights)
{
    size_t total = 0;
    return answer_pieces_need(&total, MOST_PIECES, literal_bytes(request, weights)) ? total : SIZE_MAX;
}

static void add_json(struct answer_pieces *pieces, const struct rollout_request *request,
                     const struct tensor_rows *rows, const char *weights, const char *digest)
{
    const struct forward_request *forward = &request->analysis.forward;
    analysis_text_begin(&pieces->literal, forward, weights, digest);
    text_append_format(&pieces->literal, "\"head_fusion\":\"%s\",\"rollout\":", rollout_fusion_name(request->fusion));
    answer_pieces_add_tensor(pieces, forward->encoding == ENCODING_BASE64, rows);
    text_append(&pieces->literal, "}", 1);
}

/* A member whose value is a string. */
static void write_string(struct text *text, const char *name, const char *value)
{
    char buffer[TEXT_BYTES];
    struct text quoted;
    text_init_fixed(&quoted, buffer, sizeof buffer);
    text_append_json(&quoted, value, strlen(value));
    safetensors_write_member(text, name, &quoted);
}

static void add_tensors(struct answer_pieces *pieces, const struct rollout_request *request,
                        const struct tensor_rows *rows, const char *weights, const char *digest)
{
    const char *id = request->analysis.forward.id;
    struct text *text = &pieces->literal;
    size_t bytes = 0;
    pieces->failed |= !tensor_bytes(rows->shape, rows->rank, sizeof(float), &bytes);
    safetensors_write_begin(text);
    write_string(text, "\"head_fusion\":", rollout_fusion_name(request->fusion));
    if (id) {
        text_append_string(text, ",\"id\":");
        text_append_json(text, id, strlen(id));
    }
    if (weights) {
        write_string(text, ",\"weights\":", weights);
        write_string(text, ",\"digest\":", digest);
    }
    safetensors_write_members_end(text);
    safetensors_write_entry(text, "rollout", DTYPE_F32, rows->shape, rows->rank, 0, bytes);
    safetensors_write_end(text);
    answer_pieces_add_bytes(pieces, rows->data, bytes);
}

bool rollout_answer_compose(const struct rollout_request *request, const struct rollout_found *found,
                            const char *weights, const char *digest, struct arena *arena, struct answer_pieces *pieces,
                            struct error *error)
{
    const struct forward_request *forward = &request->analysis.forward;
    size_t shape[MOST_RANK];
    const struct tensor_rows rows = {.data = found->result,
                                     .shape = shape,
                                     .rank = shape_of(found, shape),
                                     .decimals = forward->decimals,
                                     .number_bytes = tensor_write_weight_bytes(forward->decimals)};
    if (!answer_pieces_init(pieces, arena, MOST_PIECES, literal_bytes(request, weights)))
        return error_out_of_memory(error);
    if (forward->encoding == ENCODING_SAFETENSORS)
        add_tensors(pieces, request, &rows, weights, digest);
    else
        add_json(pieces, request, &rows, weights, digest);
    return answer_pieces_end(pieces) || error_out_of_memory(error);
}
