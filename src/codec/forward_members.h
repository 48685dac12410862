/* The members of a request that describe a forward pass, for each route that runs one. For the files of this folder. */
#ifndef ATTND_CODEC_FORWARD_MEMBERS_H
#define ATTND_CODEC_FORWARD_MEMBERS_H

#include "codec/forward_request.h"
#include "codec/request_members.h"

/* What the readers fill: a request, and the arena its pieces come from. */
struct forward_decoding {
    struct forward_request *request;
    struct arena *arena;
};

/* X(member, as JSON and as bytes): the context of their readers is a struct forward_decoding, or begins with one. */
#define FORWARD_MEMBERS(X, TENSOR) \
    X(weights)                     \
    X(id)                          \
    TENSOR(input)                  \
    TENSOR(query)                  \
    TENSOR(key)                    \
    TENSOR(value)                  \
    TENSOR(bias)                   \
    TENSOR(head_mask)              \
    TENSOR(attention_mask)         \
    X(causal)                      \
    TENSOR(position_ids)           \
    X(position)                    \
    X(pattern)                     \
    X(low_rank)                    \
    X(keep_heads)                  \
    X(dropout)                     \
    TENSOR(input_ids)              \
    TENSOR(token_type_ids)         \
    TENSOR(inputs_embeds)          \
    TENSOR(pixel_values)

#define FORWARD_READ_JSON(member) bool forward_read_##member(struct json_reader *r, void *context, struct error *error);
#define FORWARD_READ_BOTH(member)                                                                    \
    FORWARD_READ_JSON(member)                                                                        \
    bool forward_read_raw_##member(const struct raw_tensor *raw, const char *pointer, void *context, \
                                   struct error *error);
FORWARD_MEMBERS(FORWARD_READ_JSON, FORWARD_READ_BOTH)
#undef FORWARD_READ_BOTH
#undef FORWARD_READ_JSON

/* As entries of a list of members. */
#define FORWARD_JSON_ENTRY(member)   {#member, forward_read_##member, NULL},
#define FORWARD_TENSOR_ENTRY(member) {#member, forward_read_##member, forward_read_raw_##member},
#define FORWARD_MEMBER_ENTRIES       FORWARD_MEMBERS(FORWARD_JSON_ENTRY, FORWARD_TENSOR_ENTRY)

/* `include_heads` and `include_layers`, for routes that know them. */
bool forward_read_include_heads(struct json_reader *r, void *context, struct error *error);
bool forward_read_include_layers(struct json_reader *r, void *context, struct error *error);

/* Where the integers go that `reader` reads from bytes; NULL: it reads no integers. */
typedef bool raw_tensor_reader(const struct raw_tensor *raw, const char *pointer, void *context, struct error *error);
struct integers *forward_integers(struct forward_request *request, raw_tensor_reader *reader);

/* `decimals` and `encoding`, for routes whose answers have tensors. */
bool forward_read_decimals(struct json_reader *r, void *context, struct error *error);
bool forward_read_encoding(struct json_reader *r, void *context, struct error *error);

/* Reads a body, in whichever form, into the context; then what forward_request_complete demands. On failure the arena
 * is as it was. */
bool forward_read_body(const struct request_body *body, const struct request_member *list, size_t count,
                       struct forward_decoding *context, struct error *error);

/* The part of forward_request_check that has tokens for embeddings (forward_embedding.c): fills the sizes and the
 * embedding of *problem, and then, once its mask and position_ids are there, sees that each has a row of its table. */
bool forward_check_embedding(const struct forward_request *request, const struct model_shape *model,
                             struct forward_input *problem, struct error *error);
bool forward_check_rows(const struct forward_request *request, const struct model_shape *model,
                        const struct forward_input *problem, struct error *error);

/* The part of forward_request_check that has the rules (forward_rules.c): fills causal, rules and position_ids of
 * *problem, whose sizes, mask, bias and head_mask are there. */
bool forward_check_rules(const struct forward_request *request, const struct attention_shape *shape,
                         const struct rules_defaults *defaults, struct forward_input *problem, struct error *error);

/* Parts of forward_request_check, for maps that were posted. forward_check_mask fills problem->mask and its kind, by
 * the sizes in *problem. */
bool forward_check_mask(const struct mask *mask, struct forward_input *problem, struct error *error);
bool forward_check_include_heads(const struct forward_request *request, size_t num_heads, struct error *error);
bool forward_check_include_layers(const struct forward_request *request, size_t num_layers, struct error *error);

/* ---- for other forms of a /v1/forward request */

/* What a request is before any member has come. */
#define FORWARD_REQUEST_DEFAULTS                                     \
    {                                                                \
        .returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1 \
    }

/* All members of a /v1/forward request, for a context that is a struct forward_decoding of a request with the defaults.
 */
struct request_members forward_request_members(struct forward_decoding *context);

/* Once all have come: exactly one of the inputs is there, as forward_request_decode has it; what would be embedded is
 * in request->embedding then. */
bool forward_request_complete(struct forward_request *request, struct error *error);

#endif
