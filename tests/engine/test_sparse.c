/* Attention under patterns: against float64, and the same bits however it is computed. */

#include "engine/kernels/kernels.h"
#include "engine/observer.h"
#include "lanes.h"
#include "patterned.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct problem_limits limits = {
    .d_model = 20, .heads = 3, .d_k = 20, .d_v = 20, .batch = 3, .length = 300};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

START_TEST(every_pattern_is_within_the_bounds_of_float64)
{
    if (!choose_variant(_i / PATTERN_KIND_COUNT))
        return;
    const enum pattern_kind kind = (enum pattern_kind)(_i % PATTERN_KIND_COUNT);
    struct random random = {(uint64_t)_i};
    for (int round = 0; round < 12; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, kind);
        struct answer expected = answer_create(&p.problem), found = answer_create(&p.problem);
        reference_forward(&p.problem, &expected);
        run_problem(p.layer, &p.problem, &parallel_serial, &found);
        const struct answer_sizes sizes = answer_sizes(&p.problem);
        const float *const e[3] = {expected.output, expected.attention, expected.heads};
        const float *const f[3] = {found.output, found.attention, found.heads};
        for (size_t t = 0; t < 3; t++) {
            const double error = worst_error(f[t], e[t], sizes.n[t], 1e-5);
            ck_assert_msg(error <= 1, "kind %d, round %d: tensor %zu is %g bounds off", (int)kind, round, t, error);
        }
        for (size_t i = 0; i < sizes.n[1]; i++)
            if (e[1][i] == 0 && f[1][i] != 0)
                ck_abort_msg("a key that is not seen has weight %g", (double)f[1][i]);
        ck_assert_uint_eq(found.fully_masked_rows, expected.fully_masked_rows);
        answer_free(&expected);
        answer_free(&found);
        patterned_close(&p);
    }
}
END_TEST

static void check_same_bits(const struct problem *p, const struct answer *a, const struct answer *b, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const x[6] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    const float *const y[6] = {b->output, b->attention, b->heads, b->query, b->key, b->value};
    for (size_t t = 0; t < 6; t++)
        if (x[t] && y[t])
            ck_assert_msg(memcmp(x[t], y[t], sizes.n[t] * sizeof(float)) == 0, "%s: tensor %zu has other bits (%s)",
                          engine_isa(), t, what);
}

/* Everything that goes with a pattern is seen in the weights that are shown. */
struct shown {
    const struct problem *problem;
    const struct answer *answer;
    size_t n_rows;
};

static void see_rows(void *context, const struct observed_rows *rows, unsigned lane)
{
    struct shown *shown = context;
    const struct problem *p = shown->problem;
    const struct forward_input *in = &p->input;
    const bool padded = in->self_attention && in->mask_kind == FORWARD_MASK_KEYS;
    size_t *kept = calloc(in->key_length, sizeof *kept), n_kept = 0;
    (void)lane;
    for (size_t j = 0; j < in->key_length; j++)
        if (!padded || in->mask[rows->sequence * in->key_length + j])
            kept[n_kept++] = j;
    if (n_kept != rows->n_keys)
        ck_abort_msg("%zu keys, not %zu", rows->n_keys, n_kept);
    for (size_t i = 0; i < rows->n_rows; i++) {
        const size_t row = padded ? kept[rows->first_row + i] : rows->first_row + i;
        const float *map = shown->answer->attention +
                           ((rows->sequence * rows->num_heads + rows->head) * in->query_length + row) * in->key_length;
        for (size_t j = 0; j < rows->n_computed; j++) {
            const size_t key = kept[j];
            const bool causal = !in->causal || key + in->query_length <= row + in->key_length;
            bool allowed = p->pattern[row * in->key_length + key];
            if (in->mask_kind == FORWARD_MASK_PAIRS)
                allowed &= in->mask[(rows->sequence * in->query_length + row) * in->key_length + key];
            if (in->mask_kind == FORWARD_MASK_KEYS)
                allowed &= in->mask[rows->sequence * in->key_length + key];
            const ptrdiff_t limit = rows->key_limit + (ptrdiff_t)(i * rows->key_step);
            if (((ptrdiff_t)j < limit) != causal)
                ck_abort_msg("row %zu: key %zu on the wrong side of the limit", row, key);
            if (causal && rows->allowed && (rows->allowed[i * rows->n_keys + j] != 0) != allowed)
                ck_abort_msg("row %zu, key %zu: allowed is wrong", row, key);
            if (rows->weights[i * rows->stride + j] * rows->inverse[i] != map[key])
                ck_abort_msg("row %zu, key %zu: %g, not %g", row, key,
                             (double)(rows->weights[i * rows->stride + j] * rows->inverse[i]), (double)map[key]);
        }
    }
    __atomic_fetch_add(&shown->n_rows, rows->n_rows, __ATOMIC_RELAXED);
    free(kept);
}

static void run_observed(const struct patterned *p, const struct parallel *parallel, struct answer *answer,
                         const struct forward_observer *observer)
{
    struct problem problem = p->problem;
    problem.input.observed = true;
    const struct forward_input *inputs[1] = {&problem.input};
    struct forward_result result = answer_result(&problem, answer), *results[1] = {&result};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert(forward_scratch_bytes(&problem.shape, inputs, 1, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert(forward_run_observed(p->layer, inputs, results, 1, observer, parallel, &arena, &error));
    arena_free(&arena);
}

START_TEST(lanes_and_observers_change_no_bit)
{
    if (!choose_variant(_i / PATTERN_KIND_COUNT))
        return;
    struct random random = {1000 + (uint64_t)_i};
    for (int round = 0; round < 5; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, (enum pattern_kind)(_i % PATTERN_KIND_COUNT));
        struct answer alone = answer_create(&p.problem);
        run_problem(p.layer, &p.problem, &parallel_serial, &alone);
        for (unsigned n = 2; n <= 4; n++) {
            struct lanes threads;
            lanes_init(&threads, n, (uint64_t)round);
            struct answer found = answer_create(&p.problem);
            run_problem(p.layer, &p.problem, &threads.parallel, &found);
            check_same_bits(&p.problem, &alone, &found, "on several lanes");
            const bool hides_keys = !p.problem.input.self_attention && p.problem.input.mask_kind == FORWARD_MASK_KEYS;
            if (!p.problem.input.bias && !p.problem.include_heads && !hides_keys) { /* none such is observed */
                struct shown shown = {&p.problem, &alone, 0};
                run_observed(&p, &threads.parallel, &found,
                             &(struct forward_observer){.rows = see_rows, .context = &shown});
                check_same_bits(&p.problem, &alone, &found, "observed");
                ck_assert_uint_gt(shown.n_rows + (p.problem.input.mask != NULL), 0);
            }
            answer_free(&found);
        }
        for (size_t tensor = 0; tensor < 3; tensor++) {
            struct answer found = answer_create(&p.problem), wanted = {0};
            if (tensor == 0)
                wanted.output = found.output;
            if (tensor == 1)
                wanted.attention = found.attention;
            if (tensor == 2)
                wanted.heads = found.heads;
            run_problem(p.layer, &p.problem, &parallel_serial, &wanted);
            check_same_bits(&p.problem, &alone, &wanted, "one result only");
            answer_free(&found);
        }
        answer_free(&alone);
        patterned_close(&p);
    }
}
END_TEST

START_TEST(company_changes_no_bit)
{
    if (!choose_variant(_i / PATTERN_KIND_COUNT))
        return;
    enum { PROBLEMS = 4 };
    struct random random = {2000 + (uint64_t)_i};
    for (int round = 0; round < 4; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, (enum pattern_kind)(_i % PATTERN_KIND_COUNT));
        struct problem problems[PROBLEMS];
        struct answer alone[PROBLEMS], found[PROBLEMS];
        const struct forward_input *inputs[PROBLEMS];
        struct forward_result results[PROBLEMS], *result_list[PROBLEMS];
        struct lanes threads;
        lanes_init(&threads, 3, (uint64_t)round);
        for (size_t i = 0; i < PROBLEMS; i++) {
            problems[i] = problem_create(&random, &p.problem.shape, &p.problem.matrices, &limits);
            problems[i].input.rules = &p.rules;
            alone[i] = answer_create(&problems[i]);
            run_problem(p.layer, &problems[i], &parallel_serial, &alone[i]);
            found[i] = answer_create(&problems[i]);
            inputs[i] = &problems[i].input;
            results[i] = answer_result(&problems[i], &found[i]);
            result_list[i] = &results[i];
        }
        struct arena arena = {0};
        struct error error;
        size_t bytes;
        ck_assert(forward_scratch_bytes(&p.problem.shape, inputs, PROBLEMS, 3, &bytes));
        ck_assert(arena_reserve(&arena, bytes));
        ck_assert(forward_run(p.layer, inputs, result_list, PROBLEMS, &threads.parallel, &arena, &error));
        for (size_t i = 0; i < PROBLEMS; i++) {
            check_same_bits(&problems[i], &alone[i], &found[i], "in company");
            ck_assert_uint_eq(results[i].fully_masked_rows, alone[i].fully_masked_rows);
            answer_free(&alone[i]);
            answer_free(&found[i]);
            problem_free(&problems[i]);
        }
        arena_free(&arena);
        patterned_close(&p);
    }
}
END_TEST

START_TEST(a_pattern_that_hides_nothing_has_the_bits_of_none)
{
    if (!choose_variant(_i))
        return;
    const size_t most = (size_t)1 << 53;
    const struct pattern_rule rules[] = {
        {.kind = PATTERN_WINDOW, .left = 300, .right = 300},
        {.kind = PATTERN_WINDOW, .left = most, .right = most},
        {.kind = PATTERN_DILATED, .window = most, .step = 1},
        {.kind = PATTERN_BLOCK, .size = 1000},
        {.kind = PATTERN_BLOCK, .size = most},
        {.kind = PATTERN_BIGBIRD, .size = 7, .window_blocks = 1, .random_blocks = most},
        {.kind = PATTERN_BIGBIRD, .size = 40, .window_blocks = most - 1},
        {.kind = PATTERN_BIGBIRD, .size = 64, .window_blocks = 1, .global_blocks = 9},
        {.kind = PATTERN_TOP_K, .k = 300},
        {.kind = PATTERN_FULL},
    };
    struct random random = {3000 + (uint64_t)_i};
    for (int round = 0; round < 8; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, PATTERN_FULL);
        struct problem plain = p.problem;
        plain.input.rules = NULL;
        struct answer expected = answer_create(&plain);
        run_problem(p.layer, &plain, &parallel_serial, &expected);
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            if (rules[r].kind == PATTERN_BLOCK && !p.problem.input.self_attention)
                continue; /* queries may be more than keys */
            struct answer found = answer_create(&plain);
            p.rules.pattern = rules[r];
            run_problem(p.layer, &p.problem, &parallel_serial, &found);
            check_same_bits(&plain, &expected, &found, "nothing is hidden");
            ck_assert_uint_eq(found.fully_masked_rows, expected.fully_masked_rows);
            answer_free(&found);
        }
        answer_free(&expected);
        patterned_close(&p);
    }
}
END_TEST

START_TEST(a_map_is_the_full_one_renormalised)
{
    if (!choose_variant(_i))
        return;
    struct random random = {4000 + (uint64_t)_i};
    for (int round = 0; round < 10; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, (enum pattern_kind)(round % PATTERN_TOP_K));
        struct problem plain = p.problem;
        plain.input.rules = NULL;
        struct answer full = answer_create(&plain), found = answer_create(&p.problem);
        run_problem(p.layer, &plain, &parallel_serial, &full);
        run_problem(p.layer, &p.problem, &parallel_serial, &found);
        const size_t tq = plain.input.query_length, tk = plain.input.key_length;
        for (size_t row = 0; row < plain.input.batch * plain.n_maps * tq; row++) {
            double sum = 0;
            for (size_t j = 0; j < tk; j++)
                sum += p.problem.pattern[row % tq * tk + j] ? (double)full.attention[row * tk + j] : 0;
            for (size_t j = 0; j < tk; j++) {
                const double weight = (double)full.attention[row * tk + j] / sum;
                const double expected = p.problem.pattern[row % tq * tk + j] && sum > 0 ? weight : 0;
                if (sum > 1e-6 && !(fabs((double)found.attention[row * tk + j] - expected) <= 1e-5))
                    ck_abort_msg("row %zu, key %zu: %g, not %g", row, j, (double)found.attention[row * tk + j],
                                 expected);
            }
        }
        answer_free(&full);
        answer_free(&found);
        patterned_close(&p);
    }
}
END_TEST

/* Work is refused, and deadlines given up, by what it is said to cost: a few keys a row are few however many there are.
 */
START_TEST(a_narrow_dilated_pattern_costs_about_what_a_window_does)
{
    const struct attention_shape shape = {
        .d_model = 8, .num_heads = 1, .num_kv_heads = 1, .d_k = 8, .d_v = 8, .scale = 1};
    const struct attention_rules dilated = {.pattern = {.kind = PATTERN_DILATED, .window = 3, .step = 2}},
                                 window = {.pattern = {.kind = PATTERN_WINDOW, .left = 6, .right = 6}};
    struct forward_input input = {.batch = 1, .query_length = 100000, .key_length = 100000, .self_attention = true};
    input.rules = &window;
    const double least = forward_flop(&shape, &input);
    input.rules = &dilated;
    ck_assert_double_ge(forward_flop(&shape, &input), least);
    ck_assert_double_le(forward_flop(&shape, &input), 2 * least);
}
END_TEST

/* Rows without a key are found in tiles, like all else that takes long: where nobody waits, none is looked for. */
START_TEST(counting_rows_without_a_key_is_cancelled)
{
    enum { QUERIES = 300 };
    const struct attention_shape shape = {
        .d_model = 1, .num_heads = 1, .num_kv_heads = 1, .d_k = 1, .d_v = 1, .scale = 1};
    const struct attention_rules rules = {.pattern = {.kind = PATTERN_BLOCK, .size = 1}, .num_layers = 1};
    const float query[QUERIES] = {0}, key = 1;
    const struct forward_input input = {.batch = 1,
                                        .query_length = QUERIES,
                                        .key_length = 1,
                                        .query = query,
                                        .key = &key,
                                        .value = &key,
                                        .rules = &rules},
                               *inputs[] = {&input};
    float output[QUERIES];
    struct error error = {0};
    ck_assert(engine_init(NULL, &error));
    struct attention_layer *layer = attention_layer_create(&shape, NULL, &error);
    ck_assert(layer);
    struct arena arena = {0};
    size_t bytes;
    ck_assert(forward_scratch_bytes(&shape, inputs, 1, 1, &bytes) && arena_reserve(&arena, bytes));
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct forward_result result = {.output = output, .fully_masked_rows = 7}, *results[] = {&result};
        struct lanes lanes;
        lanes_init(&lanes, 1, 1);
        lanes.cancel_after = cancelled ? 0 : SIZE_MAX;
        arena_reset(&arena);
        ck_assert(forward_run(layer, inputs, results, 1, &lanes.parallel, &arena, &error) == !cancelled);
        ck_assert_uint_eq(result.fully_masked_rows, cancelled ? 0 : QUERIES - 1);
    }
    arena_free(&arena);
    attention_layer_free(layer);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/sparse");
    TCase *t = tcase_create("sparse");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_pattern_is_within_the_bounds_of_float64, 0, KERNEL_VARIANT_COUNT * PATTERN_KIND_COUNT);
    tcase_add_loop_test(t, lanes_and_observers_change_no_bit, 0, KERNEL_VARIANT_COUNT * PATTERN_KIND_COUNT);
    tcase_add_loop_test(t, company_changes_no_bit, 0, KERNEL_VARIANT_COUNT * PATTERN_KIND_COUNT);
    tcase_add_loop_test(t, a_pattern_that_hides_nothing_has_the_bits_of_none, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_map_is_the_full_one_renormalised, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, a_narrow_dilated_pattern_costs_about_what_a_window_does);
    tcase_add_test(t, counting_rows_without_a_key_is_cancelled);
    suite_add_tcase(s, t);
    return s;
}
