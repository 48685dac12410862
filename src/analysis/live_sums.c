/* The sums that are kept of traffic: see live_sums.h. */
#include "analysis/live_sums.h"

#include "analysis/live_kernels/live_kernels.h"
#include "base/size.h"

#include <string.h>

#define LIVE_ENTRY_00(code)
#define LIVE_ENTRY_01(code)
#define LIVE_ENTRY_10(code) code,
#define LIVE_ENTRY_11(code)
#define LIVE_ENTRY(code, name, rows, placed, live, baseline) LIVE_ENTRY_##live##baseline(code)
const enum head_statistic live_statistics[LIVE_STATISTIC_COUNT] = {HEAD_STATISTICS(LIVE_ENTRY)};
#undef LIVE_ENTRY_10
#undef LIVE_ENTRY_11
#define LIVE_ENTRY_10(code)
#define LIVE_ENTRY_11(code) code,
const enum head_statistic live_baselines[LIVE_BASELINE_COUNT] = {HEAD_STATISTICS(LIVE_ENTRY)};

/* Parts, their columns, and elements of all of them. */
struct pieces {
    size_t parts, columns, values, products;
};

/* What a part has beside the values. */
#define SMALL_BYTES                                                                                       \
    (LIVE_STATISTIC_COUNT * sizeof(struct live_means) + LIVE_BASELINE_COUNT * sizeof(struct ratio_sums) + \
     sizeof(struct live_keys))

static bool count_pieces(struct live_shape shape, struct pieces *pieces, size_t *bytes)
{
    const size_t heads = shape.num_heads, layers = shape.num_layers;
    size_t twice, columns, all, small;
    pieces->parts = shape.by_layer ? layers : 1;
    if (heads == SIZE_MAX || !size_multiply(heads, heads + 1, &twice) ||
        !size_multiply(twice / 2, layers, &pieces->products) ||
        !size_multiply(shape.by_layer ? 1 : layers, heads, &columns) ||
        !size_add(columns, LIVE_MEANS_PADDING - 1, &columns))
        return false;
    pieces->columns = columns / LIVE_MEANS_PADDING * LIVE_MEANS_PADDING;
    return size_multiply(pieces->columns, (size_t)4 * LIVE_STATISTIC_COUNT, &pieces->values) &&
           size_multiply(pieces->values, pieces->parts, &pieces->values) &&
           size_add(pieces->values, pieces->products, &all) && size_multiply(all, sizeof(double), bytes) &&
           size_multiply(pieces->parts, SMALL_BYTES, &small) && size_add(*bytes, small, bytes);
}

bool live_sums_bytes(struct live_shape shape, size_t *bytes)
{
    struct pieces pieces;
    return count_pieces(shape, &pieces, bytes);
}

void live_sums_lay(struct live_sums *sums, struct live_shape shape, void *memory)
{
    struct pieces pieces = {0};
    size_t bytes;
    count_pieces(shape, &pieces, &bytes);
    *sums = (struct live_sums){.num_layers = shape.num_layers,
                               .num_heads = shape.num_heads,
                               .num_parts = pieces.parts,
                               .columns = pieces.columns};
    sums->values = memory;
    sums->means = (struct live_means *)(sums->values + pieces.values);
    sums->baselines = (struct ratio_sums *)(sums->means + pieces.parts * LIVE_STATISTIC_COUNT);
    sums->keys = (struct live_keys *)(sums->baselines + pieces.parts * LIVE_BASELINE_COUNT);
    sums->products = (double *)(sums->keys + pieces.parts);
}

void live_sums_init(struct live_sums *sums, struct live_shape shape, void *memory)
{
    live_sums_lay(sums, shape, memory);
    live_sums_clear(sums);
}

static size_t products_of(const struct live_sums *sums)
{
    return sums->num_layers * live_sums_pairs(sums->num_heads);
}

/* All arrays are one piece of memory. */
static size_t all_bytes(const struct live_sums *sums)
{
    return (size_t)((const char *)(sums->products + products_of(sums)) - (const char *)sums->values);
}

void live_sums_clear(struct live_sums *sums)
{
    sums->counts = (struct live_counts){0};
    memset(sums->values, 0, all_bytes(sums));
}

void live_sums_begin(struct live_sums *sums)
{
    sums->counts = (struct live_counts){0};
    memset(sums->means, 0, sums->num_parts * SMALL_BYTES + products_of(sums) * sizeof *sums->products);
}

bool live_sums_are_empty(const struct live_sums *sums)
{
    return sums->counts.sequences == 0 && sums->counts.excluded == 0 && sums->counts.skipped == 0;
}

void live_sums_add_sequence(struct live_sums *sums, size_t part, const double *y, const double *baselines,
                            const double *rows)
{
    const struct live_kernels *kernels = live_kernels_of(isa_chosen());
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
        const double n = rows[head_statistic_kinds[live_statistics[i]].rows];
        struct live_means *means = &sums->means[part * LIVE_STATISTIC_COUNT + i];
        double *values = live_sums_values(sums, part, i);
        if (!(n > 0)) {
            if (means->sequences == 0)
                memset(values, 0, 4 * sums->columns * sizeof *values);
            continue;
        }
        if (means->sequences == 0)
            kernels->begin_means(values, y + i * sums->columns, n, sums->columns);
        else
            kernels->add_means(values, y + i * sums->columns, n, sums->columns);
        means->sequences += 1;
        means->n += n;
        means->nn += n * n;
    }
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        ratio_sums_add(&sums->baselines[part * LIVE_BASELINE_COUNT + i], baselines[i],
                       rows[head_statistic_kinds[live_baselines[i]].rows]);
}

static void add_counts(struct live_counts *counts, const struct live_counts *other)
{
    counts->sequences += other->sequences;
    counts->rows += other->rows;
    counts->excluded += other->excluded;
    counts->skipped += other->skipped;
}

static void copy_sums(struct live_sums *to, const struct live_sums *from)
{
    memcpy(to->values, from->values, all_bytes(to));
}

/* part_statistic: part * LIVE_STATISTIC_COUNT + statistic. */
static void merge_statistic(struct live_sums *sums, const struct live_sums *other, size_t part_statistic)
{
    struct live_means *means = &sums->means[part_statistic];
    const struct live_means *more = &other->means[part_statistic];
    double *values = live_sums_values(sums, 0, part_statistic);
    const double *added = live_sums_values(other, 0, part_statistic);
    if (more->sequences == 0)
        return;
    if (means->sequences == 0)
        memcpy(values, added, 4 * sums->columns * sizeof *values);
    else
        live_kernels_of(isa_chosen())->merge_means(values, added, more->n, more->nn, sums->columns);
    means->sequences += more->sequences;
    means->n += more->n;
    means->nn += more->nn;
}

void live_sums_merge(struct live_sums *sums, const struct live_sums *other)
{
    const bool first = sums->counts.sequences == 0;
    add_counts(&sums->counts, &other->counts);
    if (other->counts.sequences == 0)
        return;
    if (first) {
        copy_sums(sums, other);
        return;
    }
    for (size_t i = 0; i < sums->num_parts * LIVE_STATISTIC_COUNT; i++)
        merge_statistic(sums, other, i);
    for (size_t i = 0; i < sums->num_parts * LIVE_BASELINE_COUNT; i++)
        ratio_sums_merge(&sums->baselines[i], &other->baselines[i]);
    for (size_t i = 0; i < sums->num_parts; i++) {
        sums->keys[i].allowed += other->keys[i].allowed;
        sums->keys[i].even += other->keys[i].even;
    }
    double *restrict to = sums->products;
    const double *restrict from = other->products;
    for (size_t i = 0; i < products_of(sums); i++)
        to[i] += from[i];
}

void live_sums_copy(struct live_sums *to, const struct live_sums *from)
{
    to->counts = from->counts;
    copy_sums(to, from);
}

struct ratio_sums live_sums_of(const struct live_sums *sums, size_t layer, size_t head, enum head_statistic statistic)
{
    const size_t part = live_sums_part(sums, layer);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        if (live_baselines[i] == statistic)
            return sums->baselines[part * LIVE_BASELINE_COUNT + i];
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        if (live_statistics[i] == statistic) {
            const double *values = live_sums_values(sums, part, i) + live_sums_column(sums, layer) + head;
            const struct live_means *means = &sums->means[part * LIVE_STATISTIC_COUNT + i];
            return (struct ratio_sums){.offset = values[0],
                                       .sequences = means->sequences,
                                       .z = values[sums->columns],
                                       .n = means->n,
                                       .zz = values[2 * sums->columns],
                                       .zn = values[3 * sums->columns],
                                       .nn = means->nn};
        }
    return (struct ratio_sums){0};
}
