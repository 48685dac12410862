/* The sums that are kept of traffic: see live_sums.h. */
#include "analysis/live_sums.h"

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

struct parts {
    size_t statistics, baselines, products; /* elements */
};

static bool count_parts(size_t num_layers, size_t num_heads, struct parts *parts, size_t *bytes)
{
    size_t twice, statistics, products;
    if (num_heads == SIZE_MAX || !size_multiply(num_heads, num_heads + 1, &twice) ||
        !size_multiply(twice / 2, num_layers, &parts->products) ||
        !size_multiply(num_layers * LIVE_STATISTIC_COUNT, num_heads, &parts->statistics) ||
        !size_multiply(parts->statistics, sizeof(struct ratio_sums), &statistics) ||
        !size_multiply(parts->products, sizeof(double), &products) || !size_add(statistics, products, &statistics))
        return false;
    parts->baselines = LIVE_BASELINE_COUNT;
    return size_add(statistics, parts->baselines * sizeof(struct ratio_sums), bytes);
}

bool live_sums_bytes(size_t num_layers, size_t num_heads, size_t *bytes)
{
    struct parts parts;
    return count_parts(num_layers, num_heads, &parts, bytes);
}

void live_sums_lay(struct live_sums *sums, size_t num_layers, size_t num_heads, void *memory)
{
    struct parts parts = {0};
    size_t bytes;
    count_parts(num_layers, num_heads, &parts, &bytes);
    *sums = (struct live_sums){.num_layers = num_layers, .num_heads = num_heads};
    sums->statistics = memory;
    sums->baselines = sums->statistics + parts.statistics;
    sums->products = (double *)(sums->baselines + parts.baselines);
}

void live_sums_init(struct live_sums *sums, size_t num_layers, size_t num_heads, void *memory)
{
    live_sums_lay(sums, num_layers, num_heads, memory);
    live_sums_clear(sums);
}

static size_t statistics_of(const struct live_sums *sums)
{
    return sums->num_layers * sums->num_heads * LIVE_STATISTIC_COUNT;
}

static size_t products_of(const struct live_sums *sums)
{
    return sums->num_layers * live_sums_pairs(sums->num_heads);
}

void live_sums_clear(struct live_sums *sums)
{
    sums->counts = (struct live_counts){0};
    memset(sums->statistics, 0, statistics_of(sums) * sizeof *sums->statistics);
    memset(sums->baselines, 0, LIVE_BASELINE_COUNT * sizeof *sums->baselines);
    memset(sums->products, 0, products_of(sums) * sizeof *sums->products);
}

bool live_sums_are_empty(const struct live_sums *sums)
{
    return sums->counts.sequences == 0 && sums->counts.excluded == 0 && sums->counts.skipped == 0;
}

static void add_counts(struct live_counts *counts, const struct live_counts *other)
{
    counts->sequences += other->sequences;
    counts->rows += other->rows;
    counts->excluded += other->excluded;
    counts->skipped += other->skipped;
    counts->allowed += other->allowed;
    counts->even += other->even;
}

static void copy_sums(struct live_sums *to, const struct live_sums *from)
{
    memcpy(to->statistics, from->statistics, statistics_of(to) * sizeof *to->statistics);
    memcpy(to->baselines, from->baselines, LIVE_BASELINE_COUNT * sizeof *to->baselines);
    memcpy(to->products, from->products, products_of(to) * sizeof *to->products);
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
    for (size_t i = 0; i < statistics_of(sums); i++)
        ratio_sums_merge(&sums->statistics[i], &other->statistics[i]);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        ratio_sums_merge(&sums->baselines[i], &other->baselines[i]);
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

const struct ratio_sums *live_sums_of(const struct live_sums *sums, size_t layer, size_t head,
                                      enum head_statistic statistic)
{
    const size_t first = (layer * sums->num_heads + head) * LIVE_STATISTIC_COUNT;
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        if (live_statistics[i] == statistic)
            return &sums->statistics[first + i];
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        if (live_baselines[i] == statistic)
            return &sums->baselines[i];
    return NULL;
}
