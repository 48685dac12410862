/* Models under rules beside full ones: the errors by definition from the maps and outputs of two runs, pairs one by
 * one, the same result as alone; memory, lanes, cancellation. */

#include "engine/model_compare.h"

#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "model_runner.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 30 };

static const struct model_limits limits = {
    .layers = 3, .d_model = 40, .heads = 3, .d_k = 16, .d_ff = 50, .batch = 3, .length = 40};

/* A model, what is asked of it, and the same without what approximates. */
struct scene {
    struct model_problem m;
    struct model_case c, full;
    struct attention_rules full_rules, rules;
};

static void scene_open(struct scene *s, uint64_t seed)
{
    struct random random = {seed};
    struct model_limits its = limits;
    its.dropout = seed % 4 == 0;
    model_problem_open(&s->m, &random, &its);
    model_case_open(&s->c, &random, &s->m, &its);
    s->c.include_heads = NULL;
    s->c.n_maps = s->m.shape.attention.num_heads;
    s->c.include_layers = NULL;
    s->c.n_layers = 0;
    s->rules = s->c.input.rules ? *s->c.input.rules : (struct attention_rules){0};
    if (seed % 3 == 0) { /* where no rule is drawn, one that leaves little of the maps */
        s->rules.pattern_given = true;
        s->rules.pattern = (struct pattern_rule){.kind = PATTERN_WINDOW, .left = seed % 4, .right = seed % 5};
        s->c.input.rules = &s->rules;
    }
    s->full = s->c;
    s->full_rules = s->rules;
    s->full_rules.pattern = (struct pattern_rule){.kind = PATTERN_FULL};
    s->full_rules.pattern_given = true;
    s->full_rules.low_rank = (struct low_rank_rule){.kind = LOW_RANK_NONE};
    s->full_rules.keep_heads = (struct keep_heads_rule){.kind = KEEP_ALL_HEADS};
    s->full_rules.dropout = (struct dropout_rule){.samples = 0};
    s->full.input.rules = &s->full_rules;
}

static void scene_close(struct scene *s)
{
    model_case_close(&s->c);
    model_problem_close(&s->m);
}

/* Whether mask and causal order of the layer leave the key to the query. */
static bool is_allowed(const struct scene *s, size_t layer, size_t b, size_t i, size_t j)
{
    const struct forward_input *in = &s->c.input;
    const struct layer_shape *l = &s->m.shape.layers[layer];
    const bool causal = l->own_causal && !in->causal_given ? l->causal : in->causal;
    const size_t t = in->key_length;
    if (causal && j > i)
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * t + i] && in->mask[b * t + j];
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * t + i) * t + j];
}

static struct approximation expect(const struct scene *s, const struct model_answer *got,
                                   const struct model_answer *full)
{
    const size_t t = s->c.input.query_length, layers = s->m.shape.num_layers, heads = s->m.shape.attention.num_heads,
                 d_model = s->m.shape.attention.d_model;
    const float *maps = got->tensors[ANSWER_ATTENTION], *full_maps = full->tensors[ANSWER_ATTENTION],
                *y = got->tensors[ANSWER_OUTPUT], *y_full = full->tensors[ANSWER_OUTPUT];
    double difference = 0, norm = 0, distance = 0, scored = 0, pairs = 0;
    for (size_t b = 0; b < s->c.input.batch; b++)
        for (size_t n = 0; n < layers; n++)
            for (size_t i = 0; i < t; i++) {
                size_t allowed = 0;
                for (size_t j = 0; j < t; j++)
                    allowed += is_allowed(s, n, b, i, j);
                pairs += (double)(allowed * heads);
                if (allowed == 0)
                    continue;
                scored++;
                for (size_t h = 0; h < heads; h++)
                    for (size_t j = 0; j < t; j++) {
                        const size_t at = (((b * layers + n) * heads + h) * t + i) * t + j;
                        distance += fabs((double)maps[at] - (double)full_maps[at]) / 2;
                    }
                for (size_t d = 0; d < d_model && n + 1 == layers; d++) {
                    const size_t at = (b * t + i) * d_model + d;
                    difference += pow((double)y[at] - (double)y_full[at], 2);
                    norm += pow((double)y_full[at], 2);
                }
            }
    return (struct approximation){.output_error = norm > 0 ? sqrt(difference / norm) : NAN,
                                  .attention_error = scored > 0 ? distance / scored / (double)heads : NAN,
                                  .pairs_full = pairs};
}

static void check_error(double found, double expected, const char *what)
{
    if (isnan(expected) != isnan(found) || fabs(found - expected) > 1e-5 * (1 + fabs(expected)))
        ck_abort_msg("%s is %.9g, not %.9g", what, found, expected);
}

/* In as much memory as it says, which holds NaN. */
static struct approximation run_compared(const struct scene *s, const struct parallel *parallel,
                                         struct model_answer *answer)
{
    struct forward_result result = model_answer_result(&s->m, &s->c, answer);
    struct approximation found;
    struct guarded memory;
    struct error error;
    size_t bytes;
    ck_assert(model_compare_bytes(&s->m.shape, &s->m.shape, &s->c.input, parallel->lanes, &bytes));
    guarded_open(&memory, bytes);
    ck_assert_msg(
        model_run_compared(s->m.model, s->m.model, &s->c.input, &result, parallel, &memory.arena, &found, &error), "%s",
        error.message);
    guarded_close(&memory);
    answer->fully_masked_rows = result.fully_masked_rows;
    return found;
}

static bool same_bits(const struct scene *s, const struct model_answer *a, const struct model_answer *b)
{
    bool same = a->fully_masked_rows == b->fully_masked_rows;
    for (size_t tensor = 0; tensor < ANSWER_TENSORS; tensor++)
        same = same && memcmp(a->tensors[tensor], b->tensors[tensor],
                              model_answer_size(&s->m, &s->c, tensor) * sizeof(float)) == 0;
    return same;
}

START_TEST(against_two_runs)
{
    struct scene s;
    if (!choose_variant(_i / PROBLEMS))
        return;
    scene_open(&s, 700 + (uint64_t)(_i % PROBLEMS));
    struct model_answer alone = model_answer_create(&s.m, &s.c), full = model_answer_create(&s.m, &s.full),
                        compared = model_answer_create(&s.m, &s.c);
    model_run_cases(&s.m, &s.c, 1, NULL, &parallel_serial, &alone);
    model_run_cases(&s.m, &s.full, 1, NULL, &parallel_serial, &full);
    const struct approximation found = run_compared(&s, &parallel_serial, &compared),
                               expected = expect(&s, &alone, &full);
    ck_assert(same_bits(&s, &alone, &compared));
    check_error(found.output_error, expected.output_error, "output_error");
    check_error(found.attention_error, expected.attention_error, "attention_error");
    ck_assert_msg(found.pairs_full == expected.pairs_full, "pairs_full is %g, not %g", found.pairs_full,
                  expected.pairs_full);
    ck_assert(found.pairs <= found.pairs_full);

    struct lanes lanes;
    lanes_init(&lanes, 3, (uint64_t)_i);
    struct model_answer again = model_answer_create(&s.m, &s.c);
    const struct approximation other = run_compared(&s, &lanes.parallel, &again);
    ck_assert(same_bits(&s, &alone, &again));
    ck_assert(memcmp(&found.pairs, &other.pairs, sizeof found.pairs) == 0);
    ck_assert(memcmp(&found.attention_error, &other.attention_error, sizeof found.pairs) == 0);
    ck_assert(memcmp(&found.output_error, &other.output_error, sizeof found.pairs) == 0);
    model_answer_free(&again);
    model_answer_free(&compared);
    model_answer_free(&full);
    model_answer_free(&alone);
    scene_close(&s);
}
END_TEST

/* What is asked for of the result makes no difference to what is found. */
START_TEST(nothing_returned)
{
    struct scene s;
    struct error error;
    size_t bytes;
    ck_assert(engine_init(NULL, &error));
    scene_open(&s, 903);
    struct model_answer answer = model_answer_create(&s.m, &s.c);
    const struct approximation found = run_compared(&s, &parallel_serial, &answer);
    struct forward_result nothing = {.n_maps = s.c.n_maps, .n_layers = s.m.shape.num_layers};
    struct approximation again;
    struct arena arena = {0};
    ck_assert(model_compare_bytes(&s.m.shape, &s.m.shape, &s.c.input, 1, &bytes) && arena_reserve(&arena, bytes));
    ck_assert(model_run_compared(s.m.model, s.m.model, &s.c.input, &nothing, &parallel_serial, &arena, &again, &error));
    ck_assert(memcmp(&found, &again, sizeof found) == 0);
    ck_assert_uint_eq(nothing.fully_masked_rows, answer.fully_masked_rows);
    arena_free(&arena);
    model_answer_free(&answer);
    scene_close(&s);
}
END_TEST

/* With too little memory it says so and writes nothing behind. */
START_TEST(too_small)
{
    struct scene s;
    struct error error;
    size_t bytes;
    ck_assert(engine_init(NULL, &error));
    scene_open(&s, 906);
    struct model_answer answer = model_answer_create(&s.m, &s.c);
    struct forward_result result = model_answer_result(&s.m, &s.c, &answer);
    struct approximation found = {.pairs = -1};
    ck_assert(model_compare_bytes(&s.m.shape, &s.m.shape, &s.c.input, 1, &bytes));
    for (size_t part = 0; part < 4; part++) {
        struct guarded memory;
        guarded_open(&memory, bytes * part / 4 / ARENA_ALIGNMENT * ARENA_ALIGNMENT);
        ck_assert(!model_run_compared(s.m.model, s.m.model, &s.c.input, &result, &parallel_serial, &memory.arena,
                                      &found, &error));
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        guarded_close(&memory);
    }
    ck_assert(found.pairs == -1);
    model_answer_free(&answer);
    scene_close(&s);
}
END_TEST

START_TEST(cancelled)
{
    struct error error;
    ck_assert(engine_init(NULL, &error));
    for (uint64_t seed = 950; seed < 954; seed++) {
        struct scene s;
        size_t bytes, asked = 1;
        scene_open(&s, seed);
        struct model_answer answer = model_answer_create(&s.m, &s.c);
        ck_assert(model_compare_bytes(&s.m.shape, &s.m.shape, &s.c.input, 2, &bytes));
        for (size_t after = SIZE_MAX, step = 0; step == 0 || after < asked; after = step * asked / 20, step++) {
            struct forward_result result = model_answer_result(&s.m, &s.c, &answer);
            struct approximation found;
            struct arena arena = {0};
            struct lanes lanes;
            lanes_init(&lanes, 2, seed);
            lanes.cancel_after = after;
            ck_assert(arena_reserve(&arena, bytes));
            const bool done =
                model_run_compared(s.m.model, s.m.model, &s.c.input, &result, &lanes.parallel, &arena, &found, &error);
            ck_assert_int_eq(done, after == SIZE_MAX);
            if (done)
                asked = lanes.n_asked;
            else
                ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
            arena_free(&arena);
        }
        ck_assert_uint_gt(asked, 20);
        model_answer_free(&answer);
        scene_close(&s);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/model_compare");
    TCase *c = tcase_create("model_compare");
    tcase_add_loop_test(c, against_two_runs, 0, PROBLEMS * (int)ISA_COUNT);
    tcase_add_test(c, nothing_returned);
    tcase_add_test(c, too_small);
    tcase_add_test(c, cancelled);
    suite_add_tcase(s, c);
    return s;
}
