/* What runs under rules are beside full ones, and the pairs that are counted: against maps and outputs of the
 * reference, and pair by pair. */

#include "engine/compare.h"

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "low_rank.h"
#include "patterned.h"
#include "suite.h"

#include <math.h>
#include <string.h>

static const struct problem_limits limits = {
    .d_model = 20, .heads = 3, .d_k = 20, .d_v = 20, .batch = 3, .length = 250};

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static bool is_allowed(const struct problem *p, size_t b, size_t i, size_t j)
{
    const struct forward_input *in = &p->input;
    const bool padding = in->mask_kind == FORWARD_MASK_KEYS && in->self_attention;
    if (in->causal && j + in->query_length > i + in->key_length)
        return false;
    if (padding && !in->mask[b * in->key_length + i])
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * in->key_length + j];
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * in->query_length + i) * in->key_length + j];
}

static struct approximation expect(const struct problem *p, const struct answer *got, const struct answer *full)
{
    struct approximation a = {0};
    const size_t tq = p->input.query_length, tk = p->input.key_length, heads = p->shape.num_heads,
                 d_model = p->shape.d_model;
    double difference = 0, norm = 0, distance = 0, n_scored = 0;
    for (size_t b = 0; b < p->input.batch; b++)
        for (size_t i = 0; i < tq; i++) {
            double n_full = 0, n_seen = 0;
            for (size_t j = 0; j < tk; j++) {
                n_full += is_allowed(p, b, i, j);
                n_seen += is_allowed(p, b, i, j) && p->pattern[i * tk + j];
            }
            a.pairs += n_seen * (double)heads;
            a.pairs_full += n_full * (double)heads;
            if (n_full == 0)
                continue;
            n_scored++;
            for (size_t d = 0; d < d_model; d++) {
                const size_t at = (b * tq + i) * d_model + d;
                difference += pow((double)got->output[at] - (double)full->output[at], 2);
                norm += pow((double)full->output[at], 2);
            }
            for (size_t h = 0; h < heads; h++)
                for (size_t j = 0; j < tk; j++) {
                    const size_t at = ((b * heads + h) * tq + i) * tk + j;
                    distance += fabs((double)got->attention[at] - (double)full->attention[at]) / 2;
                }
        }
    a.output_error = norm > 0 ? sqrt(difference / norm) : NAN;
    a.attention_error = n_scored > 0 ? distance / n_scored / (double)heads : NAN;
    return a;
}

static void check_error(double found, double expected, double tolerance, const char *what)
{
    if (isnan(expected) != isnan(found) || fabs(found - expected) > tolerance * (1 + fabs(expected)))
        ck_abort_msg("%s is %.9g, not %.9g", what, found, expected);
}

static struct approximation run_compared(const struct attention_layer *layer, const struct problem *p,
                                         const struct parallel *parallel, struct answer *answer)
{
    struct forward_result result = answer_result(p, answer);
    struct arena arena = {0};
    struct approximation found;
    struct error error;
    size_t bytes;
    ck_assert(forward_compare_bytes(&p->shape, &p->shape, &p->input, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert(forward_run_compared(layer, layer, &p->input, &result, parallel, &arena, &found, &error));
    answer->fully_masked_rows = result.fully_masked_rows;
    arena_free(&arena);
    return found;
}

START_TEST(a_comparison_is_that_of_the_maps_and_outputs)
{
    if (!choose_variant(_i / PATTERN_KIND_COUNT))
        return;
    struct random random = {(uint64_t)_i};
    for (int round = 0; round < 6; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, (enum pattern_kind)(_i % PATTERN_KIND_COUNT));
        struct problem all = p.problem, plain = p.problem;
        all.include_heads = plain.include_heads = NULL;
        all.n_maps = plain.n_maps = all.shape.num_heads;
        plain.pattern = NULL;
        plain.top_k = 0;
        struct answer seen = answer_create(&all), full = answer_create(&plain), found = answer_create(&p.problem),
                      alone = answer_create(&p.problem);
        reference_forward(&all, &seen);
        reference_forward(&plain, &full);
        const struct approximation expected = expect(&all, &seen, &full);
        struct lanes threads;
        lanes_init(&threads, (unsigned)random_size(&random, 1, LANES_MOST), (uint64_t)round);
        const struct approximation a = run_compared(p.layer, &p.problem, &threads.parallel, &found);
        check_error(a.output_error, expected.output_error, 2e-5, "output_error");
        check_error(a.attention_error, expected.attention_error, 2e-5, "attention_error");
        ck_assert_msg(a.pairs == expected.pairs, "pairs: %.17g, not %.17g", a.pairs, expected.pairs);
        ck_assert_msg(a.pairs_full == expected.pairs_full, "pairs_full: %.17g, not %.17g", a.pairs_full,
                      expected.pairs_full);
        run_problem(p.layer, &p.problem, &parallel_serial, &alone);
        const struct answer_sizes sizes = answer_sizes(&p.problem);
        ck_assert_int_eq(memcmp(alone.output, found.output, sizes.n[0] * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(alone.attention, found.attention, sizes.n[1] * sizeof(float)), 0);
        ck_assert_uint_eq(alone.fully_masked_rows, found.fully_masked_rows);
        struct answer none = {0};
        const struct approximation again = run_compared(p.layer, &p.problem, &parallel_serial, &none);
        ck_assert_msg(memcmp(&a, &again, sizeof a) == 0, "other bits on one lane, without results");
        answer_free(&seen);
        answer_free(&full);
        answer_free(&found);
        answer_free(&alone);
        patterned_close(&p);
    }
}
END_TEST

/* Landmarks, and sequences that have no more tokens; linformer, whose maps have other columns. */
START_TEST(low_rank_is_compared)
{
    if (!choose_variant(_i / 2))
        return;
    struct random random = {7 + (uint64_t)_i};
    for (int round = 0; round < 6; round++) {
        struct error error;
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = low_rank_problem(&random, &shape, NULL, &limits, _i % 2 == 0);
        struct attention_rules rules = {.num_layers = 1};
        p.include_heads = NULL;
        p.n_maps = shape.num_heads;
        struct problem plain = p;
        p.input.rules = &rules;
        if (_i % 2 == 0)
            rules.low_rank = (struct low_rank_rule){
                .kind = LOW_RANK_NYSTROM, .landmarks = random_size(&random, 1, 12), .iterations = 6};
        else
            random_linformer(&random, &p, shape.num_heads, 5, p.input.key_length, &rules.low_rank);
        uint8_t *table = problem_take(&p, p.input.query_length * p.input.key_length);
        memset(table, 1, p.input.query_length * p.input.key_length);
        plain.pattern = table;
        struct attention_layer *layer = attention_layer_create(&shape, &p.matrices, &error);
        struct answer seen = answer_create(&p), full = answer_create(&plain), found = answer_create(&p);
        reference_low_rank(&p, &seen);
        reference_forward(&plain, &full);
        const struct approximation a = run_compared(layer, &p, &parallel_serial, &found);
        struct answer comparable = seen;
        if (_i % 2)
            comparable.attention = full.attention;
        const struct approximation expected = expect(&plain, &comparable, &full);
        check_error(a.output_error, expected.output_error, 3e-4, "output_error");
        check_error(a.attention_error, _i % 2 ? NAN : expected.attention_error, 3e-4, "attention_error");
        ck_assert(a.pairs_full == expected.pairs_full);
        struct lanes threads;
        lanes_init(&threads, 3, (uint64_t)round);
        struct answer none = {0};
        const struct approximation again = run_compared(layer, &p, &threads.parallel, &none);
        ck_assert_msg(memcmp(&a, &again, sizeof a) == 0, "other bits on several lanes, without results");
        answer_free(&seen);
        answer_free(&full);
        answer_free(&found);
        attention_layer_free(layer);
        problem_free(&p);
    }
}
END_TEST

/* Heads that are dropped are not computed, but their maps are compared; a comparison sees positions and masks as the
 * runs do. */
START_TEST(heads_and_positions_leave_maps_as_they_are)
{
    if (!choose_variant(_i))
        return;
    struct random random = {70 + (uint64_t)_i};
    for (int round = 0; round < 5; round++) {
        struct patterned p;
        patterned_open(&p, &random, &limits, PATTERN_WINDOW);
        double importance[64];
        for (size_t h = 0; h < 64; h++)
            importance[h] = (double)random_size(&random, 0, 9);
        p.rules.position = (struct position_rule){.kind = POSITION_ALIBI};
        struct answer first = answer_create(&p.problem), second = answer_create(&p.problem), none = {0};
        const struct approximation all = run_compared(p.layer, &p.problem, &parallel_serial, &first);
        p.rules.keep_heads = (struct keep_heads_rule){
            .kind = KEEP_COUNT, .by = KEEP_BY_IMPORTANCE, .count = 1, .importance = importance};
        const struct approximation one = run_compared(p.layer, &p.problem, &parallel_serial, &none);
        ck_assert(memcmp(&all.attention_error, &one.attention_error, sizeof(double)) == 0);
        ck_assert(all.pairs == one.pairs && all.pairs_full == one.pairs_full);
        p.rules.pattern = (struct pattern_rule){.kind = PATTERN_FULL};
        const struct approximation full = run_compared(p.layer, &p.problem, &parallel_serial, &none);
        ck_assert(full.attention_error == 0 || isnan(full.attention_error));
        ck_assert(full.pairs == full.pairs_full);
        p.rules.keep_heads = (struct keep_heads_rule){.kind = KEEP_ALL_HEADS};
        const struct approximation same = run_compared(p.layer, &p.problem, &parallel_serial, &second);
        ck_assert(same.output_error == 0 || isnan(same.output_error));
        answer_free(&first);
        answer_free(&second);
        patterned_close(&p);
    }
}
END_TEST

static double count_pairs(const struct forward_input *input)
{
    const struct attention_shape shape = {.d_model = 8, .num_heads = 4, .num_kv_heads = 4, .d_k = 2, .d_v = 2};
    struct arena arena = {0};
    size_t bytes;
    double pairs;
    ck_assert(forward_pairs_bytes(input, 1, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert(forward_pairs(&shape, input, &parallel_serial, &arena, &pairs));
    ck_assert_uint_eq(arena.used, 0);
    arena_free(&arena);
    return pairs;
}

/* T k; T m + m m + m n, or T n where the sequence is exact. */
START_TEST(pairs_of_low_rank_are_those_of_its_matrices)
{
    const uint8_t mask[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}; /* 10 and 3 of 10 */
    struct attention_rules rules = {.low_rank = {.kind = LOW_RANK_LINFORMER, .projected_keys = 3}};
    struct forward_input input = {
        .batch = 2, .query_length = 10, .key_length = 10, .self_attention = true, .rules = &rules};
    ck_assert(count_pairs(&input) == 4 * 2 * 10 * 3);
    rules.low_rank = (struct low_rank_rule){.kind = LOW_RANK_NYSTROM, .landmarks = 4, .iterations = 6};
    ck_assert(count_pairs(&input) == 4 * 2 * (10 * 4 + 4 * 4 + 4 * 10));
    input.mask_kind = FORWARD_MASK_KEYS;
    input.mask = mask;
    ck_assert(count_pairs(&input) == 4 * (10 * 4 + 4 * 4 + 4 * 10 + 3 * 3));
}
END_TEST

/* Memory and work grow with the length, not with its square; what cannot be done soon is known beforehand. */
START_TEST(cost_of_a_pattern_grows_with_the_length)
{
    const struct attention_shape shape = {64, 2, 2, 32, 32, 0.2f, true};
    struct attention_rules rules = {.pattern = {.kind = PATTERN_WINDOW, .left = 64, .right = 64}};
    struct forward_input inputs[2] = {{.batch = 1, .query_length = 20000, .key_length = 20000, .rules = &rules}};
    inputs[0].self_attention = true;
    inputs[1] = inputs[0];
    inputs[1].query_length = inputs[1].key_length = 40000;
    size_t bytes[2];
    for (size_t i = 0; i < 2; i++)
        ck_assert(forward_compare_bytes(&shape, &shape, &inputs[i], 2, &bytes[i]));
    ck_assert_uint_le(bytes[1], bytes[0] * 21 / 10);
    ck_assert_double_le(forward_flop(&shape, &inputs[1]), 2.01 * forward_flop(&shape, &inputs[0]));
    rules.pattern = (struct pattern_rule){
        .kind = PATTERN_BIGBIRD, .size = 1, .window_blocks = 3, .global_blocks = 1, .random_blocks = 10000};
    inputs[0].query_length = inputs[0].key_length = 100000;
    /* All that 64 rows of blocks see: each draws 10000 keys of 100000. */
    ck_assert_double_ge(forward_flop(&shape, &inputs[0]), 1e5 * 1e5 * 2 * 2 * 64);
    ck_assert(forward_scratch_bytes(&shape, (const struct forward_input *[]){&inputs[0]}, 1, 2, &bytes[0]));
    ck_assert_uint_le(bytes[0], (size_t)512 << 20);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/compare");
    TCase *t = tcase_create("compare");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_comparison_is_that_of_the_maps_and_outputs, 0, KERNEL_VARIANT_COUNT * PATTERN_KIND_COUNT);
    tcase_add_loop_test(t, low_rank_is_compared, 0, 2 * KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, heads_and_positions_leave_maps_as_they_are, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, pairs_of_low_rank_are_those_of_its_matrices);
    tcase_add_test(t, cost_of_a_pattern_grows_with_the_length);
    suite_add_tcase(s, t);
    return s;
}
