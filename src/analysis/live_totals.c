/* Totals from sums: see live_totals.h. */
#include "analysis/live_totals.h"

#include "base/size.h"

#include <string.h>

bool live_totals_bytes(size_t num_layers, size_t num_heads, size_t *bytes)
{
    size_t count;
    return size_multiply(num_heads, LIVE_STATISTIC_COUNT, &count) &&
           size_add(count, ROW_SET_COUNT + LIVE_BASELINE_COUNT, &count) && size_multiply(count, num_layers, &count) &&
           size_add(count, LIVE_TOTAL_COUNTS, &count) && size_multiply(count, sizeof(double), bytes);
}

void live_totals_init(struct live_totals *totals, size_t num_layers, size_t num_heads, void *memory)
{
    size_t bytes = 0;
    live_totals_bytes(num_layers, num_heads, &bytes);
    memset(memory, 0, bytes);
    *totals = (struct live_totals){.num_layers = num_layers, .num_heads = num_heads, .values = memory};
    totals->counts = totals->values;
    totals->rows = totals->counts + LIVE_TOTAL_COUNTS;
    totals->even = totals->rows + num_layers * ROW_SET_COUNT;
    totals->heads = totals->even + num_layers * LIVE_BASELINE_COUNT;
}

/* sum y_b, whatever they were summed about. */
static double sum_of(double offset, double z, double n)
{
    return z + offset * n;
}

/* All heads of a layer have the same rows. */
static void add_rows(struct live_totals *totals, const struct live_sums *sums, size_t layer)
{
    bool known[ROW_SET_COUNT] = {false};
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
        const enum row_set set = head_statistic_kinds[live_statistics[i]].rows;
        if (!known[set])
            totals->rows[layer * ROW_SET_COUNT + set] +=
                sums->means[live_sums_part(sums, layer) * LIVE_STATISTIC_COUNT + i].n;
        known[set] = true;
    }
}

void live_totals_add_sums(struct live_totals *totals, const struct live_sums *sums)
{
    const size_t layers = size_min(totals->num_layers, sums->num_layers),
                 heads = size_min(totals->num_heads, sums->num_heads);
    totals->counts[LIVE_TOTAL_SEQUENCES] += sums->counts.sequences;
    totals->counts[LIVE_TOTAL_SKIPPED] += sums->counts.skipped;
    totals->counts[LIVE_TOTAL_EXCLUDED] += sums->counts.excluded;
    for (size_t layer = 0; layer < layers; layer++) {
        const size_t part = live_sums_part(sums, layer);
        double *to = totals->heads + layer * totals->num_heads * LIVE_STATISTIC_COUNT;
        add_rows(totals, sums, layer);
        for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++) {
            const struct ratio_sums *even = &sums->baselines[part * LIVE_BASELINE_COUNT + i];
            totals->even[layer * LIVE_BASELINE_COUNT + i] += sum_of(even->offset, even->z, even->n);
        }
        for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
            const double *offsets = live_sums_values(sums, part, i) + live_sums_column(sums, layer),
                         *z = offsets + sums->columns, n = sums->means[part * LIVE_STATISTIC_COUNT + i].n;
            if (live_statistics[i] == STATISTIC_SIGNED_DISTANCE || !(n > 0))
                continue;
            for (size_t head = 0; head < heads; head++)
                to[head * LIVE_STATISTIC_COUNT + i] += sum_of(offsets[head], z[head], n);
        }
    }
}

static void add(double *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

static void raise_to(double *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Does it to all that is in both. */
static void combine(struct live_totals *totals, const struct live_totals *other,
                    void (*change)(double *to, const double *from, size_t count))
{
    const size_t layers = size_min(totals->num_layers, other->num_layers),
                 heads = size_min(totals->num_heads, other->num_heads);
    change(totals->counts, other->counts, LIVE_TOTAL_COUNTS);
    change(totals->rows, other->rows, layers * ROW_SET_COUNT);
    change(totals->even, other->even, layers * LIVE_BASELINE_COUNT);
    for (size_t layer = 0; layer < layers; layer++)
        change(totals->heads + layer * totals->num_heads * LIVE_STATISTIC_COUNT,
               other->heads + layer * other->num_heads * LIVE_STATISTIC_COUNT, heads * LIVE_STATISTIC_COUNT);
}

void live_totals_add(struct live_totals *totals, const struct live_totals *other)
{
    combine(totals, other, add);
}

void live_totals_raise(struct live_totals *totals, const struct live_totals *other)
{
    combine(totals, other, raise_to);
}
