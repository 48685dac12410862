/* One multi-head attention over a ragged batch made of any number of requests' tensors.
 *
 * The rows that are computed (padding is not) of all sequences of all inputs are concatenated, x [N, d_model];
 * projections are one product over N rows, attention runs per sequence and head. Every number is reduced in one fixed
 * order, so a request's results have the same bits whatever it is computed together with, on any number of lanes, and
 * whatever is returned beside. */
#ifndef ATTND_ENGINE_FORWARD_H
#define ATTND_ENGINE_FORWARD_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/attention.h"
#include "engine/parallel.h"
#include "engine/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum forward_mask {
    FORWARD_MASK_NONE,
    FORWARD_MASK_KEYS, /* [B, Tk]. In self-attention padding: such a position is neither key nor query, and its rows of
                          all results are 0. In cross attention it hides keys only */
    FORWARD_MASK_PAIRS /* [B, Tq, Tk] */
};

/* What stands in place of the rows of `query` where a model has embeddings (model_shape.h): one of the three. */
struct embedding_input {
    const uint32_t *ids;      /* [B, T], each a row of the token table */
    const float *embeds;      /* [B, T, width] in place of the token rows */
    const float *pixels;      /* [B, channels, image_size, image_size]; T is 1 + the number of patches */
    const uint32_t *type_ids; /* [B, T]; NULL: 0 */
};

struct forward_input {
    size_t batch, query_length, key_length;  /* B, Tq, Tk; all at least 1 */
    size_t num_layers;                       /* of the model that it is for; 0: a bare layer */
    bool rank2;                              /* the request had no batch axis (batch is 1): for whoever prints shapes */
    bool self_attention;                     /* query, key and value are the same tensor */
    bool causal_given;                       /* `causal` overrules the layers' own (model_shape.h) */
    bool causal;                             /* key j is allowed for query i when j <= i + (Tk - Tq) */
    const float *query;                      /* [B, Tq, d_model]; unused with an embedding */
    const struct embedding_input *embedding; /* for models that have one; NULL: query is given. self_attention */
    const float *key, *value; /* [B, Tk, d_model]; may be the same tensor as each other or (self-attention) as query */
    enum forward_mask mask_kind;
    const uint8_t *mask; /* 1 keep, 0 not allowed */
    /* [H, Tq, Tk], or [B, H, Tq, Tk]; NULL: none. Added to the scaled scores. -infinity hides a key, as do values far
     * below the others; a row whose allowed keys all have such finite values is still normalised. */
    const float *bias;
    bool bias_per_sequence;              /* bias has the B axis */
    const float *head_mask;              /* [H]; NULL: all 1 */
    bool head_mask_per_layer;            /* of a model: [L, H] */
    const struct attention_rules *rules; /* NULL: none. The same for all inputs that are computed together */
    const uint32_t *position_ids; /* [Tq], or [B, Tq]: where tokens stand for rules.h's position; self-attention only.
                                     NULL: in order */
    bool positions_per_sequence;  /* position_ids has the B axis */
    bool no_maps;                 /* its result has no attention; under nystrom it then takes far less memory */
    bool observed;      /* its weights are shown to the observer of forward_run_observed; it takes more memory */
    size_t first_layer; /* of a model: the layers before it are passed over. The same for all inputs that are computed
                           together; 0 with an embedding */
};

/* What is wanted: buffers of the caller, NULL for what is not. All of them are written whole. Row-major, with the B
 * axis. */
struct forward_result {
    float *output;    /* [B, Tq, d_model]; with dropout the mean over its samples */
    float *attention; /* [B, n_maps, Tq, forward_map_columns] */
    float *heads;     /* [B, n_maps, Tq, d_v]: Z, before head_mask */
    float *query;     /* [B, num_heads, Tq, d_k]: projections, with bias, before scale */
    float *key;       /* [B, num_heads, Tk, d_k]: each query head's own copy, also where heads share keys */
    float *value;     /* [B, num_heads, Tk, d_v]; the same */
    const uint32_t *include_heads; /* [n_maps], each < num_heads; NULL: all heads in order (n_maps = num_heads) */
    size_t n_maps;
    /* Of a model of many layers: how many layers' tensors (attention, heads, query, key, value) lie side by side, each
     * as above but for the B axis, which comes first. The pointers are to this layer's. 0: one. For model_run: which
     * layers these are; NULL: all in order. Their heads_used is [B, L, num_heads] */
    size_t n_layers;
    const uint32_t *include_layers; /* [n_layers], each < num_layers, ascending or not, each once */
    bool each_layer; /* for model_run: these tensors are of one layer, and hold one after the other, for the observer's
                        `layer`; heads_used too. No include_layers */
    float *hidden_states;     /* [B, n_states, Tq, d_model]: the first layer's input, and what each layer leaves */
    size_t n_states;          /* L + 1 */
    float *output_std;        /* [B, Tq, d_model]: over the samples of dropout; NULL without */
    uint8_t *heads_used;      /* [B, num_heads]: 1 for a head that keep_heads has kept; NULL without */
    size_t fully_masked_rows; /* out: computed query rows that mask, causal and pattern leave no key, once per sequence,
                                 not per head */
    bool approximate;         /* out: the maps need not be distributions over keys (low_rank) */
};

/* Where the plane of a head, the place-th of `planes`, begins in a tensor of the result, in planes. */
static inline size_t forward_plane(const struct forward_result *result, size_t sequence, size_t planes, size_t place)
{
    return sequence * (result->n_layers ? result->n_layers : 1) * planes + place;
}

/* How far behind its index a query row stands: under causal the last query meets the last key (rules.h). */
static inline ptrdiff_t forward_position_shift(const struct forward_input *input)
{
    return input->causal ? (ptrdiff_t)input->key_length - (ptrdiff_t)input->query_length : 0;
}

/* How many of these bytes of a mask keep what they stand for. */
static inline size_t forward_mask_count(const uint8_t *mask, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < length; i++)
        kept += mask[i] != 0;
    return kept;
}

/* Columns of a map: Tk, under linformer its projected keys. */
static inline size_t forward_map_columns(const struct forward_input *input)
{
    return input->rules && input->rules->low_rank.kind == LOW_RANK_LINFORMER ? input->rules->low_rank.projected_keys
                                                                             : input->key_length;
}

/* Floating-point operations of the products (multiply and add count as two), for limits and queueing. An upper bound:
 * neither padding nor masks nor causal are taken off. Rules count as what they make the engine do: the tiles of a
 * pattern, its draws, landmarks and their inverse, every sample of dropout. Maps that nystrom would have to multiply
 * out are not in it: forward_map_flop. Saturates at DBL_MAX. */
double forward_flop(const struct attention_shape *shape, const struct forward_input *input);
/* What returning n_maps maps adds to it: nothing but under nystrom. */
double forward_map_flop(const struct forward_input *input, size_t n_maps);

/* The scores that the rule's definition needs for the rows that are computed, of all sequences and heads: pairs that
 * masks, causal order and pattern allow; of linformer and nystrom those of their smaller matrices. Exact. Takes
 * forward_pairs_bytes of the arena, which has to hold them, and gives them back. False when cancelled. */
bool forward_pairs(const struct attention_shape *shape, const struct forward_input *input,
                   const struct parallel *parallel, struct arena *arena, double *pairs);
/* False on overflow. */
bool forward_pairs_bytes(const struct forward_input *input, unsigned lanes, size_t *bytes);

/* The arena that forward_run needs for these `count` inputs on `lanes` lanes, whatever results are wanted. It depends
 * on the padding masks, which are read. False when it overflows size_t. */
bool forward_scratch_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                           unsigned lanes, size_t *bytes);

/* Computes `count` inputs together. The arena must hold forward_scratch_bytes. False when parallel->cancelled said so
 * (ERROR_CLIENT_GONE, to be replaced by the caller's reason) or the arena is too small (ERROR_OUT_OF_MEMORY); the
 * results are then unspecified. Finite inputs can overflow float32 inside: such a sequence's results hold NaN or
 * infinity, for the caller to report; those of other sequences do not. What is taken from the arena stays taken. */
bool forward_run(const struct attention_layer *layer, const struct forward_input *const *inputs,
                 struct forward_result *const *results, size_t count, const struct parallel *parallel,
                 struct arena *arena, struct error *error);

#endif
