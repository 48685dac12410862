/* From the measures of rows to the values that the means are over. Pure: any thread with memory of its own. */
#include "analysis/row_statistics.h"

#include "base/size.h"

#include <math.h>

#define HEAD_STATISTIC_KIND(code, name, rows, placed, live, baseline) {name, rows, placed, live, baseline},
const struct head_statistic_kind head_statistic_kinds[HEAD_STATISTIC_COUNT] = {HEAD_STATISTICS(HEAD_STATISTIC_KIND)};

bool row_statistics_scratch_bytes(size_t n_keys, size_t *bytes)
{
    const size_t shape[] = {n_keys + MEASURED_KEYS_PADDING - 1, MEASURED_ROWS};
    size_t one, total = 0;
    if (n_keys > SIZE_MAX - MEASURED_KEYS_PADDING || !tensor_bytes(shape, 2, sizeof(float), &one) ||
        !arena_need(&total, one))
        return false;
    *bytes = total;
    return true;
}

/* The mass on one key, where the row may attend to it. */
static void add_mass(struct row_sums *sums, enum row_set rows, enum head_statistic mass, enum head_statistic uniform,
                     double weight, double even)
{
    sums->rows[rows] += 1;
    sums->sum[mass] += weight;
    sums->sum[uniform] += even;
}

static void add_masses(struct row_sums *sums, uint8_t keys, const float *weights /* [n_keys] */, ptrdiff_t place,
                       double even)
{
    if (keys & ROW_HAS_PREVIOUS)
        add_mass(sums, ROWS_PREVIOUS, STATISTIC_PREVIOUS_MASS, STATISTIC_UNIFORM_PREVIOUS_MASS,
                 (double)weights[place - 1], even);
    if (keys & ROW_HAS_NEXT)
        add_mass(sums, ROWS_NEXT, STATISTIC_NEXT_MASS, STATISTIC_UNIFORM_NEXT_MASS, (double)weights[place + 1], even);
    if (keys & ROW_HAS_SELF)
        add_mass(sums, ROWS_SELF, STATISTIC_SELF_MASS, STATISTIC_UNIFORM_SELF_MASS, (double)weights[place], even);
    if (keys & ROW_HAS_FIRST)
        add_mass(sums, ROWS_FIRST, STATISTIC_FIRST_MASS, STATISTIC_UNIFORM_FIRST_MASS, (double)weights[0], even);
}

/* Rounding, and rows that sum to a little more than 1, lead beyond what is possible. */
static double within(double value, double most)
{
    return fmin(fmax(value, 0), most);
}

static void add_order(struct row_sums *sums, const struct row_measures *m, size_t i, size_t n_keys, double n)
{
    /* Keys that are not allowed are zeros at the beginning of the order: rank k of n is rank k + n_keys - n of all, and
     * sum (2k - n - 1) p_k becomes this. */
    const double spread = 2 * m->rank_sum[i] - (2 * (double)n_keys - n + 1) * m->total[i];
    sums->sum[STATISTIC_GINI] += within(spread / (n * m->total[i]), 1);
    sums->sum[STATISTIC_KEYS_FOR_90] += (double)m->keys_for_share[i];
}

void row_statistics_add(const struct row_kernels *kernels, const struct head_maps *maps, const struct row_facts *facts,
                        size_t sequence, const struct head_tile *tile, bool sorted, void *scratch,
                        struct row_measures *measures, struct row_sums *sums)
{
    const struct measured_rows rows = {.weights = tile->weights,
                                       .stride = tile->stride,
                                       .n_rows = tile->n_rows,
                                       .n_keys = tile->n_keys,
                                       .first_place = row_place(maps, tile->first_row)};
    struct row_measures *m = measures;
    kernels->measure(&rows, sorted, scratch, measures);
    for (size_t i = 0; i < tile->n_rows; i++) {
        if (tile->n_allowed[i] == 0)
            continue;
        const size_t row = tile->first_row + i, at = sequence * maps->rule->query_length + row;
        const double n = (double)tile->n_allowed[i];
        sums->rows[ROWS_SCORED] += 1;
        const double most = facts->logarithms[tile->n_allowed[i]];
        m->entropy[i] = within(m->entropy[i], most);
        sums->sum[STATISTIC_ENTROPY] += m->entropy[i];
        sums->sum[STATISTIC_EFFECTIVE_KEYS] += fmin(exp(m->entropy[i]), n);
        sums->sum[STATISTIC_CONFIDENCE] += (double)m->largest[i];
        if (maps->aligned) {
            sums->sum[STATISTIC_DISTANCE] += m->distance[i];
            sums->sum[STATISTIC_SIGNED_DISTANCE] += m->signed_distance[i];
            sums->sum[STATISTIC_UNIFORM_DISTANCE] += facts->uniform_distance[at];
        }
        if (tile->n_allowed[i] > 1) {
            const double root = sqrt(n);
            sums->rows[ROWS_CHOOSING] += 1;
            sums->sum[STATISTIC_NORMALIZED_ENTROPY] += m->entropy[i] / most;
            sums->sum[STATISTIC_HOYER] += within((root - m->total[i] / sqrt(m->squares[i])) / (root - 1), 1);
        }
        if (sorted)
            add_order(sums, m, i, tile->n_keys, n);
        add_masses(sums, facts->keys[at], tile->weights + i * tile->stride, row_place(maps, row), 1 / n);
    }
}
