/* Rollout against the definition in float64, and its bits on any number of lanes. */

#include "analysis/rollout.h"

#include "engine/lanes.h"
#include "engine/problem.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double fused(const struct rollout *r, const float *maps, size_t i, size_t j)
{
    double value = 0;
    for (size_t h = 0; h < r->num_heads; h++) {
        const double a = (double)maps[(h * r->length + i) * r->length + j];
        if (r->fusion == ROLLOUT_MEAN)
            value += a / (double)r->num_heads;
        else if (h == 0 || (r->fusion == ROLLOUT_MAX ? a > value : a < value))
            value = a;
    }
    return value;
}

/* to [length, length] = left right. */
static void product(size_t length, const double *left, const double *right, double *to)
{
    for (size_t i = 0; i < length; i++)
        for (size_t j = 0; j < length; j++) {
            double sum = 0;
            for (size_t k = 0; k < length; k++)
                sum += left[i * length + k] * right[k * length + j];
            to[i * length + j] = sum;
        }
}

/* The definition, for one sequence: to [1 or num_heads, length, length]. */
static void define(const struct rollout *r, const float *attention, double *to)
{
    const size_t n = r->length, square = n * n;
    double *mixed = calloc(square, sizeof *mixed), *now = calloc(square, sizeof *now),
           *next = calloc(square, sizeof *next);
    for (size_t i = 0; i < n; i++)
        now[i * n + i] = 1;
    for (size_t l = 0; l < r->num_layers; l++) {
        const float *maps = attention + l * r->num_heads * square;
        if (r->per_head && l + 1 == r->num_layers) {
            for (size_t h = 0; h < r->num_heads; h++) {
                for (size_t i = 0; i < square; i++)
                    mixed[i] = (double)maps[h * square + i];
                product(n, mixed, now, to + h * square);
            }
            break;
        }
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += mixed[i * n + j] = fused(r, maps, i, j) + (i == j);
            for (size_t j = 0; j < n; j++)
                mixed[i * n + j] /= sum;
        }
        product(n, mixed, now, next);
        memcpy(now, next, square * sizeof *now);
        memcpy(to, now, square * sizeof *now);
    }
    free(mixed), free(now), free(next);
}

/* Rows that sum to 1, some of zeros. */
static float *random_maps(const struct rollout *r, struct random *random)
{
    const size_t rows = r->batch * r->num_layers * r->num_heads * r->length;
    float *maps = calloc(rows * r->length, sizeof *maps);
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        float *to = maps + row * r->length;
        for (size_t j = 0; j < r->length; j++)
            sum += (double)(to[j] = (float)exp(2 * random_normal(random)));
        const bool masked = row % r->length == 1 && r->length > 2;
        for (size_t j = 0; j < r->length; j++)
            to[j] = masked ? 0 : (float)((double)to[j] / sum);
    }
    return maps;
}

static void run(const struct rollout *r, const struct parallel *parallel, float *result)
{
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(rollout_scratch_bytes(r, parallel->lanes, &bytes) && arena_reserve(&arena, bytes));
    ck_assert_msg(rollout_run(r, parallel, &arena, result, &error), "%s", error.message);
    ck_assert_uint_le(arena.used, bytes);
    arena_free(&arena);
}

START_TEST(as_defined_on_any_number_of_lanes)
{
    static const size_t lengths[] = {1, 2, 7, 48, 49, 130, 300};
    struct random random = {11};
    for (size_t round = 0; round < 42; round++) {
        struct rollout r = {.batch = random_size(&random, 1, 2),
                            .num_layers = random_size(&random, 1, 4),
                            .num_heads = random_size(&random, 1, 3),
                            .length = lengths[round % 7],
                            .fusion = (enum rollout_fusion)(round % 3),
                            .per_head = round % 2};
        const size_t square = r.length * r.length, floats = (r.per_head ? r.num_heads : 1) * square;
        float *maps = random_maps(&r, &random), *result = calloc(r.batch * floats, sizeof *result),
              *again = calloc(r.batch * floats, sizeof *again);
        double *expected = calloc(floats, sizeof *expected);
        r.attention = maps;
        run(&r, &parallel_serial, result);
        for (size_t b = 0; b < r.batch; b++) {
            define(&r, maps + b * r.num_layers * r.num_heads * square, expected);
            for (size_t i = 0; i < floats; i++)
                ck_assert_msg(fabs((double)result[b * floats + i] - expected[i]) <=
                                  6e-6, /* chains of float32 of up to 300 terms, layer upon layer */
                              "round %zu, sequence %zu: number %zu is %.9g, not %.9g", round, b, i,
                              (double)result[b * floats + i], expected[i]);
        }
        struct lanes lanes;
        lanes_init(&lanes, 4, round);
        run(&r, &lanes.parallel, again);
        ck_assert_mem_eq(result, again, r.batch * floats * sizeof *result);
        free(maps), free(result), free(again), free(expected);
    }
}
END_TEST

/* Under a rule: the same as of maps that were cleaned beforehand. */
START_TEST(under_a_rule)
{
    struct random random = {13};
    for (size_t round = 0; round < 60; round++) {
        struct rollout r = {.batch = random_size(&random, 1, 3),
                            .num_layers = random_size(&random, 1, 3),
                            .num_heads = random_size(&random, 1, 3),
                            .length = random_size(&random, 1, 60),
                            .fusion = (enum rollout_fusion)(round % 3),
                            .per_head = round % 2};
        const size_t n = r.length, floats = (r.per_head ? r.num_heads : 1) * n * n,
                     maps_rows = r.num_layers * r.num_heads * n;
        float *maps = random_maps(&r, &random), *clean = calloc(r.batch * maps_rows * n, sizeof *clean),
              *result = calloc(r.batch * floats, sizeof *result), *wanted = calloc(r.batch * floats, sizeof *wanted);
        uint8_t *mask = malloc(r.batch * n * n);
        for (size_t i = 0; i < r.batch * n * n; i++)
            mask[i] = random_size(&random, 0, 3) > 0;
        const struct forward_input rule = {.batch = r.batch,
                                           .query_length = n,
                                           .key_length = n,
                                           .self_attention = true,
                                           .causal = round % 5 == 0,
                                           .mask_kind = (enum forward_mask)(round / 3 % 3),
                                           .mask = mask};
        r.renormalize = round % 4 > 1;
        for (size_t row = 0; row < r.batch * maps_rows; row++) {
            const size_t b = row / maps_rows, i = row % n;
            double sum = 0;
            for (size_t j = 0; j < n; j++) {
                bool kept = !rule.causal || j <= i;
                if (rule.mask_kind == FORWARD_MASK_KEYS)
                    kept = kept && mask[b * n + i] && mask[b * n + j];
                if (rule.mask_kind == FORWARD_MASK_PAIRS)
                    kept = kept && mask[(b * n + i) * n + j];
                clean[row * n + j] = kept ? maps[row * n + j] : 0;
                sum += (double)clean[row * n + j];
            }
            for (size_t j = 0; j < n && r.renormalize && sum > 0; j++)
                clean[row * n + j] = (float)((double)clean[row * n + j] / sum);
        }
        struct rollout cleaned = r;
        cleaned.attention = clean;
        cleaned.renormalize = false;
        run(&cleaned, &parallel_serial, wanted);
        r.attention = maps;
        r.rule = &rule;
        struct lanes lanes;
        lanes_init(&lanes, 3, round);
        run(&r, round % 2 ? &lanes.parallel : &parallel_serial, result);
        for (size_t i = 0; i < r.batch * floats; i++)
            ck_assert_msg(fabs((double)result[i] - (double)wanted[i]) <= (r.renormalize ? 1e-6 : 0),
                          "round %zu: number %zu is %.9g, not %.9g", round, i, (double)result[i], (double)wanted[i]);
        free(maps), free(clean), free(result), free(wanted), free(mask);
    }
}
END_TEST

START_TEST(ends_when_cancelled)
{
    struct random random = {12};
    struct rollout r = {.batch = 2, .num_layers = 3, .num_heads = 2, .length = 100};
    float *maps = random_maps(&r, &random), *result = calloc(2 * 100 * 100, sizeof *result);
    struct arena arena = {0};
    struct lanes lanes;
    struct error error;
    size_t bytes;
    r.attention = maps;
    lanes_init(&lanes, 2, 1);
    lanes.cancel_after = 3;
    ck_assert(rollout_scratch_bytes(&r, 2, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(!rollout_run(&r, &lanes.parallel, &arena, result, &error));
    ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    arena_free(&arena);
    ck_assert(!rollout_run(&r, &parallel_serial, &arena, result, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    free(maps), free(result);
}
END_TEST

START_TEST(sizes_beyond_memory)
{
    size_t bytes;
    struct rollout r = {.batch = 1, .num_layers = 2, .num_heads = 1, .length = (size_t)1 << 40};
    ck_assert(!rollout_scratch_bytes(&r, 1, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rollout");
    TCase *c = tcase_create("rollout");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, as_defined_on_any_number_of_lanes);
    tcase_add_test(c, under_a_rule);
    tcase_add_test(c, ends_when_cancelled);
    tcase_add_test(c, sizes_beyond_memory);
    suite_add_tcase(s, c);
    return s;
}
