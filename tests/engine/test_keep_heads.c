/* Which heads are kept, beside the definition in float64 over the reference's maps and heads; that dropped heads are as
 * if their head_mask were 0; and that those which are known beforehand are left out whatever else is computed. */

#include "engine/keep_heads.h"
#include "engine/kernels/kernels.h"
#include "keep_heads_definition.h"
#include "lanes.h"
#include "pattern_definition.h"
#include "positions.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 3, SEEDS = 60, HEADS_MOST = 24 };

static const struct problem_limits limits = {.d_model = 80, .heads = 7, .d_k = 33, .d_v = 40, .batch = 3, .length = 70};

struct kept {
    struct problem owner;
    struct attention_rules *rules;
    double importance[HEADS_MOST];
    struct attention_layer *layer;
    struct problem problems[PROBLEMS];
};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static void random_rule(struct random *random, struct kept *k, size_t num_heads)
{
    struct keep_heads_rule *rule = &k->rules->keep_heads;
    rule->kind = (enum keep_heads_kind)random_size(random, KEEP_COUNT, KEEP_ENTROPY_BELOW);
    rule->by = (enum keep_heads_measure)random_size(random, KEEP_BY_NORM, KEEP_BY_IMPORTANCE);
    rule->count = random_size(random, 1, num_heads);
    rule->mass = (double)random_size(random, 1, 100) / 100;
    rule->entropy_below = random_chance(random, 0.2) ? 0 : 0.8 + (double)random_size(random, 0, 20) / 100;
    for (size_t h = 0; h < num_heads; h++)
        k->importance[h] = (double)random_size(random, 0, 9);
    rule->importance = k->importance;
}

static void open_kept(struct kept *k, uint64_t seed)
{
    struct random random = {seed};
    struct error error;
    *k = (struct kept){0};
    struct attention_shape shape;
    do
        shape = random_shape(&random, &limits);
    while (shape.d_k < 2);
    ck_assert_uint_le(shape.num_heads, HEADS_MOST);
    const struct attention_matrices matrices = random_matrices(&random, &shape, &k->owner);
    k->rules = random_positions(&random, seed % 3 ? POSITION_NONE : POSITION_ROPE, &shape, 1, &k->owner);
    random_rule(&random, k, shape.num_heads);
    if (seed % 2)
        k->rules->pattern =
            random_pattern(&random, (enum pattern_kind)random_size(&random, 0, PATTERN_KIND_COUNT - 1), 40);
    k->layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(k->layer);
    for (size_t i = 0; i < PROBLEMS; i++) {
        k->problems[i] = problem_create(&random, &shape, &matrices, &limits);
        k->problems[i].input.rules = k->rules;
        define_pattern(&k->problems[i]);
    }
}

static void close_kept(struct kept *k)
{
    for (size_t i = 0; i < PROBLEMS; i++)
        problem_free(&k->problems[i]);
    attention_layer_free(k->layer);
    problem_free(&k->owner);
}

/* heads_used [B, H] of the engine, with the answer. */
static void run_kept(const struct kept *k, const struct problem *p, struct answer *a, uint8_t *used)
{
    const struct forward_input *inputs[] = {&p->input};
    struct forward_result result = answer_result(p, a), *results[] = {&result};
    result.heads_used = used;
    run_inputs(k->layer, inputs, results, 1, &parallel_serial);
}

START_TEST(heads_are_kept_by_their_definition)
{
    if (!choose_variant(_i))
        return;
    size_t compared = 0, too_close = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct kept k;
        open_kept(&k, seed);
        const struct keep_heads_rule *rule = &k.rules->keep_heads;
        const bool known = rule->kind != KEEP_ENTROPY_BELOW && rule->by == KEEP_BY_IMPORTANCE;
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct problem *p = &k.problems[i];
            const size_t heads = p->shape.num_heads, rows = p->input.query_length * p->shape.d_model;
            struct answer got = answer_create(p);
            uint8_t used[3 * HEADS_MOST], expected[HEADS_MOST];
            memset(used, 7, sizeof used);
            run_kept(&k, p, &got, used);
            for (size_t b = 0; b < p->input.batch; b++) {
                struct problem one = one_sequence(p, b), owner = {0};
                one = without_positions(&one, &owner);
                one.input.rules = k.rules;
                struct answer full = answer_create(&one), dropped = answer_create(&one);
                double values[HEADS_MOST], margin;
                float gate[HEADS_MOST];
                reference_forward(&one, &full);
                keep_heads_values(&one, &full, values);
                margin = keep_heads_choice(rule, known ? k.importance : values, heads, expected);
                compared++;
                if (margin < 1e-4)
                    too_close++;
                else
                    ck_assert_msg(memcmp(used + b * heads, expected, heads) == 0, "%s: seed %zu, problem %zu",
                                  engine_isa(), (size_t)seed, i);
                for (size_t h = 0; h < heads; h++)
                    gate[h] = used[b * heads + h] ? one.input.head_mask ? one.input.head_mask[h] : 1 : 0;
                one.input.head_mask = gate;
                reference_forward(&one, &dropped);
                ck_assert_double_le(worst_error(got.output + b * rows, dropped.output, rows, 3e-5), 1);
                answer_free(&full);
                answer_free(&dropped);
                problem_free(&owner);
            }
            answer_free(&got);
        }
        close_kept(&k);
    }
    ck_assert_uint_lt(10 * too_close, compared);
}
END_TEST

static void check_same(const struct problem *p, const struct answer *a, const struct answer *b, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const x[6] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    const float *const y[6] = {b->output, b->attention, b->heads, b->query, b->key, b->value};
    for (size_t t = 0; t < 6; t++)
        if (x[t])
            ck_assert_msg(memcmp(x[t], y[t], sizes.n[t] * sizeof(float)) == 0, "%s: %s: tensor %zu", engine_isa(), what,
                          t);
}

/* In company, on several lanes, and with the output alone, for which the fewest numbers are computed; and what is not
 * the output is as without the rule. */
START_TEST(company_lanes_and_results_change_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct kept k;
        open_kept(&k, 500 + seed);
        struct answer alone[PROBLEMS], together[PROBLEMS];
        const struct forward_input *inputs[PROBLEMS];
        struct forward_result results[PROBLEMS], *result_list[PROBLEMS];
        uint8_t used[PROBLEMS][3 * HEADS_MOST], used_together[PROBLEMS][3 * HEADS_MOST];
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct problem *p = &k.problems[i], plain = *p;
            struct attention_rules without = *k.rules;
            struct answer all = answer_create(p);
            alone[i] = answer_create(p);
            together[i] = answer_create(p);
            run_kept(&k, p, &alone[i], used[i]);
            without.keep_heads.kind = KEEP_ALL_HEADS;
            plain.input.rules = &without;
            run_kept(&k, &plain, &all, NULL);
            struct answer shown = alone[i];
            shown.output = NULL;
            check_same(p, &shown, &all, "beside the output");
            answer_free(&all);
            p->input.observed = seed % 4 == 1 && !p->input.bias;
            inputs[i] = &p->input;
            results[i] = (struct forward_result){.output = together[i].output, .heads_used = used_together[i]};
            if (seed % 3 == 0) { /* or with some maps */
                results[i] = answer_result(p, &together[i]);
                results[i].heads_used = used_together[i];
                results[i].query = results[i].key = results[i].value = NULL;
            }
            result_list[i] = &results[i];
        }
        struct lanes threads;
        lanes_init(&threads, 1 + seed % LANES_MOST, seed);
        run_inputs(k.layer, inputs, result_list, PROBLEMS, &threads.parallel);
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct answer shown = together[i];
            shown.attention = results[i].attention;
            shown.heads = results[i].heads;
            shown.query = shown.key = shown.value = NULL;
            check_same(&k.problems[i], &shown, &alone[i], "together");
            ck_assert_int_eq(
                memcmp(used[i], used_together[i], k.problems[i].input.batch * k.problems[i].shape.num_heads), 0);
            answer_free(&alone[i]);
            answer_free(&together[i]);
        }
        close_kept(&k);
    }
}
END_TEST

/* By what a head did: the bits that head_mask gives. */
START_TEST(dropped_heads_are_those_of_head_mask_0)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct kept k;
        open_kept(&k, 900 + seed);
        if (k.rules->keep_heads.by == KEEP_BY_IMPORTANCE)
            k.rules->keep_heads.by = KEEP_BY_NORM;
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct problem p = one_sequence(&k.problems[i], 0);
            struct answer kept = answer_create(&p), masked = answer_create(&p);
            uint8_t used[HEADS_MOST];
            float gate[HEADS_MOST];
            run_kept(&k, &p, &kept, used);
            for (size_t h = 0; h < p.shape.num_heads; h++)
                gate[h] = used[h] ? p.input.head_mask ? p.input.head_mask[h] : 1 : 0;
            struct attention_rules without = *k.rules;
            without.keep_heads.kind = KEEP_ALL_HEADS;
            p.input.rules = &without;
            p.input.head_mask = gate;
            run_kept(&k, &p, &masked, NULL);
            check_same(&p, &kept, &masked, "head_mask");
            answer_free(&kept);
            answer_free(&masked);
        }
        close_kept(&k);
    }
}
END_TEST

/* Samples that drop no weight are the pass without dropout, whose heads they keep. */
START_TEST(samples_keep_the_same_heads)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < SEEDS / 2; seed++) {
        struct kept k;
        open_kept(&k, 1300 + seed);
        for (size_t i = 0; i < PROBLEMS; i++) {
            struct problem *p = &k.problems[i];
            struct answer alone = answer_create(p), sampled = answer_create(p);
            uint8_t used[2][3 * HEADS_MOST] = {{0}};
            k.rules->dropout.samples = 0;
            run_kept(&k, p, &alone, used[0]);
            k.rules->dropout.samples = 3;
            run_kept(&k, p, &sampled, used[1]);
            for (size_t n = 0; n < answer_sizes(p).n[0]; n++)
                ck_assert(sampled.output[n] == alone.output[n]); /* -0 has become 0 */
            ck_assert_int_eq(memcmp(used[0], used[1], sizeof used[0]), 0);
            answer_free(&alone);
            answer_free(&sampled);
        }
        close_kept(&k);
    }
}
END_TEST

/* A rule, values, and the heads that are kept, as text. */
START_TEST(choices_are_exact)
{
    static const struct {
        struct keep_heads_rule rule;
        double values[4];
        const char *used;
    } cases[] = {
        {{.kind = KEEP_COUNT, .count = 2}, {1, 3, 3, 3}, "0110"},
        {{.kind = KEEP_COUNT, .count = 1}, {0, 0, 0, 0}, "1000"},
        {{.kind = KEEP_COUNT, .count = 4}, {4, 1, 2, 3}, "1111"},
        {{.kind = KEEP_COUNT, .count = 1}, {1, NAN, 2, 3}, "1111"}, /* not hidden */
        {{.kind = KEEP_COUNT, .count = 1}, {1, INFINITY, 2, 3}, "1111"},
        {{.kind = KEEP_MASS, .mass = 0.5}, {1, 2, 5, 2}, "0010"},
        {{.kind = KEEP_MASS, .mass = 0.7}, {1, 2, 5, 2}, "0110"}, /* 0.7 itself */
        {{.kind = KEEP_MASS, .mass = 1}, {1, 2, 5, 0}, "1110"},
        {{.kind = KEEP_MASS, .mass = 0.4}, {1e308, 1e308, 1.5e308, 1e308}, "1010"}, /* the sum is not finite */
        {{.kind = KEEP_COUNT, .count = 1}, {1e308, 1e308, 1.5e308, 1e308}, "0010"},
        {{.kind = KEEP_MASS, .mass = 0.1}, {0, 0, 0, 0}, "1111"},
        {{.kind = KEEP_ENTROPY_BELOW, .entropy_below = 0.5}, {0.4, 0.5, 0.6, 0}, "1101"},
        {{.kind = KEEP_ENTROPY_BELOW, .entropy_below = 0.5}, {0.9, 0.8, 0.8, 1}, "0100"},
        {{.kind = KEEP_ENTROPY_BELOW, .entropy_below = 0.5}, {0.9, NAN, 0.8, 1}, "1111"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t used[4] = {7, 7, 7, 7};
        keep_heads_choose(&cases[i].rule, cases[i].values, 4, used);
        for (size_t h = 0; h < 4; h++)
            ck_assert_msg(used[h] == cases[i].used[h] - '0', "case %zu, head %zu", i, h);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/keep_heads");
    TCase *t = tcase_create("keep_heads");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, heads_are_kept_by_their_definition, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, company_lanes_and_results_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, dropped_heads_are_those_of_head_mask_0, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, samples_keep_the_same_heads, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, choices_are_exact);
    suite_add_tcase(s, t);
    return s;
}
