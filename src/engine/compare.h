/* How far attention under rules is from attention without what approximates. */
#ifndef ATTND_ENGINE_COMPARE_H
#define ATTND_ENGINE_COMPARE_H

#include "engine/forward.h"

/* The errors are NaN where they are undefined. */
struct approximation {
    double output_error;    /* ||y - y_full||_F / ||y_full||_F over the rows that the full run scores */
    double attention_error; /* mean of half the L1 distance of those rows' weights, over all heads */
    double pairs, pairs_full;
};

/* forward_run of one input, and again under the same rules but with pattern, low_rank, keep_heads and dropout off, by
 * `full_layer`: the same one, but where the rule is low_rank svd. The result has the bits that forward_run gives.
 * Nothing of T x T is stored: rows of both runs' maps are made again, some at a time. The arena must hold
 * forward_compare_bytes. False as from forward_run. */
bool forward_run_compared(const struct attention_layer *layer, const struct attention_layer *full_layer,
                          const struct forward_input *input, struct forward_result *result,
                          const struct parallel *parallel, struct arena *arena, struct approximation *approximation,
                          struct error *error);

/* False on overflow. */
bool forward_compare_bytes(const struct attention_shape *shape, const struct attention_shape *full_shape,
                           const struct forward_input *input, unsigned lanes, size_t *bytes);
/* forward_flop of all that it does. */
double forward_compare_flop(const struct attention_shape *shape, const struct attention_shape *full_shape,
                            const struct forward_input *input);

#endif
