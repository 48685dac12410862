/* Sums over all pairs of heads, [heads, heads], of which the lower half is computed. They are kept in a few parts side
 * by side, one for each piece of the work that may run at the same time, and added up in order at the end: the same
 * bits on any number of lanes. */
#ifndef ATTND_ANALYSIS_GRAM_H
#define ATTND_ANALYSIS_GRAM_H

#include "base/arena.h"

#include <stddef.h>

struct gram {
    size_t heads, parts;
    double *sums; /* [parts, heads, heads] */
};

/* How many parts there are where the work is at most `pieces`: depends on nothing else, so that results do not. */
size_t gram_parts(size_t heads, size_t pieces);

/* Memory of gram_init, as arena_need counts it. False on overflow. */
bool gram_bytes(size_t heads, size_t parts, size_t *bytes);
/* False when the arena is too small. The sums are not set yet. */
bool gram_init(struct gram *gram, size_t heads, size_t parts, struct arena *arena);
void gram_clear(struct gram *gram);

/* Part `index` [heads, heads]. */
static inline double *gram_part(const struct gram *gram, size_t index)
{
    return gram->sums + index * gram->heads * gram->heads;
}

/* The sums of all parts: total [heads, heads], its lower half; may be part 0. */
void gram_total(const struct gram *gram, double *total);

#endif
