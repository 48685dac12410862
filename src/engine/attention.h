/* The weights of one attention layer, packed for the kernels. Knows nothing of files or HTTP. */
#ifndef ATTND_ENGINE_ATTENTION_H
#define ATTND_ENGINE_ATTENTION_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct attention_shape {
    size_t d_model;
    size_t num_heads, num_kv_heads; /* num_heads is a multiple: query head h reads key and value head h / (num_heads /
                                       num_kv_heads) */
    size_t d_k, d_v;
    float scale;    /* multiplies <q, k>; 1/sqrt(d_k) unless configured */
    bool projected; /* false: no projections (source identity); query, key, value are the heads side by side, d_model =
                       num_heads * d_k = num_heads * d_v */
};

/* Row-major, `x @ W`. A bias may be NULL: zero. */
struct attention_matrices {
    const float *w_q;                   /* [d_model, num_heads * d_k] */
    const float *w_k;                   /* [d_model, num_kv_heads * d_k] */
    const float *w_v;                   /* [d_model, num_kv_heads * d_v] */
    const float *w_o;                   /* [num_heads * d_v, d_model] */
    const float *b_q, *b_k, *b_v, *b_o; /* [columns of its matrix] */
};

/* Immutable once made; any number of threads may compute with it. */
struct attention_layer;

/* Copies and packs the matrices (NULL where !shape->projected). NULL when memory ran out. */
struct attention_layer *attention_layer_create(const struct attention_shape *shape,
                                               const struct attention_matrices *matrices, struct error *error);
void attention_layer_free(struct attention_layer *layer);
const struct attention_shape *attention_layer_shape(const struct attention_layer *layer);
/* Bytes it holds in memory. */
size_t attention_layer_bytes(const struct attention_layer *layer);

/* Chooses the kernels once, before any other call of the engine and before threads start: the best the processor and
 * the operating system support, or what ATTND_ISA names (`forced`, NULL: none). ERROR_CONFIGURATION names the known
 * ones when it is unknown or not supported here. */
bool engine_init(const char *forced, struct error *error);
/* The name of the kernels in use: "generic", "x86-64-v3", "x86-64-v4", "neon". */
const char *engine_isa(void);

#endif
