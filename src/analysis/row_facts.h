/* What a statistic needs to know of a row beside its weights, the same in all heads. */
#ifndef ATTND_ANALYSIS_ROW_FACTS_H
#define ATTND_ANALYSIS_ROW_FACTS_H

#include "analysis/head_maps.h"

/* Keys that exist and are allowed to a row. */
enum row_key {
    ROW_HAS_PREVIOUS = 1, /* i - 1 */
    ROW_HAS_NEXT = 2,     /* i + 1 */
    ROW_HAS_SELF = 4,     /* i */
    ROW_HAS_FIRST = 8     /* 0 */
};

/* Constant once made: any thread. */
struct row_facts {
    const uint8_t *keys;            /* [B, Tq] of row_key; the first three only where rows and keys are aligned */
    const double *uniform_distance; /* [B, Tq] mean |key - place| of its allowed keys; where aligned */
    const double *logarithms;       /* [longest_keys + 1] ln n */
};

/* The arena that row_facts_make takes from. False when that overflows. */
bool row_facts_bytes(const struct head_maps *maps, size_t *bytes);

/* Of prepared maps. False when the arena is too small, or when maps->watched is cancelled. */
bool row_facts_make(const struct head_maps *maps, struct arena *arena, struct row_facts *facts);

/* The key that a row stands at, where rows and keys are aligned; below 0 for rows that come before the first key. */
static inline ptrdiff_t row_place(const struct head_maps *maps, size_t row)
{
    return (ptrdiff_t)(row + maps->shift);
}

#endif
