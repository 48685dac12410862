/* The extremes of the forward pass, with every instruction set. Random problems are compared with float64 in
 * kernels/check_forward.c. */

#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Loop tests run once for each variant; those that cannot run here do nothing. */
static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

/* One head of width 1 without projections: scores are products of chosen numbers. */
struct tiny {
    struct problem problem;
    float query[8], key[8], value[8], bias[8];
    struct attention_layer *layer;
    struct answer answer;
};

static void tiny_open(struct tiny *t, size_t n_keys)
{
    *t = (struct tiny){.problem = {
                           .shape = {.d_model = 1, .num_heads = 1, .num_kv_heads = 1, .d_k = 1, .d_v = 1, .scale = 1},
                           .n_maps = 1,
                           .input = {.batch = 1, .query_length = 1, .key_length = n_keys},
                       }};
    t->problem.input.query = t->query;
    t->problem.input.key = t->key;
    t->problem.input.value = t->value;
    t->problem.input.bias = t->bias;
    t->query[0] = 1;
    for (size_t j = 0; j < 8; j++)
        t->value[j] = (float)(j + 1);
    struct error error;
    t->layer = attention_layer_create(&t->problem.shape, &t->problem.matrices, &error);
    ck_assert_ptr_nonnull(t->layer);
    t->answer = answer_create(&t->problem);
}

static void tiny_close(struct tiny *t)
{
    answer_free(&t->answer);
    attention_layer_free(t->layer);
}

START_TEST(huge_scores_are_exact)
{
    if (!choose_variant(_i))
        return;
    struct tiny t;
    tiny_open(&t, 3);
    t.key[0] = 1e4f, t.key[1] = 1e4f - 1, t.key[2] = -3e38f;
    run_problem(t.layer, &t.problem, &parallel_serial, &t.answer);
    ck_assert_double_eq_tol((double)t.answer.attention[0], 1 / (1 + exp(-1)), 1e-7);
    ck_assert_double_eq_tol((double)t.answer.attention[1], exp(-1) / (1 + exp(-1)), 1e-7);
    ck_assert(t.answer.attention[2] == 0);
    tiny_close(&t);
}
END_TEST

START_TEST(a_row_of_very_negative_bias_still_sums_to_one)
{
    if (!choose_variant(_i))
        return;
    const float biases[] = {-1e9f, -3e38f};
    for (size_t i = 0; i < 2; i++) {
        struct tiny t;
        tiny_open(&t, 5);
        for (size_t j = 0; j < 5; j++)
            t.bias[j] = biases[i];
        run_problem(t.layer, &t.problem, &parallel_serial, &t.answer);
        for (size_t j = 0; j < 5; j++)
            ck_assert_double_eq_tol((double)t.answer.attention[j], 0.2, 1e-7);
        ck_assert_double_eq_tol((double)t.answer.output[0], 3, 1e-6);
        ck_assert_uint_eq(t.answer.fully_masked_rows, 0);
        tiny_close(&t);
    }
}
END_TEST

START_TEST(infinite_bias_hides_keys)
{
    if (!choose_variant(_i))
        return;
    struct tiny t;
    tiny_open(&t, 3);
    t.bias[0] = t.bias[1] = -INFINITY;
    run_problem(t.layer, &t.problem, &parallel_serial, &t.answer);
    ck_assert(t.answer.attention[0] == 0 && t.answer.attention[1] == 0 && t.answer.attention[2] == 1);
    t.bias[2] = -INFINITY;
    run_problem(t.layer, &t.problem, &parallel_serial, &t.answer);
    ck_assert(t.answer.attention[2] == 0 && t.answer.output[0] == 0);
    tiny_close(&t);
}
END_TEST

/* Finite inputs whose scores overflow must not pass for a valid answer. */
START_TEST(overflow_becomes_nan)
{
    if (!choose_variant(_i))
        return;
    const float keys[][2] = {{3e38f, 0}, {-3e38f, -3e38f}};
    for (size_t i = 0; i < 2; i++) {
        struct tiny t;
        tiny_open(&t, 2);
        t.query[0] = 10;
        t.key[0] = keys[i][0], t.key[1] = keys[i][1];
        run_problem(t.layer, &t.problem, &parallel_serial, &t.answer);
        ck_assert(isnan(t.answer.attention[0]));
        ck_assert(isnan(t.answer.output[0]));
        tiny_close(&t);
    }
}
END_TEST

START_TEST(rows_sum_to_one)
{
    if (!choose_variant(_i))
        return;
    const size_t lengths[] = {1, 7, 16, 100, 513, 2048, 9000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        struct random random = {n};
        struct problem p = {
            .shape = {.d_model = 4, .num_heads = 1, .num_kv_heads = 1, .d_k = 4, .d_v = 4, .scale = 0.5f},
            .n_maps = 1,
            .input = {.batch = 1, .query_length = 3, .key_length = n},
        };
        float *x = problem_take(&p, n * 4 * sizeof *x), *query = problem_take(&p, 12 * sizeof *query);
        for (size_t j = 0; j < n * 4; j++)
            x[j] = (float)random_normal(&random);
        for (size_t j = 4; j < 12; j++)
            query[j] = (float)random_normal(&random) * (j < 8 ? 1 : 5);
        x[0] = 4,
        query[0] =
            0.5f; /* row 0: one key of a little more than the others, so that each of their weights is rounded alike */
        for (size_t j = 1; j < n; j++)
            x[j * 4] = 0;
        p.input.query = query;
        p.input.key = p.input.value = x;
        struct error error;
        struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
        struct answer a = answer_create(&p);
        run_problem(layer, &p, &parallel_serial, &a);
        for (size_t row = 0; row < 3; row++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += (double)a.attention[row * n + j];
            ck_assert_double_eq_tol(sum, 1, 1e-6 * fmax(1, sqrt((double)n) / 16));
        }
        answer_free(&a);
        attention_layer_free(layer);
        problem_free(&p);
    }
}
END_TEST

/* A head whose gate is 0 contributes nothing even where its values have overflowed. */
START_TEST(a_gate_of_zero_leaves_the_head_out)
{
    if (!choose_variant(_i))
        return;
    struct problem p = {
        .shape = {.d_model = 2, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1, .scale = 1, .projected = true},
        .n_maps = 2,
        .input = {.batch = 1,
                  .query_length = 1,
                  .key_length = 1,
                  .self_attention = true,
                  .head_mask = (const float[]){1, 0}},
        .matrices = {.w_q = (const float[4]){0},
                     .w_k = (const float[4]){0},
                     .w_v = (const float[]){1, 3e38f, 0, 0},
                     .w_o = (const float[]){2, 0, 5, 7},
                     .b_o = (const float[]){0.5f, 0.25f}},
    };
    p.input.query = p.input.key = p.input.value = (const float[]){10, 1};
    struct error error;
    struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
    struct answer a = answer_create(&p);
    run_problem(layer, &p, &parallel_serial, &a);
    ck_assert(a.output[0] == 20.5f && a.output[1] == 0.25f);
    ck_assert(isinf(a.heads[1]));
    answer_free(&a);
    attention_layer_free(layer);
}
END_TEST

START_TEST(flop_counts_products)
{
    const struct attention_shape shape = {
        .d_model = 10, .num_heads = 4, .num_kv_heads = 2, .d_k = 3, .d_v = 5, .projected = true};
    const struct forward_input input = {.batch = 2, .query_length = 6, .key_length = 7};
    /* by hand: Q 2*12*10*12, K 2*14*10*6, V 2*14*10*10, QK 2*2*4*6*7*3, AV 2*2*4*6*7*5, O 2*12*20*10 */
    ck_assert_double_eq(forward_flop(&shape, &input), 2880 + 1680 + 2800 + 2016 + 3360 + 4800);
    struct attention_shape identity = shape;
    identity.projected = false;
    ck_assert_double_eq(forward_flop(&identity, &input), 2016 + 3360);
    const struct forward_input endless = {.batch = SIZE_MAX, .query_length = SIZE_MAX, .key_length = SIZE_MAX};
    ck_assert(isfinite(forward_flop(&shape, &endless)));
    size_t bytes = 7;
    const struct forward_input *inputs[] = {&endless};
    ck_assert(!forward_scratch_bytes(&shape, (const struct forward_input *const *)inputs, 1, 1, &bytes));
    ck_assert_uint_eq(bytes, 7);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/forward");
    TCase *t = tcase_create("forward");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, huge_scores_are_exact, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_row_of_very_negative_bias_still_sums_to_one, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, infinite_bias_hides_keys, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, overflow_becomes_nan, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, rows_sum_to_one, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_gate_of_zero_leaves_the_head_out, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, flop_counts_products);
    suite_add_tcase(s, t);
    return s;
}
