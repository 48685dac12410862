/* Dropout of attention weights as a measure of uncertainty: attention and the output projection are repeated with other
 * weights dropped, and the outputs' mean and deviation answered (Gal & Ghahramani, Dropout as a Bayesian Approximation,
 * 2016). Whether a weight is dropped is a function of where it stands, so that any order of work drops the same. */
#ifndef ATTND_ENGINE_DROPOUT_H
#define ATTND_ENGINE_DROPOUT_H

#include "engine/kernels/kernels.h"
#include "engine/rules.h"
#include "engine/split.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attention_shape;
struct batch;
struct batch_extent;
struct sequence;

/* Which of a set's weights are dropped. */
struct dropout_place {
    uint64_t seed;
    uint32_t limit; /* numbers below it, of 2^24, drop a weight */
    float factor;   /* of those that stay: 1 / (1 - rate) */
    size_t layer, num_layers;
};

/* Some samples of a batch's attention, computed together: attend.c takes the place of the batch's heads. */
struct dropout_pass {
    struct dropout_place place;
    size_t first_sample, n_samples; /* samples count from 1 */
    float *heads;                   /* [n_samples, n_queries, num_heads * d_v], after head_mask */
    size_t heads_stride;            /* between rows */
};

struct dropout_place dropout_place_of(const struct attention_rules *rules);

static inline bool dropout_wanted(const struct attention_rules *rules)
{
    return rules && rules->dropout.samples > 0;
}

/* One row of a head's weights in one sample: those of the keys first_key and on, `count` positions in a row. */
void dropout_row(const struct kernels *kernels, const struct dropout_place *place, size_t sample, size_t plane,
                 size_t query, size_t first_key, size_t count, const float *from /* [count] */,
                 float *to /* [count]; may be the same */);

/* (sequence * num_layers + layer) * num_heads + head */
size_t dropout_plane(const struct dropout_place *place, size_t sequence, size_t num_heads, size_t head);

/* Memory for the samples of a batch; 0 without dropout. False on overflow. */
bool dropout_bytes(const struct attention_shape *shape, const struct attention_rules *rules,
                   const struct batch_extent *extent, size_t *bytes);

/* One sample's attention in place of the batch's heads, for a model, of which each sample is a pass of its own: `rules`
 * has one sample. Where heads are kept by what they did, that is known by now. */
bool batch_attend_sample(const struct batch *batch, size_t sample, struct work *work);

/* Once the batch's output is there, without dropout: replaces it by the mean of the samples' and fills output_std. */
bool batch_sample(const struct batch *batch, struct work *work);

#endif
