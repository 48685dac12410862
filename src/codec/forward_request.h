/* What /v1/forward is asked, decoded from a body, and its check against a weight set. */
#ifndef ATTND_CODEC_FORWARD_REQUEST_H
#define ATTND_CODEC_FORWARD_REQUEST_H

#include "base/error.h"
#include "base/size.h"
#include "codec/integers.h"
#include "codec/request_body.h"
#include "codec/rules_check.h"
#include "codec/tensor.h"
#include "engine/forward.h"

/* X(bit name, member name): what `return` may name, in the order in which answers carry them. */
#define FORWARD_RETURNS(X)           \
    X(RETURN_OUTPUT, "output")       \
    X(RETURN_ATTENTION, "attention") \
    X(RETURN_HEADS, "heads")         \
    X(RETURN_QUERY, "query")         \
    X(RETURN_KEY, "key")             \
    X(RETURN_VALUE, "value")         \
    X(RETURN_HIDDEN_STATES, "hidden_states")

#define FORWARD_RETURN_INDEX(bit, name) bit##_INDEX,
enum forward_return_index { FORWARD_RETURNS(FORWARD_RETURN_INDEX) FORWARD_RETURN_COUNT };
#undef FORWARD_RETURN_INDEX
#define FORWARD_RETURN_BIT(bit, name) bit = 1u << bit##_INDEX,
enum forward_return { FORWARD_RETURNS(FORWARD_RETURN_BIT) };
#undef FORWARD_RETURN_BIT

/* How an answer carries its tensors. The last is not asked for by `encoding`, but by what the client accepts. */
enum tensor_encoding { ENCODING_JSON, ENCODING_BASE64, ENCODING_SAFETENSORS };

/* The most entries of include_heads: far more than any layer has heads, and few enough to hold. */
#define FORWARD_MAX_INCLUDE_HEADS 65536

/* What an entry of include_heads is that no 32-bit head index can be. */
#define FORWARD_NO_HEAD UINT32_MAX

/* The members of rules that came, and what they make beside what the set does by default. */
struct forward_rules {
    struct rules_asked asked;
    struct attention_rules effective; /* once it is checked */
};

/* What it points to is in the arena that it was decoded into, or in the body. */
struct forward_request {
    const char *weights;                    /* NULL: the default set */
    const char *id;                         /* its JSON text, as it was sent; NULL: none */
    struct tensor input, query, key, value; /* rank 0: not there */
    struct integers input_ids, token_type_ids;
    struct tensor inputs_embeds, pixel_values;
    struct embedding_input embedding; /* of these, once all members have come */
    struct mask attention_mask;
    struct tensor bias, head_mask;
    bool causal, has_causal; /* has_causal: it was said */
    struct integers position_ids;
    struct forward_rules *rules; /* NULL: no member of a rule came */
    bool compare;                /* with the same set without what approximates */
    unsigned returned;           /* FORWARD_RETURNS bits; never 0 */
    uint32_t *include_heads; /* [n_include_heads]; NULL: all. Not checked before forward_request_check: then each is a
                                head and there once */
    size_t n_include_heads;
    int64_t no_head;          /* the first number that stands as FORWARD_NO_HEAD in include_heads, for its error */
    uint32_t *include_layers; /* [n_include_layers]; all as include_heads */
    size_t n_include_layers;
    int64_t no_layer;
    size_t top_k; /* 0: whole rows */
    int decimals; /* -1: shortest */
    enum tensor_encoding encoding;
    bool points_into_body; /* the body has to live as long as the request */
};

/* The pieces of memory that a request may have: nine tensors and masks, include_heads, include_layers, weights and id;
 * position_ids, input_ids, token_type_ids, the rules, and in them P or R, E, F and `global`; of an analysis
 * `attention`, and the parts of words, exclude and tokens (position_lists.h). */
#define FORWARD_REQUEST_PIECES 30

/* The most of an arena that decoding a body of `bytes` bytes takes at any moment; SIZE_MAX when that overflows. No part
 * of the body is in two pieces, and a piece is at most twice as long as its part: tensors as tensor_read_json has it,
 * an entry of include_heads, input_ids or `global` and its separator are two bytes of text and become four, a string
 * is no longer than its text between the quotes and a NUL; a tensor given as bytes is f16 at the narrowest. Rounding
 * adds less than ARENA_ALIGNMENT to a piece. The rules are there once, however short the text. */
static inline size_t forward_request_decoded_bytes(size_t bytes)
{
    size_t twice, total;
    if (!size_multiply(bytes, 2, &twice) ||
        !size_add(twice, FORWARD_REQUEST_PIECES * ARENA_ALIGNMENT + sizeof(struct forward_rules), &total))
        return SIZE_MAX;
    return total;
}

/* The member that the request's tokens came as: "input", "query", "input_ids", "inputs_embeds", "pixel_values". */
const char *forward_request_input(const struct forward_request *request);

/* Layers that include_layers asks for, of so many. */
static inline size_t forward_request_layers(const struct forward_request *request, size_t num_layers)
{
    return request->include_layers ? request->n_include_layers : num_layers;
}

/* The layer at a place among them. */
static inline size_t forward_request_layer(const struct forward_request *request, size_t place)
{
    return request->include_layers ? request->include_layers[place] : place;
}

/* The place of a layer among them; SIZE_MAX: it was not asked for. */
static inline size_t forward_request_layer_place(const struct forward_request *request, size_t layer)
{
    size_t place = 0;
    if (!request->include_layers)
        return layer;
    while (place < request->n_include_layers && request->include_layers[place] != layer)
        place++;
    return place < request->n_include_layers ? place : SIZE_MAX;
}

/* Decodes a body, of any form (request_body.h). Exactly one of `input`, `input_ids`, `inputs_embeds`, `pixel_values`
 * and the pair `query`, `key` is there; what needs the weight set's shape is left to forward_request_check.
 *
 * All that the request points to is taken from `arena`, which has forward_request_decoded_bytes(body->length) left
 * (else ERROR_OUT_OF_MEMORY, where it does not suffice) and afterwards holds no more than the request does. On failure
 * *request is empty and the arena as it was. */
bool forward_request_decode(const struct request_body *body, struct arena *arena, struct forward_request *request,
                            struct error *error);

/* Checks the request's shapes, rules and include_heads against the weight set's and against each other, and fills
 * *problem with what the engine is to compute (it points into the request and the defaults). Errors name found and
 * expected with the pointer of the member. `defaults`: what the set does where the request says nothing; NULL: plain
 * attention. */
bool forward_request_check(const struct forward_request *request, const struct attention_shape *shape,
                           const struct rules_defaults *defaults, struct forward_input *problem, struct error *error);

/* Refuses, as /low_rank, a rule whose maps are no distributions over keys: what measures heads has no use for them. */
bool forward_request_check_maps(const struct forward_input *problem, struct error *error);

#endif
