/* What is kept of traffic: sums of constant size, from which the live statistics and similarities follow, and which
 * add. Pure: any thread, with sums of its own.
 *
 * All heads of a layer have the same allowed keys, so what depends on those alone is kept once for all of them. */
#ifndef ATTND_ANALYSIS_LIVE_SUMS_H
#define ATTND_ANALYSIS_LIVE_SUMS_H

#include "analysis/ratio_sums.h"
#include "analysis/row_statistics.h"

#include <stdbool.h>
#include <stddef.h>

#define LIVE_COUNT(code, name, rows, placed, live, baseline)    +(live && !baseline)
#define LIVE_BASELINE(code, name, rows, placed, live, baseline) +(live && baseline)
enum {
    LIVE_STATISTIC_COUNT = 0 HEAD_STATISTICS(LIVE_COUNT),  /* of each head */
    LIVE_BASELINE_COUNT = 0 HEAD_STATISTICS(LIVE_BASELINE) /* of all heads */
};
#undef LIVE_COUNT
#undef LIVE_BASELINE

/* Which ones, in the order of answers. */
extern const enum head_statistic live_statistics[LIVE_STATISTIC_COUNT], live_baselines[LIVE_BASELINE_COUNT];

/* Counts are doubles, which hold every integer up to 2^53: all that is summed up is. */
struct live_counts {
    double sequences; /* those with a scored row */
    double rows;      /* scored */
    double excluded;  /* left out: padding, or no allowed key */
    double skipped; /* sequences that were not counted: under another rule than the set's own, or for lack of memory */
    double allowed; /* N: pairs of a scored row and a key allowed to it */
    double even;    /* U: sum over rows of 1/n_i */
};

/* The products are those of attention less even attention, c_i = a_i - 1/n_i over the allowed keys: since rows sum to
 * 1, <a, b> = <c_a, c_b> + U, and where heads are near to even, nothing cancels. */
struct live_sums {
    size_t num_layers, num_heads;
    struct live_counts counts;
    struct ratio_sums *statistics; /* [num_layers, num_heads, LIVE_STATISTIC_COUNT] */
    struct ratio_sums *baselines;  /* [LIVE_BASELINE_COUNT] */
    double *products; /* [num_layers, num_heads (num_heads + 1) / 2]: <c_a, c_b> for b <= a, at a (a + 1) / 2 + b */
};

/* The memory of live_sums_init for one layer: no more than 1 KiB + 1 KiB for each head + 4 num_heads^2. False on
 * overflow. */
bool live_sums_bytes(size_t num_layers, size_t num_heads, size_t *bytes);
/* Empty sums in memory [live_sums_bytes], which stays the caller's and is aligned for doubles. */
void live_sums_init(struct live_sums *sums, size_t num_layers, size_t num_heads, void *memory);
/* The same without clearing the memory: the first sums that are merged into these are copied there. Until then only
 * `counts` may be read. */
void live_sums_lay(struct live_sums *sums, size_t num_layers, size_t num_heads, void *memory);
void live_sums_clear(struct live_sums *sums);
bool live_sums_are_empty(const struct live_sums *sums);
/* Adds other sums of the same shape. The result is the same whatever was added first, to 1e-12 of its size. */
void live_sums_merge(struct live_sums *sums, const struct live_sums *other);
/* to = from, of the same shape. */
void live_sums_copy(struct live_sums *to, const struct live_sums *from);

static inline size_t live_sums_pairs(size_t num_heads)
{
    return num_heads * (num_heads + 1) / 2;
}

/* <c_a, c_b> of a layer. */
static inline double live_sums_product(const struct live_sums *sums, size_t layer, size_t head_a, size_t head_b)
{
    const size_t a = head_a > head_b ? head_a : head_b, b = head_a > head_b ? head_b : head_a;
    return sums->products[layer * live_sums_pairs(sums->num_heads) + a * (a + 1) / 2 + b];
}

/* Mean and standard error of a statistic that is live, baselines too. */
const struct ratio_sums *live_sums_of(const struct live_sums *sums, size_t layer, size_t head,
                                      enum head_statistic statistic);

#endif
