/* Two runs of one input side by side, for compare.c and model_compare.c: how far their maps and outputs are apart over
 * the rows that the full run scores. */
#ifndef ATTND_ENGINE_COMPARE_MAPS_H
#define ATTND_ENGINE_COMPARE_MAPS_H

#include "engine/batch.h"

/* Scored rows of all sequences: those that have an allowed key in the full run. */
size_t compare_count_scored(const struct batch *full);

/* The sum over scored rows and heads of half the L1 distance of the weights. Both batches are of `input`, with its
 * rules and without what approximates, and prepared; `full` is open for attention too. No rule acts on heads. Takes
 * compare_maps_bytes of the arena. False when cancelled, or when the arena is too small. */
bool compare_maps(const struct batch *maps, const struct batch *full, const struct forward_input *input,
                  struct work *work, struct arena *arena, double *sum, struct error *error);
/* False on overflow. */
bool compare_maps_bytes(const struct attention_shape *shape, const struct forward_input *input, unsigned lanes,
                        size_t *bytes);

/* ||y - y_full||_F / ||y_full||_F over scored rows; NaN where the latter is 0. */
double compare_outputs(const struct batch *full, const float *output /* [B, Tq, d_model] */,
                       const float *full_output /* the same */);

#endif
