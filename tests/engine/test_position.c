/* Positions: forward passes beside the same problems without a rule (positions.h), with every instruction set; what
 * must not change a bit; and what a shift of all positions must not change. */

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "pattern_definition.h"
#include "positions.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 4, SEEDS = 14 };

static const struct problem_limits limits = {.d_model = 90, .heads = 5, .d_k = 40, .d_v = 24, .batch = 3, .length = 90};

static const enum position_kind kinds[] = {POSITION_SINUSOIDAL, POSITION_LEARNED, POSITION_ROPE,
                                           POSITION_ALIBI,      POSITION_T5,      POSITION_RELATIVE};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Problems for one layer under one rule. */
struct positioned {
    struct problem owner;
    struct attention_rules *rules;
    struct attention_layer *layer;
    struct problem problems[PROBLEMS];
};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static void open_with_ids(struct positioned *p, enum position_kind kind, uint64_t seed, uint32_t ids_end)
{
    struct random random = {seed};
    struct error error;
    *p = (struct positioned){0};
    struct attention_shape shape;
    do
        shape = random_shape(&random, &limits);
    while (shape.d_k < 2);
    const struct attention_matrices matrices = random_matrices(&random, &shape, &p->owner);
    p->rules = random_positions(&random, kind, &shape, 200, &p->owner);
    if (random_chance(&random, 0.3))
        p->rules->pattern =
            random_pattern(&random, (enum pattern_kind)random_size(&random, 0, PATTERN_KIND_COUNT - 1), 40);
    p->layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(p->layer);
    for (size_t i = 0; i < PROBLEMS; i++) {
        p->problems[i] = problem_create(&random, &shape, &matrices, &limits);
        p->problems[i].input.rules = p->rules;
        define_pattern(&p->problems[i]);
        if (random_chance(&random, 0.4))
            random_position_ids(&random, &p->problems[i], ids_end);
    }
}

static void open_positioned(struct positioned *p, enum position_kind kind, uint64_t seed)
{
    open_with_ids(p, kind, seed, kind == POSITION_LEARNED ? 201 : seed % 2 ? 300 : UINT32_MAX);
}

static void close_positioned(struct positioned *p)
{
    for (size_t i = 0; i < PROBLEMS; i++)
        problem_free(&p->problems[i]);
    attention_layer_free(p->layer);
    problem_free(&p->owner);
}

/* Which tensor of two answers is too far away; 6: none. */
static size_t first_far(const struct problem *p, const struct answer *a, const struct answer *b, double tolerance)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const x[6] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    const float *const y[6] = {b->output, b->attention, b->heads, b->query, b->key, b->value};
    for (size_t t = 0; t < 6; t++)
        if (x[t] && (tolerance > 0 ? worst_error(x[t], y[t], sizes.n[t], tolerance) > 1
                                   : memcmp(x[t], y[t], sizes.n[t] * sizeof(float)) != 0))
            return t;
    return 6;
}

START_TEST(positions_are_what_they_are_defined_as)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < SEEDS * KINDS; seed++) {
        struct positioned t;
        open_positioned(&t, kinds[seed % KINDS], seed / KINDS * 64 + seed % KINDS);
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct problem *p = &t.problems[i];
            struct problem owner = {0};
            const struct problem bare = without_positions(p, &owner);
            struct answer expected = answer_create(p), got = answer_create(p);
            reference_forward(&bare, &expected);
            run_problem(t.layer, p, &parallel_serial, &got);
            ck_assert_msg(first_far(p, &got, &expected, 3e-5) == 6, "%s: kind %zu, seed %zu, problem %zu: tensor %zu",
                          engine_isa(), (size_t)seed % KINDS, (size_t)seed, i, first_far(p, &got, &expected, 3e-5));
            ck_assert_uint_eq(got.fully_masked_rows, expected.fully_masked_rows);
            answer_free(&got);
            answer_free(&expected);
            problem_free(&owner);
        }
        close_positioned(&t);
    }
}
END_TEST

/* All problems in one run on several lanes; without query and key, whose return keeps projections from being turned in
 * their tiles; and one sequence alone. */
START_TEST(company_lanes_and_results_change_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < 4 * KINDS; seed++) {
        struct positioned t;
        struct answer alone[PROBLEMS], together[PROBLEMS];
        const struct forward_input *inputs[PROBLEMS];
        struct forward_result results[PROBLEMS], *result_list[PROBLEMS];
        open_positioned(&t, kinds[seed % KINDS], 1000 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            alone[i] = answer_create(&t.problems[i]);
            together[i] = answer_create(&t.problems[i]);
            run_problem(t.layer, &t.problems[i], &parallel_serial, &alone[i]);
            t.problems[i].input.observed = seed / KINDS == 2 && !t.problems[i].input.bias;
            inputs[i] = &t.problems[i].input;
            results[i] = answer_result(&t.problems[i], &together[i]);
            results[i].query = results[i].key = NULL;
            result_list[i] = &results[i];
        }
        struct lanes threads;
        lanes_init(&threads, 1 + seed % LANES_MOST, seed);
        run_inputs(t.layer, inputs, result_list, PROBLEMS, &threads.parallel);
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct answer shown = together[i];
            shown.query = shown.key = NULL;
            ck_assert_msg(first_far(&t.problems[i], &shown, &alone[i], 0) == 6, "%s: seed %zu, problem %zu: tensor %zu",
                          engine_isa(), (size_t)seed, i, first_far(&t.problems[i], &shown, &alone[i], 0));
            answer_free(&together[i]);
            answer_free(&alone[i]);
        }
        close_positioned(&t);
    }
}
END_TEST

/* A bias of the request that is the same numbers gives the same bits. */
START_TEST(biases_have_the_bits_of_explicit_ones)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct positioned t;
        open_positioned(&t, kinds[3 + seed % 3], 2000 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct problem p = t.problems[i], owner = {0};
            p.input.bias = NULL;
            struct problem bare = without_positions(&p, &owner);
            const struct attention_rules without = {.pattern = t.rules->pattern};
            bare.input.rules = &without;
            struct answer expected = answer_create(&p), got = answer_create(&p);
            run_problem(t.layer, &bare, &parallel_serial, &expected);
            run_problem(t.layer, &p, &parallel_serial, &got);
            ck_assert_msg(first_far(&p, &got, &expected, 0) == 6, "%s: seed %zu", engine_isa(), (size_t)seed);
            answer_free(&got);
            answer_free(&expected);
            problem_free(&owner);
        }
        close_positioned(&t);
    }
}
END_TEST

START_TEST(a_shift_of_all_positions_does_not_turn_pairs_apart)
{
    if (!choose_variant(_i))
        return;
    size_t shifted = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct positioned t;
        open_positioned(&t, POSITION_ROPE, 3000 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct problem *p = &t.problems[i];
            if (!p->input.self_attention)
                continue;
            const size_t length = p->input.query_length;
            uint32_t *ids = problem_take(p, length * sizeof *ids);
            struct answer answers[2] = {answer_create(p), answer_create(p)};
            p->input.positions_per_sequence = false;
            p->input.position_ids = NULL;
            run_problem(t.layer, p, &parallel_serial, &answers[0]);
            for (size_t j = 0; j < length; j++)
                ids[j] = (uint32_t)(j + 100003 * seed);
            p->input.position_ids = ids;
            run_problem(t.layer, p, &parallel_serial, &answers[1]);
            ck_assert_uint_eq(first_far(p, &answers[0], &answers[1], 2e-5), 6);
            shifted++;
            answer_free(&answers[0]);
            answer_free(&answers[1]);
        }
        close_positioned(&t);
    }
    ck_assert_uint_gt(shifted, 10);
}
END_TEST

/* Known values: slopes of 2 and of 3 heads, buckets of 32 to 128. */
START_TEST(biases_have_the_numbers_of_their_papers)
{
    const struct position_rule alibi = {.kind = POSITION_ALIBI};
    ck_assert(position_bias(&alibi, 8, 0, -3) == -1.5 && position_bias(&alibi, 8, 7, 2) == -2.0 / 256);
    ck_assert(position_bias(&alibi, 3, 1, 1) == -1.0 / 256 && position_bias(&alibi, 3, 2, -1) == -0.25);
    float table[32];
    for (size_t i = 0; i < 32; i++)
        table[i] = (float)i;
    const struct position_rule t5 = {
        .kind = POSITION_T5, .table = table, .table_rows = 32, .max_distance = 128, .bidirectional = true};
    static const int64_t distances[] = {0, -7, 7, -8, 8, -16, 64, -127, 128, 100000};
    static const double buckets[] = {0, 7, 23, 8, 24, 10, 30, 15, 31, 31};
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++)
        ck_assert_double_eq(position_bias(&t5, 1, 0, distances[i]), buckets[i]);
}
END_TEST

/* The random problems above have all that can differ. */
START_TEST(problems_cover_what_there_is)
{
    enum {
        PADDING,
        HOLES,
        CAUSAL_CROSS,
        BELOW_0,
        BIAS,
        GROUPED,
        ODD_WIDTH,
        IDENTITY,
        SHARED_IDS,
        OWN_IDS,
        PATTERN,
        FEATURES
    };
    size_t seen[KINDS][FEATURES] = {{0}};
    choose_variant(0);
    for (uint64_t seed = 0; seed < SEEDS * KINDS; seed++) {
        struct positioned t;
        open_positioned(&t, kinds[seed % KINDS], seed / KINDS * 64 + seed % KINDS);
        size_t *s = seen[seed % KINDS];
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct forward_input *in = &t.problems[i].input;
            const bool padding = in->self_attention && in->mask_kind == FORWARD_MASK_KEYS;
            size_t edges = 0;
            for (size_t j = 1; padding && j < in->key_length; j++)
                edges += in->mask[j] != in->mask[j - 1];
            s[PADDING] += padding;
            s[HOLES] += edges > 2;
            s[CAUSAL_CROSS] += in->causal && in->query_length < in->key_length;
            s[BELOW_0] += in->causal && in->query_length > in->key_length;
            s[BIAS] += in->bias != NULL;
            s[GROUPED] += t.problems[i].shape.num_heads != t.problems[i].shape.num_kv_heads;
            s[ODD_WIDTH] += t.problems[i].shape.d_model % 2;
            s[IDENTITY] += !t.problems[i].shape.projected;
            s[SHARED_IDS] += in->position_ids && !in->positions_per_sequence;
            s[PATTERN] += t.rules->pattern.kind != PATTERN_FULL;
            s[OWN_IDS] += in->position_ids && in->positions_per_sequence;
        }
        close_positioned(&t);
    }
    for (size_t k = 0; k < KINDS; k++)
        for (size_t f = 0; f < FEATURES; f++)
            ck_assert_msg(seen[k][f] > 0, "feature %zu of the list is in no problem of kind %zu", f, k);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/position");
    TCase *t = tcase_create("position");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, positions_are_what_they_are_defined_as, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, company_lanes_and_results_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, biases_have_the_bits_of_explicit_ones, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_shift_of_all_positions_does_not_turn_pairs_apart, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, biases_have_the_numbers_of_their_papers);
    tcase_add_test(t, problems_cover_what_there_is);
    suite_add_tcase(s, t);
    return s;
}
