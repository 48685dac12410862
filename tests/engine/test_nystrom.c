/* Nystrom attention against its definition in float64, with every instruction set; and that lanes, company and what is
 * returned beside change no bit of it. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "low_rank.h"
#include "suite.h"

#include <math.h>
#include <string.h>

static const struct problem_limits limits = {.d_model = 40, .heads = 3, .d_k = 20, .d_v = 20, .batch = 3, .length = 60};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static struct attention_rules nystrom(size_t landmarks, size_t iterations)
{
    return (struct attention_rules){
        .num_layers = 1, .low_rank = {.kind = LOW_RANK_NYSTROM, .landmarks = landmarks, .iterations = iterations}};
}

/* The problem under the rule: within the bound, and the same bits on several lanes and without maps. */
static void check_problem(struct random *random, struct problem *p, const struct attention_rules *rules)
{
    struct error error;
    p->input.rules = rules;
    struct attention_layer *layer = attention_layer_create(&p->shape, &p->matrices, &error);
    ck_assert_ptr_nonnull(layer);
    struct answer got = answer_create(p), expected = answer_create(p), split = answer_create(p),
                  bare = answer_create(p);
    run_problem(layer, p, &parallel_serial, &got);
    reference_low_rank(p, &expected);
    require_close(p, &got, &expected, 1e-4, "nystrom");
    if (random_chance(random, 0.2)) { /* threads are made for every loop */
        struct lanes lanes;
        lanes_init(&lanes, (unsigned)random_size(random, 2, LANES_MOST), random_size(random, 0, 1000));
        run_problem(layer, p, &lanes.parallel, &split);
        require_same_bits(p, &got, &split, "lanes");
    }
    p->input.observed = true; /* there are no weights to show */
    run_problem(layer, p, &parallel_serial, &split);
    require_same_bits(p, &got, &split, "observed");
    p->input.observed = false;
    struct answer output_only = {.output = bare.output};
    p->input.no_maps = random_chance(random, 0.5);
    run_problem(layer, p, &parallel_serial, &output_only);
    p->input.no_maps = false;
    ck_assert_int_eq(memcmp(bare.output, got.output, answer_sizes(p).n[0] * sizeof(float)), 0);
    answer_free(&got);
    answer_free(&expected);
    answer_free(&split);
    answer_free(&bare);
    attention_layer_free(layer);
}

START_TEST(random_problems_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    struct random random = {17};
    for (size_t i = 0; i < 60; i++) {
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = low_rank_problem(&random, &shape, NULL, &limits, i % 2);
        const struct attention_rules rules = nystrom(random_size(&random, 1, 24), random_size(&random, 1, 7));
        check_problem(&random, &p, &rules);
        problem_free(&p);
    }
}
END_TEST

START_TEST(edges_of_the_number_of_landmarks)
{
    if (!choose_variant(_i))
        return;
    struct random random = {18};
    for (size_t i = 0; i < 12; i++) {
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = low_rank_problem(&random, &shape, NULL, &limits, false);
        const size_t n = p.input.key_length, counts[] = {1, n, n + 1, n > 1 ? n - 1 : 1, 1024};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const struct attention_rules rules = nystrom(counts[c], 6);
            check_problem(&random, &p, &rules);
        }
        problem_free(&p);
    }
}
END_TEST

/* Inverses cut into blocks of rows, and computed one after the other. */
START_TEST(many_landmarks_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits large = {
        .d_model = 16, .heads = 2, .d_k = 12, .d_v = 12, .batch = 1, .length = 420};
    struct random random = {19};
    struct attention_shape shape = random_shape(&random, &large);
    struct problem p = low_rank_problem(&random, &shape, NULL, &large, false);
    while (p.input.key_length < 400) {
        problem_free(&p);
        p = low_rank_problem(&random, &shape, NULL, &large, false);
    }
    const struct attention_rules rules = nystrom(390, 2);
    check_problem(&random, &p, &rules);
    problem_free(&p);
}
END_TEST

/* As many landmarks as tokens are the attention that there is without the rule, to the bit. */
START_TEST(few_tokens_are_exact)
{
    if (!choose_variant(_i))
        return;
    struct random random = {20};
    for (size_t i = 0; i < 20; i++) {
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = low_rank_problem(&random, &shape, NULL, &limits, i % 2);
        struct error error;
        struct attention_layer *layer = attention_layer_create(&p.shape, &p.matrices, &error);
        const struct attention_rules rules = nystrom(p.input.key_length, 6);
        struct answer exact = answer_create(&p), got = answer_create(&p);
        run_problem(layer, &p, &parallel_serial, &exact);
        p.input.rules = &rules;
        run_problem(layer, &p, &parallel_serial, &got);
        require_same_bits(&p, &exact, &got, "few tokens");
        answer_free(&exact);
        answer_free(&got);
        attention_layer_free(layer);
        problem_free(&p);
    }
}
END_TEST

START_TEST(company_changes_no_bit)
{
    if (!choose_variant(_i))
        return;
    struct random random = {21};
    for (size_t i = 0; i < 10; i++) {
        struct problem owner = {0};
        const struct attention_shape shape = random_shape(&random, &limits);
        const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
        const struct attention_rules rules = nystrom(random_size(&random, 1, 20), 6);
        require_same_in_company(&random, &shape, &matrices, &limits, &rules);
        problem_free(&owner);
    }
}
END_TEST

/* Runs a problem of one sequence, and says whether it was approximated. */
static bool is_approximate(const struct problem *p, const struct parallel *parallel, struct answer *a)
{
    const struct forward_input *inputs[1] = {&p->input};
    struct forward_result result = answer_result(p, a), *results[1] = {&result};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    struct attention_layer *layer = attention_layer_create(&p->shape, &p->matrices, &error);
    ck_assert_ptr_nonnull(layer);
    ck_assert(forward_scratch_bytes(&p->shape, inputs, 1, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert(forward_run(layer, inputs, results, 1, parallel, &arena, &error));
    arena_free(&arena);
    attention_layer_free(layer);
    return result.approximate;
}

/* Nothing of landmarks x tokens is kept where no map is asked for. */
START_TEST(without_maps_memory_does_not_grow_by_landmarks_and_tokens)
{
    enum { LANDMARKS = 512, LENGTH = 8192 };
    const struct attention_shape shape = {
        .d_model = 4, .num_heads = 1, .num_kv_heads = 1, .d_k = 4, .d_v = 4, .scale = 0.5f};
    const struct attention_rules rules = nystrom(LANDMARKS, 6);
    struct forward_input input = {
        .batch = 1, .query_length = LENGTH, .key_length = LENGTH, .self_attention = true, .rules = &rules};
    const struct forward_input *inputs[] = {&input};
    const size_t panel = (size_t)LANDMARKS * LENGTH * sizeof(float);
    size_t with, without;
    ck_assert(forward_scratch_bytes(&shape, inputs, 1, 1, &with));
    input.no_maps = true;
    ck_assert(forward_scratch_bytes(&shape, inputs, 1, 1, &without));
    ck_assert_uint_ge(with, without + 2 * panel);
    /* Five matrices of landmarks in float64, their inverse, and rows. */
    ck_assert_uint_lt(without, 44 * (size_t)LANDMARKS * LANDMARKS + 1024 * (size_t)LENGTH + ((size_t)1 << 20));
}
END_TEST

START_TEST(says_whether_maps_are_approximate)
{
    if (!choose_variant(_i))
        return;
    struct random random = {22};
    const struct attention_shape shape = random_shape(&random, &limits);
    struct problem p = low_rank_problem(&random, &shape, NULL, &limits, false);
    p.input.batch = 1;
    p.input.query_length = p.input.key_length = 3;
    struct answer a = answer_create(&p);
    const struct attention_rules two = nystrom(2, 6), three = nystrom(3, 6);
    p.input.rules = &two;
    ck_assert(is_approximate(&p, &parallel_serial, &a));
    p.input.rules = &three;
    ck_assert(!is_approximate(&p, &parallel_serial, &a));
    uint8_t mask[3] = {1, 0, 1};
    p.input.mask = mask;
    p.input.mask_kind = FORWARD_MASK_KEYS;
    p.input.rules = &two;
    ck_assert(!is_approximate(&p, &parallel_serial, &a)); /* two tokens are left */
    answer_free(&a);
    problem_free(&p);
}
END_TEST

/* Scores beyond float32 are reported, as without the rule, and end. */
START_TEST(overflow_becomes_nan)
{
    if (!choose_variant(_i))
        return;
    float x[12];
    for (size_t i = 0; i < 12; i++)
        x[i] = i % 2 ? 3e30f : -3e30f;
    const struct attention_rules rules = nystrom(3, 6);
    struct problem p = {
        .shape = {.d_model = 2, .num_heads = 1, .num_kv_heads = 1, .d_k = 2, .d_v = 2, .scale = 1},
        .input = {.batch = 1, .query_length = 6, .key_length = 6, .self_attention = true, .query = x, .rules = &rules},
        .n_maps = 1,
    };
    struct answer a = answer_create(&p);
    is_approximate(&p, &parallel_serial, &a);
    for (size_t i = 0; i < 12; i++)
        ck_assert(isnan(a.output[i]));
    answer_free(&a);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/nystrom");
    TCase *t = tcase_create("nystrom");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_problems_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, edges_of_the_number_of_landmarks, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, many_landmarks_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, few_tokens_are_exact, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, company_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, without_maps_memory_does_not_grow_by_landmarks_and_tokens);
    tcase_add_loop_test(t, says_whether_maps_are_approximate, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, overflow_becomes_nan, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
