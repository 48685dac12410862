/* Splitting and cancelling. */

#include "engine/split.h"
#include "lanes.h"
#include "problem.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

struct counts {
    atomic_uint calls[1000];
};

static void count(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    atomic_fetch_add(&((struct counts *)(uintptr_t)argument)->calls[index], 1);
}

START_TEST(every_tile_runs_once)
{
    const double flops[] = {0, 1e3, 6e5, 1e6, 3e7, 1e12};
    for (size_t f = 0; f < 6; f++)
        for (size_t n = 0; n <= 1000; n += n < 20 ? 1 : 97) {
            struct lanes lanes;
            lanes_init(&lanes, 3, n);
            struct work work = {.parallel = &lanes.parallel};
            struct counts counts = {0};
            ck_assert(work_split(&work, n, flops[f], count, &counts));
            for (size_t i = 0; i < 1000; i++)
                ck_assert_uint_eq(counts.calls[i], i < n);
        }
}
END_TEST

START_TEST(small_work_is_one_tile_and_large_work_is_not)
{
    struct lanes lanes;
    lanes_init(&lanes, 2, 0);
    struct work work = {.parallel = &lanes.parallel};
    struct counts counts = {0};
    ck_assert(work_split(&work, 100, 4.9e5, count, &counts));
    ck_assert_uint_eq(lanes.n_tiles, 1);
    ck_assert(work_split(&work, 100, 1e9, count, &counts));
    ck_assert_uint_eq(lanes.n_tiles, 101);
}
END_TEST

START_TEST(cancelled_work_starts_nothing_more)
{
    struct lanes lanes;
    lanes_init(&lanes, 1, 0);
    lanes.cancel_after = 3;
    struct work work = {.parallel = &lanes.parallel};
    struct counts counts = {0};
    ck_assert(!work_split(&work, 10, 1e12, count, &counts));
    unsigned started = 0;
    for (size_t i = 0; i < 10; i++)
        started += counts.calls[i];
    ck_assert_uint_eq(started, 3);
    lanes.cancel_after = SIZE_MAX; /* once is for good */
    ck_assert(!work_split(&work, 10, 1e12, count, &counts));
}
END_TEST

/* A forward is cancelled at whatever tile, and says so. */
START_TEST(a_forward_can_be_cancelled_at_any_tile)
{
    const struct problem_limits limits = {.batch = 2, .length = 60};
    const struct attention_shape shape = {
        .d_model = 64, .num_heads = 4, .num_kv_heads = 4, .d_k = 16, .d_v = 16, .scale = 0.25f, .projected = true};
    struct random random = {5};
    struct problem p = problem_create(&random, &shape, NULL, &limits);
    struct error error = {0};
    ck_assert(engine_init(NULL, &error));
    struct attention_layer *layer = attention_layer_create(&shape, &p.matrices, &error);
    struct answer answer = answer_create(&p);
    const struct forward_input *inputs[1] = {&p.input};
    struct forward_result result = answer_result(&p, &answer), *results[1] = {&result};
    size_t bytes, n_tiles = SIZE_MAX;
    ck_assert(forward_scratch_bytes(&shape, inputs, 1, 2, &bytes));
    struct arena arena = {0};
    ck_assert(arena_reserve(&arena, bytes));
    for (size_t after = 0; after <= n_tiles; after++) {
        struct lanes lanes;
        lanes_init(&lanes, 2, after);
        lanes.cancel_after = n_tiles == SIZE_MAX ? SIZE_MAX : after;
        arena_reset(&arena);
        error.code = ERROR_NONE;
        const bool done = forward_run(layer, inputs, results, 1, &lanes.parallel, &arena, &error);
        if (n_tiles == SIZE_MAX) {
            ck_assert(done);
            n_tiles = lanes.n_tiles;
            ck_assert_uint_ge(n_tiles, 3);
            after = (size_t)-1;
        } else {
            ck_assert(done == (after == n_tiles));
            ck_assert_int_eq(error.code, done ? ERROR_NONE : ERROR_CLIENT_GONE);
        }
    }
    arena_free(&arena);
    answer_free(&answer);
    attention_layer_free(layer);
    problem_free(&p);
}
END_TEST

/* One lane has to look at other work as often as many. */
START_TEST(no_tile_is_longer_than_a_millisecond)
{
    enum { LENGTH = 700, D_MODEL = 512 };
    const struct attention_shape shape = {.d_model = D_MODEL,
                                          .num_heads = 2,
                                          .num_kv_heads = 2,
                                          .d_k = 256,
                                          .d_v = 256,
                                          .scale = 0.0625f,
                                          .projected = true};
    struct error error = {0};
    ck_assert(engine_init(NULL, &error));
    float *zeros = calloc((size_t)D_MODEL * D_MODEL + LENGTH * D_MODEL, sizeof *zeros);
    ck_assert_ptr_nonnull(zeros);
    const struct attention_matrices matrices = {.w_q = zeros, .w_k = zeros, .w_v = zeros, .w_o = zeros};
    struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
    const struct forward_input input = {.batch = 1,
                                        .query_length = LENGTH,
                                        .key_length = LENGTH,
                                        .self_attention = true,
                                        .query = zeros,
                                        .key = zeros,
                                        .value = zeros},
                               *inputs[1] = {&input};
    struct forward_result result = {.output = zeros + (size_t)D_MODEL * D_MODEL, .n_maps = 2}, *results[1] = {&result};
    struct lanes lanes;
    lanes_init(&lanes, 1, 0);
    struct arena arena = {0};
    size_t bytes;
    ck_assert(layer && forward_scratch_bytes(&shape, inputs, 1, 1, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(forward_run(layer, inputs, results, 1, &lanes.parallel, &arena, &error));
    /* 4 projections of 2 * 700 * 512 * 512, two heads of 2 * 700 * 700 * (256 + 256) */
    ck_assert_double_ge((double)lanes.n_tiles, (4 * 367001600.0 + 2 * 501760000.0) / 1e8);
    arena_free(&arena);
    attention_layer_free(layer);
    free(zeros);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/split");
    TCase *t = tcase_create("split");
    tcase_add_test(t, every_tile_runs_once);
    tcase_add_test(t, small_work_is_one_tile_and_large_work_is_not);
    tcase_add_test(t, cancelled_work_starts_nothing_more);
    tcase_add_test(t, a_forward_can_be_cancelled_at_any_tile);
    tcase_add_test(t, no_tile_is_longer_than_a_millisecond);
    suite_add_tcase(s, t);
    return s;
}
