/* What live sums need to know of the rows of an input beside their weights, the same in all heads. Where every row of a
 * sequence may attend to all of its keys it follows from their number alone. Made by the thread that runs the job,
 * constant from then on. */
#ifndef ATTND_ANALYSIS_LIVE_FACTS_H
#define ATTND_ANALYSIS_LIVE_FACTS_H

#include "analysis/live_kernels/live_kernels.h"
#include "analysis/live_sums.h"
#include "base/arena.h"
#include "engine/forward.h"

/* Of one sequence, after padding. */
struct live_sequence {
    size_t n_rows;
    double rows[ROW_SET_COUNT];            /* of each set of rows */
    double baselines[LIVE_BASELINE_COUNT]; /* sums over those rows, in the order of live_baselines */
    double allowed, even;                  /* sums over scored rows of n and 1 / n */
};

struct live_facts {
    const struct live_sequence *sequences; /* [B] */
    size_t stride;                         /* elements from one sequence's rows to the next one's; 0: all are alike */
    /* As in live_rows, of all sequences. */
    const float *even, *inverse_logarithm, *root, *inverse_root;
    const uint8_t *keys;
};

/* The arena that live_facts_make takes from, as arena_need counts it. False when that overflows. */
bool live_facts_bytes(const struct forward_input *input, size_t *bytes);

/* False when the arena is too small. */
bool live_facts_make(const struct forward_input *input, struct arena *arena, struct live_facts *facts);

/* Adds up the sequences: counts of an input, none of which was skipped, and its *keys. */
struct live_counts live_facts_count(const struct live_facts *facts, const struct forward_input *input,
                                    struct live_keys *keys);

#endif
