/* Statistics of whole heads: the same bits on any number of lanes, however rows are cut into units, and the right ones
 * where a sequence is several units, or a unit several sequences; the values themselves are test_head_golden.c's. */
#include "analysis/head_statistics.h"

#include "analysis/random_maps.h"
#include "engine/lanes.h"

#include <math.h>
#include <string.h>

struct found {
    struct ratio_sums *means;
    struct head_peaks *peaks;
    float *entropies, *distances;
    size_t n_means, n_positions, n_heads;
};

static struct found found_of(const struct forward_input *rule, size_t n_heads)
{
    struct found f = {.n_means = n_heads * HEAD_STATISTIC_COUNT,
                      .n_positions = n_heads * rule->batch * rule->query_length,
                      .n_heads = n_heads};
    f.means = calloc(f.n_means, sizeof *f.means);
    f.peaks = calloc(n_heads, sizeof *f.peaks);
    f.entropies = calloc(f.n_positions, sizeof *f.entropies);
    f.distances = calloc(f.n_positions, sizeof *f.distances);
    return f;
}

static void free_found(struct found *f)
{
    free(f->means);
    free(f->peaks);
    free(f->entropies);
    free(f->distances);
}

static bool run(const struct head_maps *given, const uint32_t *heads, size_t n_heads, const struct parallel *parallel,
                struct found *f, struct error *error)
{
    struct head_maps maps = *given;
    struct head_statistics statistics = {f->means, f->peaks, f->entropies, f->distances};
    struct arena arena = {0};
    size_t bytes;
    ck_assert(head_statistics_scratch_bytes(&maps, n_heads, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    const bool right = head_statistics_run(&maps, heads, n_heads, parallel, &arena, &statistics, error);
    arena_free(&arena);
    return right;
}

static void expect_same_bits(const struct found *a, const struct found *b)
{
    ck_assert(memcmp(a->means, b->means, a->n_means * sizeof *a->means) == 0);
    ck_assert(memcmp(a->entropies, b->entropies, a->n_positions * sizeof *a->entropies) == 0);
    ck_assert(memcmp(a->distances, b->distances, a->n_positions * sizeof *a->distances) == 0);
    for (size_t i = 0; i < a->n_heads; i++) {
        const struct head_peaks *x = &a->peaks[i], *y = &b->peaks[i];
        ck_assert(x->n_rows == y->n_rows && x->sink_key == y->sink_key && x->sink_mass == y->sink_mass &&
                  x->best_offset == y->best_offset && x->best_offset_share == y->best_offset_share);
    }
}

/* Even rows of every length, single keys, and sums a little over 1: nothing leaves its range, by not one bit. */
START_TEST(within_their_ranges)
{
    const float sums[] = {1, 1.0005f, 0.9995f};
    for (size_t keys = 1; keys <= 70; keys++)
        for (size_t i = 0; i < 3; i++) {
            const struct forward_input rule = {.batch = 1, .query_length = 2, .key_length = keys};
            float *weights = calloc(2 * keys, sizeof *weights); /* [2, keys]: even; all on the first key */
            struct found f = found_of(&rule, 1);
            struct error error;
            for (size_t key = 0; key < keys; key++)
                weights[key] = sums[i] / (float)keys;
            for (size_t key = 0; key < keys; key++)
                weights[keys + key] = key ? -0.0f : sums[i];
            for (size_t row = 0; row < 2; row++) {
                const struct forward_input one = {.batch = 1, .query_length = 1, .key_length = keys};
                const struct head_maps maps = {
                    .rule = &one, .weights = weights + row * keys, .num_heads = 1, .posted = true};
                ck_assert_msg(run(&maps, NULL, 1, &parallel_serial, &f, &error), "%s", error.message);
                const double entropy = ratio_sums_mean(&f.means[STATISTIC_ENTROPY]),
                             effective = ratio_sums_mean(&f.means[STATISTIC_EFFECTIVE_KEYS]),
                             gini = ratio_sums_mean(&f.means[STATISTIC_GINI]);
                ck_assert_msg(entropy >= 0 && entropy <= log((double)keys), "%zu keys: %.17g", keys, entropy);
                ck_assert_msg(effective >= 1 && effective <= (double)keys, "%zu keys: %.17g", keys, effective);
                ck_assert_msg(gini >= 0 && gini <= 1, "%zu keys: %.17g", keys, gini);
                if (keys == 1)
                    continue;
                const double normalized = ratio_sums_mean(&f.means[STATISTIC_NORMALIZED_ENTROPY]),
                             hoyer = ratio_sums_mean(&f.means[STATISTIC_HOYER]);
                ck_assert_msg(normalized >= 0 && normalized <= 1, "%zu keys: %.17g", keys, normalized);
                ck_assert_msg(hoyer >= 0 && hoyer <= 1, "%zu keys: %.17g", keys, hoyer);
            }
            free_found(&f);
            free(weights);
        }
}
END_TEST

/* Many short sequences, some of medium length, one that is cut. */
static const struct forward_input RULES[] = {
    {.batch = 700, .query_length = 5, .key_length = 5, .self_attention = true},
    {.batch = 7, .query_length = 200, .key_length = 200, .self_attention = true, .causal = true},
    {.batch = 2, .query_length = 700, .key_length = 700, .self_attention = true},
    {.batch = 2, .query_length = 300, .key_length = 1000},
};

START_TEST(same_bits)
{
    struct random random = {5};
    const struct forward_input *rule = &RULES[_i];
    const uint32_t chosen[] = {2, 0};
    float *weights = random_maps(&random, rule, 3);
    const struct head_maps maps = {.rule = rule, .weights = weights, .num_heads = 3};
    struct found alone = found_of(rule, 3), two = found_of(rule, 2);
    struct error error;
    ck_assert_msg(run(&maps, NULL, 3, &parallel_serial, &alone, &error), "%s", error.message);
    for (unsigned n_lanes = 2; n_lanes <= 5; n_lanes += 3) {
        struct found together = found_of(rule, 3);
        struct lanes lanes;
        lanes_init(&lanes, n_lanes, n_lanes);
        ck_assert(run(&maps, NULL, 3, &lanes.parallel, &together, &error));
        expect_same_bits(&together, &alone);
        free_found(&together);
    }
    ck_assert(run(&maps, chosen, 2, &parallel_serial, &two, &error));
    for (size_t i = 0; i < 2; i++)
        ck_assert(memcmp(two.means + i * HEAD_STATISTIC_COUNT, alone.means + chosen[i] * HEAD_STATISTIC_COUNT,
                         HEAD_STATISTIC_COUNT * sizeof *two.means) == 0);
    free_found(&two);
    free_found(&alone);
    free(weights);
}
END_TEST

/* The mean over rows of what each row's entropy is, and the columns and offsets, counted here. */
START_TEST(all_units_count)
{
    struct random random = {9};
    const struct forward_input *rule = &RULES[_i];
    const size_t rows = rule->query_length, keys = rule->key_length;
    float *weights = random_maps(&random, rule, 1);
    const struct head_maps maps = {.rule = rule, .weights = weights, .num_heads = 1};
    struct found f = found_of(rule, 1);
    struct error error;
    double *columns = calloc(keys, sizeof *columns), entropy = 0, squares = 0;
    size_t *offsets = calloc(rows + keys, sizeof *offsets), sink = 0, best = 0;
    ck_assert_msg(run(&maps, NULL, 1, &parallel_serial, &f, &error), "%s", error.message);
    for (size_t b = 0; b < rule->batch; b++) {
        double own = 0;
        for (size_t i = 0; i < rows; i++) {
            const float *p = weights + (b * rows + i) * keys;
            double h = 0;
            size_t top = 0;
            for (size_t j = 0; j < keys; j++) {
                h -= p[j] > 0 ? (double)p[j] * log((double)p[j]) : 0;
                columns[j] += (double)p[j];
                top = p[j] > p[top] ? j : top;
            }
            ck_assert(fabs((double)f.entropies[b * rows + i] - h) <= 1e-6 + 1e-6 * h);
            offsets[top + rows - 1 - i]++;
            own += h;
        }
        entropy += own;
    }
    const double n = (double)(rule->batch * rows), mean = entropy / n;
    for (size_t b = 0; b < rule->batch; b++) {
        double own = 0;
        for (size_t i = 0; i < rows; i++)
            own += (double)f.entropies[b * rows + i];
        squares += pow(own - mean * (double)rows, 2);
    }
    for (size_t j = 0; j < keys; j++)
        sink = columns[j] > columns[sink] ? j : sink;
    for (size_t o = 0; o < rows + keys - 1; o++)
        best = offsets[o] > offsets[best] ? o : best;
    const struct ratio_sums *found = &f.means[STATISTIC_ENTROPY];
    const double batch = (double)rule->batch, error_of_mean = sqrt(batch / (batch - 1) * squares) / n;
    ck_assert(fabs(ratio_sums_mean(found) - mean) <= 1e-6 * mean);
    ck_assert(fabs(ratio_sums_stderr(found) - error_of_mean) <= 1e-4 * error_of_mean + 1e-9);
    ck_assert_uint_eq(f.peaks[0].n_rows, rule->batch * rows);
    ck_assert_uint_eq(f.peaks[0].sink_key, sink);
    ck_assert(fabs(f.peaks[0].sink_mass - columns[sink] / n) < 1e-12);
    if (rule->self_attention) {
        ck_assert(f.peaks[0].best_offset_share == (double)offsets[best] / n);
        ck_assert(offsets[(size_t)f.peaks[0].best_offset + rows - 1] == offsets[best]);
    }
    free(columns);
    free(offsets);
    free_found(&f);
    free(weights);
}
END_TEST

/* Two offsets as often as each other: the nearer wins, and of -1 and 1 the one before. */
START_TEST(equal_offsets)
{
    static const float nearer[] = {0, 1, 0, 0, 1, 0, 1, 0, 0}; /* 1, 0, -2 */
    static const float before[] = {0, 1, 1, 0};                /* 1, -1 */
    const struct forward_input three = {.batch = 1, .query_length = 3, .key_length = 3, .self_attention = true};
    const struct forward_input two = {.batch = 1, .query_length = 2, .key_length = 2, .self_attention = true};
    const struct head_maps maps[] = {{.rule = &three, .weights = nearer, .num_heads = 1},
                                     {.rule = &two, .weights = before, .num_heads = 1}};
    static const ptrdiff_t wanted[] = {0, -1};
    for (size_t i = 0; i < 2; i++) {
        struct found f = found_of(maps[i].rule, 1);
        struct error error;
        ck_assert(run(&maps[i], NULL, 1, &parallel_serial, &f, &error));
        ck_assert_int_eq(f.peaks[0].best_offset, wanted[i]);
        free_found(&f);
    }
}
END_TEST

START_TEST(cancelled_or_short_of_memory)
{
    struct random random = {5};
    const struct forward_input *rule = &RULES[2];
    float *weights = random_maps(&random, rule, 2);
    const struct head_maps maps = {.rule = rule, .weights = weights, .num_heads = 2};
    struct found f = found_of(rule, 2);
    struct head_statistics statistics = {f.means, f.peaks, NULL, NULL};
    struct head_maps prepared = maps;
    struct arena arena = {0};
    struct lanes lanes;
    struct error error;
    size_t bytes;
    lanes_init(&lanes, 3, 1);
    lanes.cancel_after = 2;
    ck_assert(!run(&maps, NULL, 2, &lanes.parallel, &f, &error));
    ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    ck_assert(head_statistics_scratch_bytes(&maps, 2, 1, &bytes) && arena_reserve(&arena, bytes));
    arena.capacity = bytes - ARENA_ALIGNMENT;
    ck_assert(!head_statistics_run(&prepared, NULL, 2, &parallel_serial, &arena, &statistics, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    arena_free(&arena);
    free_found(&f);
    free(weights);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/head_statistics");
    TCase *t = tcase_create("head_statistics");
    tcase_add_test(t, within_their_ranges);
    tcase_add_loop_test(t, same_bits, 0, sizeof RULES / sizeof *RULES);
    tcase_add_loop_test(t, all_units_count, 0, sizeof RULES / sizeof *RULES);
    tcase_add_test(t, equal_offsets);
    tcase_add_test(t, cancelled_or_short_of_memory);
    suite_add_tcase(s, t);
    return s;
}
