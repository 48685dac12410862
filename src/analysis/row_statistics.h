/* The statistics of heads that are means over rows, and what the rows of a tile add to them. */
#ifndef ATTND_ANALYSIS_ROW_STATISTICS_H
#define ATTND_ANALYSIS_ROW_STATISTICS_H

#include "analysis/head_maps.h"
#include "analysis/row_facts.h"
#include "analysis/row_measures/row_measures.h"

/* Which rows a mean is over. */
enum row_set {
    ROWS_SCORED,   /* all that have a key */
    ROWS_CHOOSING, /* that have two or more */
    ROWS_PREVIOUS, /* that may attend to the key before them, */
    ROWS_NEXT,     /* behind them, */
    ROWS_SELF,     /* at their own place, */
    ROWS_FIRST,    /* to key 0 */
    ROW_SET_COUNT
};

/* X(code, name, rows, placed, live, baseline), in the order of answers. placed: undefined where rows and keys are not
 * aligned. live: kept over traffic. baseline: what even attention would give, to read another one against.
 * docs/MODEL.md has the formulas and where they come from. */
#define HEAD_STATISTICS(X)                                                              \
    X(STATISTIC_ENTROPY, "entropy", ROWS_SCORED, 0, 1, 0)                               \
    X(STATISTIC_NORMALIZED_ENTROPY, "normalized_entropy", ROWS_CHOOSING, 0, 1, 0)       \
    X(STATISTIC_EFFECTIVE_KEYS, "effective_keys", ROWS_SCORED, 0, 1, 0)                 \
    X(STATISTIC_DISTANCE, "distance", ROWS_SCORED, 1, 1, 0)                             \
    X(STATISTIC_SIGNED_DISTANCE, "signed_distance", ROWS_SCORED, 1, 1, 0)               \
    X(STATISTIC_UNIFORM_DISTANCE, "uniform_distance", ROWS_SCORED, 1, 1, 1)             \
    X(STATISTIC_CONFIDENCE, "confidence", ROWS_SCORED, 0, 1, 0)                         \
    X(STATISTIC_GINI, "gini", ROWS_SCORED, 0, 0, 0)                                     \
    X(STATISTIC_HOYER, "hoyer", ROWS_CHOOSING, 0, 1, 0)                                 \
    X(STATISTIC_KEYS_FOR_90, "keys_for_90", ROWS_SCORED, 0, 0, 0)                       \
    X(STATISTIC_PREVIOUS_MASS, "previous_mass", ROWS_PREVIOUS, 1, 1, 0)                 \
    X(STATISTIC_NEXT_MASS, "next_mass", ROWS_NEXT, 1, 1, 0)                             \
    X(STATISTIC_SELF_MASS, "self_mass", ROWS_SELF, 1, 1, 0)                             \
    X(STATISTIC_FIRST_MASS, "first_mass", ROWS_FIRST, 0, 1, 0)                          \
    X(STATISTIC_UNIFORM_PREVIOUS_MASS, "uniform_previous_mass", ROWS_PREVIOUS, 1, 1, 1) \
    X(STATISTIC_UNIFORM_NEXT_MASS, "uniform_next_mass", ROWS_NEXT, 1, 1, 1)             \
    X(STATISTIC_UNIFORM_SELF_MASS, "uniform_self_mass", ROWS_SELF, 1, 1, 1)             \
    X(STATISTIC_UNIFORM_FIRST_MASS, "uniform_first_mass", ROWS_FIRST, 0, 1, 1)

#define HEAD_STATISTIC_ENUM(code, name, rows, placed, live, baseline) code,
enum head_statistic { HEAD_STATISTICS(HEAD_STATISTIC_ENUM) HEAD_STATISTIC_COUNT };
#undef HEAD_STATISTIC_ENUM

struct head_statistic_kind {
    const char *name;
    enum row_set rows;
    bool placed, live, baseline;
};

extern const struct head_statistic_kind head_statistic_kinds[HEAD_STATISTIC_COUNT];

/* What rows add up to: y_b and n_b, when they are those of a sequence. */
struct row_sums {
    double sum[HEAD_STATISTIC_COUNT];
    double rows[ROW_SET_COUNT]; /* of each set of rows */
};

/* Memory of row_statistics_add for that many keys: aligned as arenas align, as arena_need counts it. False when it
 * overflows. */
bool row_statistics_scratch_bytes(size_t n_keys, size_t *bytes);

/* Measures the rows of a tile of prepared maps, at most MEASURED_ROWS, and adds the values of those that are scored in
 * this head to *sums. `sorted`: gini and keys_for_90 too, else they add 0. *measures is what was measured.
 *
 * Keys that no row of the tile may attend to, at the end, may be left out of its n_keys. */
void row_statistics_add(const struct row_kernels *kernels, const struct head_maps *maps, const struct row_facts *facts,
                        size_t sequence, const struct head_tile *tile, bool sorted, void *scratch,
                        struct row_measures *measures, struct row_sums *sums);

#endif
