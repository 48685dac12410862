/* Importance at a model's output against forwards of the whole model with the head masked out: the same numbers to the
 * last bits; the same on any number of lanes; in as much memory as was asked for; that it can be cancelled. */
#include "analysis/model_importance.h"

#include "analysis/random_maps.h"
#include "engine/lanes.h"
#include "engine/model_problem.h"
#include "engine/model_runner.h"

#include <string.h>

static const struct model_limits limits = {
    .layers = 3, .d_model = 20, .heads = 3, .d_k = 8, .d_ff = 24, .batch = 2, .length = 24};

struct scene {
    struct model_problem problem;
    struct model_case one;
    float *output, *states;
    struct forward_result result;
    double *importance; /* [L, H] */
};

static size_t rows_of(const struct scene *s)
{
    return s->one.input.batch * s->one.input.query_length;
}

static void make_scene(struct scene *s, struct random *random)
{
    const struct model_case *cases[] = {&s->one};
    model_problem_open(&s->problem, random, &limits);
    s->problem.rules.dropout.samples = 0;
    model_case_open(&s->one, random, &s->problem, &limits);
    const struct attention_shape *a = &s->problem.shape.attention;
    const size_t layers = s->problem.shape.num_layers, floats = rows_of(s) * a->d_model;
    s->output = calloc(floats, sizeof *s->output);
    s->states = calloc(floats * (layers + 1), sizeof *s->states);
    s->importance = calloc(layers * a->num_heads, sizeof *s->importance);
    s->result = (struct forward_result){.output = s->output, .hidden_states = s->states, .n_states = layers + 1};
    model_run_results(&s->problem, cases, &s->result, 1, NULL, &parallel_serial);
}

static void free_scene(struct scene *s)
{
    free(s->output), free(s->states), free(s->importance);
    model_case_close(&s->one);
    model_problem_close(&s->problem);
}

static bool measure(struct scene *s, const struct parallel *parallel, struct model_importance *found,
                    struct error *error)
{
    const struct measured_layers layers = {NULL, s->problem.shape.num_layers};
    struct guarded memory;
    size_t bytes;
    *found = (struct model_importance){.importance = s->importance};
    ck_assert(model_importance_bytes(&s->problem.shape, &s->one.input, parallel->lanes, &bytes));
    guarded_open(&memory, bytes);
    const bool done = model_importance_run(s->problem.model, &s->one.input, &s->result, &layers, parallel,
                                           &memory.arena, found, error);
    guarded_close(&memory);
    return done;
}

/* Of a whole forward, with the head masked out. */
static double define(const struct scene *s, size_t layer, size_t head, const uint8_t *scored)
{
    const struct attention_shape *a = &s->problem.shape.attention;
    const size_t layers = s->problem.shape.num_layers, rows = rows_of(s);
    struct model_case without = s->one;
    const struct model_case *cases[] = {&without};
    float *mask = malloc(layers * a->num_heads * sizeof *mask), *output = calloc(rows * a->d_model, sizeof *output);
    struct forward_result result = {.output = output};
    double changed = 0, whole = 0;
    for (size_t n = 0; n < layers; n++)
        for (size_t h = 0; h < a->num_heads; h++) {
            const struct forward_input *in = &s->one.input;
            const float gate = in->head_mask ? in->head_mask[(in->head_mask_per_layer ? n * a->num_heads : 0) + h] : 1;
            mask[n * a->num_heads + h] = n == layer && h == head ? 0 : gate;
        }
    without.input.head_mask = mask;
    without.input.head_mask_per_layer = true;
    model_run_results(&s->problem, cases, &result, 1, NULL, &parallel_serial);
    for (size_t i = 0; i < rows * a->d_model; i++) {
        const double y = (double)s->output[i], difference = (double)output[i] - y;
        changed += scored[i / a->d_model] ? difference * difference : 0;
        whole += scored[i / a->d_model] ? y * y : 0;
    }
    free(mask), free(output);
    return whole > 0 ? sqrt(changed / whole) : (double)NAN;
}

START_TEST(as_whole_forwards)
{
    size_t measured = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct random random = {seed};
        struct scene s;
        struct lanes lanes;
        struct model_importance found;
        struct attention_rules rules;
        struct error error;
        make_scene(&s, &random);
        const size_t heads = s.problem.shape.attention.num_heads, layers = s.problem.shape.num_layers,
                     rows = rows_of(&s);
        if (s.problem.ruled && s.problem.rules.low_rank.kind != LOW_RANK_NONE) { /* has no rows that are scored */
            free_scene(&s);
            continue;
        }
        const struct forward_input last = model_layer_input(&s.problem.shape, layers - 1, &s.one.input, &rules);
        uint8_t *scored = calloc(rows, 1);
        size_t n_scored = 0;
        for (size_t row = 0; row < rows; row++) {
            const size_t n = last.query_length;
            for (size_t j = 0; j < n; j++)
                scored[row] |= pair_allowed(&last, row / n, row % n, j);
            n_scored += scored[row];
        }
        ck_assert_msg(measure(&s, &parallel_serial, &found, &error), "%s", error.message);
        ck_assert(found.n_rows == n_scored && found.n_excluded == rows - n_scored);
        double *first = malloc(layers * heads * sizeof *first);
        memcpy(first, s.importance, layers * heads * sizeof *first);
        for (size_t i = 0; i < layers * heads; i++) {
            const double wanted = define(&s, i / heads, i % heads, scored);
            ck_assert_msg(isnan(wanted) ? isnan(first[i]) : fabs(first[i] - wanted) <= 1e-12 * (1 + wanted),
                          "seed %d, layer %zu, head %zu: %.15g, not %.15g", (int)seed, i / heads, i % heads, first[i],
                          wanted);
            measured += !isnan(wanted);
        }
        lanes_init(&lanes, 3, seed);
        ck_assert(measure(&s, &lanes.parallel, &found, &error));
        ck_assert_mem_eq(first, s.importance, layers * heads * sizeof *first);
        free(first), free(scored);
        free_scene(&s);
    }
    ck_assert_uint_gt(measured, 60);
}
END_TEST

START_TEST(ends_when_cancelled)
{
    struct random random = {3};
    struct scene s;
    struct lanes lanes;
    struct model_importance found;
    struct error error;
    make_scene(&s, &random);
    lanes_init(&lanes, 2, 1);
    lanes.cancel_after = 2;
    ck_assert(!measure(&s, &lanes.parallel, &found, &error));
    ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
    free_scene(&s);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("model_importance");
    TCase *c = tcase_create("model_importance");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, as_whole_forwards);
    tcase_add_test(c, ends_when_cancelled);
    suite_add_tcase(s, c);
    return s;
}
