/* What is kept of traffic: sums of constant size, from which the live statistics and similarities follow, and which
 * add. Pure: any thread, with sums of its own.
 *
 * All heads of a layer have the same allowed keys, so what depends on those alone is kept once for all of them; and
 * once for all layers, unless those have rules of their own. */
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

#define LIVE_ENTRY_00(code)
#define LIVE_ENTRY_01(code)
#define LIVE_ENTRY_10(code) LIVE_##code,
#define LIVE_ENTRY_11(code)
#define LIVE_ENTRY(code, name, rows, placed, live, baseline) LIVE_ENTRY_##live##baseline(code)
enum live_statistic { HEAD_STATISTICS(LIVE_ENTRY) }; /* those of each head: LIVE_STATISTIC_ENTROPY and so on */
#undef LIVE_ENTRY
#undef LIVE_ENTRY_11
#undef LIVE_ENTRY_10
#undef LIVE_ENTRY_01
#undef LIVE_ENTRY_00

/* Which ones, in the order of answers. */
extern const enum head_statistic live_statistics[LIVE_STATISTIC_COUNT], live_baselines[LIVE_BASELINE_COUNT];

/* What sums are of. */
struct live_shape {
    size_t num_layers, num_heads;
    bool by_layer; /* rows see other keys in one layer than in another: what depends on those is kept for each layer */
};

/* Counts are doubles, which hold every integer up to 2^53: all that is summed up is. Where they differ between layers,
 * `sequences` and `rows` are the most that a layer has, and `excluded` goes with `rows`. */
struct live_counts {
    double sequences; /* those with a scored row */
    double rows;      /* scored */
    double excluded;  /* left out: padding, or no allowed key */
    double skipped; /* sequences that were not counted: under another rule than the set's own, or for lack of memory */
};

/* Over the scored rows of a layer. */
struct live_keys {
    double allowed; /* N: pairs of a row and a key allowed to it */
    double even;    /* U: sum over rows of 1/n_i */
};

/* Sums of ratio_sums.h of one statistic, of all heads: these they have in common, and those of live_sums_values. */
struct live_means {
    double sequences, n, nn;
};

/* The products are those of attention less even attention, c_i = a_i - 1/n_i over the allowed keys: since rows sum to
 * 1, <a, b> = <c_a, c_b> + U, and where heads are near to even, nothing cancels. */
struct live_sums {
    size_t num_layers, num_heads;
    size_t num_parts; /* 1, of all layers; num_layers, each of its layer (live_shape.by_layer) */
    struct live_counts counts;
    size_t columns; /* the heads of a part, up to a multiple of LIVE_MEANS_PADDING; 0 in those that are none */
    double *values; /* [num_parts, LIVE_STATISTIC_COUNT, 4, columns]: offset, z, zz, zn of each statistic. First in
                       memory */
    struct live_means *means;     /* [num_parts, LIVE_STATISTIC_COUNT] */
    struct ratio_sums *baselines; /* [num_parts, LIVE_BASELINE_COUNT] */
    struct live_keys *keys;       /* [num_parts] */
    double *products; /* [num_layers, num_heads (num_heads + 1) / 2]: <c_a, c_b> for b <= a, at a (a + 1) / 2 + b */
};

/* The memory of live_sums_init for one layer: no more than 4 KiB + 1 KiB for each head + 4 num_heads^2. False on
 * overflow. */
bool live_sums_bytes(struct live_shape shape, size_t *bytes);
/* Empty sums in memory [live_sums_bytes], which stays the caller's and is aligned for doubles. */
void live_sums_init(struct live_sums *sums, struct live_shape shape, void *memory);
/* The same without clearing the memory: the first sums that are merged into these are copied there. Until then only
 * `counts` may be read. */
void live_sums_lay(struct live_sums *sums, struct live_shape shape, void *memory);
void live_sums_clear(struct live_sums *sums);
/* The same, but that statistics are written when sums are added: at least one sequence must be, or other sums that are
 * not empty merged, before they are read. */
void live_sums_begin(struct live_sums *sums);
bool live_sums_are_empty(const struct live_sums *sums);
/* Adds a sequence to the statistics and baselines of a part, not to counts, keys and products: sums over its rows,
 * which are so many of each set. */
void live_sums_add_sequence(struct live_sums *sums, size_t part, const double *y /* [LIVE_STATISTIC_COUNT, columns] */,
                            const double *baselines /* [LIVE_BASELINE_COUNT] */,
                            const double *rows /* [ROW_SET_COUNT] */);
/* Adds other sums of the same shape. The result is the same whatever was added first, to 1e-12 of its size. */
void live_sums_merge(struct live_sums *sums, const struct live_sums *other);
/* to = from, of the same shape. */
void live_sums_copy(struct live_sums *to, const struct live_sums *from);

/* The part that a layer belongs to, and the column of its first head there. */
static inline size_t live_sums_part(const struct live_sums *sums, size_t layer)
{
    return sums->num_parts > 1 ? layer : 0;
}

static inline size_t live_sums_column(const struct live_sums *sums, size_t layer)
{
    return sums->num_parts > 1 ? 0 : layer * sums->num_heads;
}

/* The heads of a part. */
static inline size_t live_sums_part_heads(const struct live_sums *sums)
{
    return sums->num_layers / sums->num_parts * sums->num_heads;
}

/* Offset, z, zz and zn of a statistic: [4, columns]. */
static inline double *live_sums_values(const struct live_sums *sums, size_t part, size_t statistic)
{
    return sums->values + (part * LIVE_STATISTIC_COUNT + statistic) * 4 * sums->columns;
}

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

/* Those of a statistic that is live, baselines too. */
struct ratio_sums live_sums_of(const struct live_sums *sums, size_t layer, size_t head, enum head_statistic statistic);

#endif
