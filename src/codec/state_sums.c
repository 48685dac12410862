/* Places of numbers in live sums: see state_sums.h. */
#include "codec/state_sums.h"

const char *const state_value_names[STATE_VALUES] = {"offset", "z", "zz", "zn"};

/* The structs are of doubles only: so many of them from one part's to the next one's. */
#define MEANS_STRIDE     (LIVE_STATISTIC_COUNT * sizeof(struct live_means) / sizeof(double))
#define BASELINES_STRIDE (LIVE_BASELINE_COUNT * sizeof(struct ratio_sums) / sizeof(double))
_Static_assert(sizeof(struct live_means) % sizeof(double) == 0, "strides are whole");
_Static_assert(sizeof(struct ratio_sums) % sizeof(double) == 0, "strides are whole");

struct state_sums state_sums_of_statistic(const struct live_sums *sums, size_t statistic)
{
    struct live_means *means = &sums->means[statistic];
    struct state_sums of = {.name = head_statistic_kinds[live_statistics[statistic]].name,
                            .sequences = &means->sequences,
                            .n = &means->n,
                            .nn = &means->nn,
                            .parts = sums->num_parts,
                            .stride = MEANS_STRIDE,
                            .values_stride = LIVE_STATISTIC_COUNT * STATE_VALUES * sums->columns,
                            .count = live_sums_part_heads(sums)};
    for (size_t i = 0; i < STATE_VALUES; i++)
        of.values[i] = live_sums_values(sums, 0, statistic) + i * sums->columns;
    return of;
}

struct state_sums state_sums_of_baseline(const struct live_sums *sums, size_t baseline)
{
    struct ratio_sums *one = &sums->baselines[baseline];
    return (struct state_sums){.name = head_statistic_kinds[live_baselines[baseline]].name,
                               .sequences = &one->sequences,
                               .n = &one->n,
                               .nn = &one->nn,
                               .values = {&one->offset, &one->z, &one->zz, &one->zn},
                               .parts = sums->num_parts,
                               .stride = BASELINES_STRIDE,
                               .values_stride = BASELINES_STRIDE,
                               .count = 1};
}
