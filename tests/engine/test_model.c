/* Forwards through whole models against the definition in float64, with every instruction set: blocks of each kind,
 * embeddings, rules of the layers and of the request, padding, everything that can be returned. In memory that holds
 * NaN before and is no larger than was asked for. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "model_problem.h"
#include "model_runner.h"
#include "suite.h"

#include <math.h>
#include <string.h>

static const struct model_limits limits = {
    .layers = 3, .d_model = 40, .heads = 3, .d_k = 20, .d_ff = 60, .batch = 3, .length = 24};

static const char *const tensor_names[ANSWER_TENSORS] = {"output", "attention", "heads",  "query",
                                                         "key",    "value",     "states", "deviation"};

static void check_answer(const struct model_problem *m, const struct model_case *c, const struct model_answer *got,
                         const struct model_answer *expected, size_t seed)
{
    for (size_t t = 0; t < ANSWER_TENSORS; t++) {
        const size_t size = model_answer_size(m, c, t);
        /* A sample's variance is a difference of squares. */
        const double error =
            worst_error(got->tensors[t], expected->tensors[t], size, t == ANSWER_DEVIATION ? 1e-4 : 3e-5);
        ck_assert_msg(error <= 1, "%s, seed %zu: %s is %g of the tolerance off", engine_isa(), seed, tensor_names[t],
                      error);
        ck_assert_msg(got->tensors[t][size] == ANSWER_UNWRITTEN, "%s, seed %zu: writes behind %s", engine_isa(), seed,
                      tensor_names[t]);
    }
    ck_assert_msg(got->fully_masked_rows == expected->fully_masked_rows,
                  "%s, seed %zu: %zu rows without a key, not %zu", engine_isa(), seed, got->fully_masked_rows,
                  expected->fully_masked_rows);
    if (m->ruled && m->rules.keep_heads.kind != KEEP_ALL_HEADS)
        ck_assert_msg(memcmp(got->heads_used, expected->heads_used,
                             c->input.batch * m->shape.num_layers * m->shape.attention.num_heads) == 0,
                      "%s, seed %zu: other heads are kept", engine_isa(), seed);
}

/* False when a choice of heads or keys is too close to be compared. */
static bool check_problem(uint64_t seed, const struct model_limits *its_limits)
{
    struct random random = {seed};
    struct model_problem m;
    struct model_case c;
    struct lanes lanes;
    lanes_init(&lanes, 3, seed);
    model_problem_open(&m, &random, its_limits);
    model_case_open(&c, &random, &m, its_limits);
    struct model_answer got = model_answer_create(&m, &c), expected = model_answer_create(&m, &c);
    model_run_cases(&m, &c, 1, NULL, seed % 4 ? &parallel_serial : &lanes.parallel, &got);
    const bool clear = model_reference(&m, &c, &expected) > 1e-4;
    if (clear)
        check_answer(&m, &c, &got, &expected, seed);
    model_answer_free(&got);
    model_answer_free(&expected);
    model_case_close(&c);
    model_problem_close(&m);
    return clear;
}

START_TEST(random_models_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    size_t compared = 0;
    for (uint64_t seed = 0; seed < 150; seed++)
        compared += check_problem(seed, &limits);
    ck_assert_uint_gt(compared, 120);
}
END_TEST

START_TEST(samples_of_dropout_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    struct model_limits dropping = limits;
    dropping.dropout = true;
    size_t compared = 0;
    for (uint64_t seed = 1000; seed < 1040; seed++)
        compared += check_problem(seed, &dropping);
    ck_assert_uint_gt(compared, 25);
}
END_TEST

/* Several tiles of scores, and more rows than the feed-forward layer takes at once. */
START_TEST(many_rows_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct model_limits large = {
        .layers = 2, .d_model = 10, .heads = 1, .d_k = 5, .d_ff = 12, .batch = 4, .length = 500};
    for (uint64_t seed = 2000; seed < 2006; seed++)
        check_problem(seed, &large);
}
END_TEST

/* One attention and nothing around it: the bits of that attention. */
START_TEST(a_bare_layer_has_the_bits_of_an_attention)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits some = {
        .d_model = 90, .heads = 3, .d_k = 70, .d_v = 70, .batch = 3, .length = 130};
    struct random random = {3};
    for (size_t i = 0; i < 25; i++) {
        struct attention_shape shape;
        do
            shape = random_shape(&random, &some);
        while (!shape.projected);
        struct problem p;
        for (p = problem_create(&random, &shape, NULL, &some); !p.input.self_attention;
             p = problem_create(&random, &shape, NULL, &some))
            problem_free(&p);
        check_bare_layer(&p);
        problem_free(&p);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/model");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_models_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, samples_of_dropout_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, many_rows_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_bare_layer_has_the_bits_of_an_attention, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
