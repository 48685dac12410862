/* Query rows that mask, causal order and pattern leave no key, for forward_result.fully_masked_rows. */
#ifndef ATTND_ENGINE_FULLY_MASKED_H
#define ATTND_ENGINE_FULLY_MASKED_H

#include "engine/batch.h"

/* Of a sequence without a sparse pattern; 0 with one. */
size_t fully_masked_plain(const struct sequence *s);

/* Adds those of the sequences under a sparse pattern to their results. False when cancelled. */
bool batch_count_fully_masked(const struct batch *batch, struct work *work);

#endif
