/* Which query rows of a forward an analysis scores, and which keys they may attend to. Padding and rows that are left
 * without a key are not scored. Pure: any thread. */
#ifndef ATTND_ANALYSIS_SCORED_ROWS_H
#define ATTND_ANALYSIS_SCORED_ROWS_H

#include "engine/forward.h"

/* The keys below this are allowed to query `row`, as far as `causal` goes. */
size_t allowed_key_limit(const struct forward_input *input, size_t row);

/* The keys of query `row` of a sequence that the mask allows [Tk], 1 or 0, or NULL: all. */
const uint8_t *allowed_keys(const struct forward_input *input, size_t sequence, size_t row);

/* Fills scored [B, Tq] with 1 or 0 and returns how many are 1. */
size_t scored_rows(const struct forward_input *input, uint8_t *scored);

#endif
