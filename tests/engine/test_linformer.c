/* Linformer attention against its definition in float64, with every instruction set; and that lanes and company change
 * no bit of it. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "low_rank.h"
#include "suite.h"

#include <math.h>

static const struct problem_limits limits = {.d_model = 40, .heads = 3, .d_k = 20, .d_v = 20, .batch = 3, .length = 60};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static struct attention_layer *layer_of(const struct problem *p)
{
    struct error error;
    struct attention_layer *layer = attention_layer_create(&p->shape, &p->matrices, &error);
    ck_assert_ptr_nonnull(layer);
    return layer;
}

static void check_problem(struct random *random, const struct problem_limits *within, size_t projected_keys)
{
    const struct attention_shape shape = random_shape(random, within);
    struct problem p = low_rank_problem(random, &shape, NULL, within, false);
    struct attention_rules rules = {.num_layers = 1};
    random_linformer(random, &p, shape.num_heads, projected_keys, p.input.key_length, &rules.low_rank);
    p.input.rules = &rules;
    struct attention_layer *layer = layer_of(&p);
    struct answer got = answer_create(&p), expected = answer_create(&p), split = answer_create(&p);
    run_problem(layer, &p, &parallel_serial, &got);
    reference_low_rank(&p, &expected);
    require_close(&p, &got, &expected, 1e-5, "linformer");
    struct lanes lanes;
    lanes_init(&lanes, (unsigned)random_size(random, 2, LANES_MOST), random_size(random, 0, 1000));
    run_problem(layer, &p, &lanes.parallel, &split);
    require_same_bits(&p, &got, &split, "lanes");
    p.input.observed = true; /* there are no weights to show */
    run_problem(layer, &p, &parallel_serial, &split);
    require_same_bits(&p, &got, &split, "observed");
    answer_free(&got);
    answer_free(&expected);
    answer_free(&split);
    attention_layer_free(layer);
    problem_free(&p);
}

START_TEST(random_problems_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    struct random random = {7};
    for (size_t i = 0; i < 60; i++)
        check_problem(&random, &limits, random_size(&random, 1, 40));
}
END_TEST

/* Several blocks of depth, of rows of E, and tiles of scores. */
START_TEST(long_sequences_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits large = {
        .d_model = 50, .heads = 2, .d_k = 70, .d_v = 70, .batch = 2, .length = 1400};
    struct random random = {8};
    for (size_t i = 0; i < 4; i++)
        check_problem(&random, &large, 410);
}
END_TEST

START_TEST(company_changes_no_bit)
{
    if (!choose_variant(_i))
        return;
    struct random random = {9};
    for (size_t i = 0; i < 10; i++) {
        struct problem owner = {0};
        const struct attention_shape shape = random_shape(&random, &limits);
        const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
        struct attention_rules rules = {.num_layers = 1};
        random_linformer(&random, &owner, shape.num_heads, random_size(&random, 1, 20), limits.length, &rules.low_rank);
        require_same_in_company(&random, &shape, &matrices, &limits, &rules);
        problem_free(&owner);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/linformer");
    TCase *t = tcase_create("linformer");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_problems_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, long_sequences_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, company_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
