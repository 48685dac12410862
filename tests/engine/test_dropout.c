/* The mean and deviation of outputs with weights dropped, against the definition in float64 with the scalar generator,
 * with every instruction set; and that all else is as without dropout, whatever it is computed with. */

#include "dropout_definition.h"
#include "engine/kernels/kernels.h"
#include "lanes.h"
#include "pattern_definition.h"
#include "problem.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct problem_limits limits = {.d_model = 40, .heads = 3, .d_k = 20, .d_v = 20, .batch = 3, .length = 40};

enum { MOST = 4 };

static bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

static struct attention_layer *layer_of(const struct attention_shape *shape, const struct attention_matrices *matrices)
{
    struct error error;
    struct attention_layer *layer = attention_layer_create(shape, matrices, &error);
    ck_assert_ptr_nonnull(layer);
    return layer;
}

/* What a problem answers, and the deviations, which a guard number follows. */
struct sampled {
    struct answer answer;
    float *deviations; /* [B, Tq, d_model] */
    uint8_t *used;     /* [B, num_heads] */
};

static struct sampled sampled_create(const struct problem *p)
{
    const size_t count = answer_sizes(p).n[0];
    const size_t n_heads = p->input.batch * p->shape.num_heads;
    struct sampled s = {answer_create(p), malloc((count + 1) * sizeof(float)), malloc(n_heads)};
    ck_assert(s.deviations && s.used);
    memset(s.used, 1, n_heads);
    for (size_t i = 0; i <= count; i++)
        s.deviations[i] = ANSWER_UNWRITTEN;
    return s;
}

static void sampled_free(struct sampled *s)
{
    answer_free(&s->answer);
    free(s->deviations);
    free(s->used);
}

static void run(const struct attention_layer *layer, const struct problem *problems, size_t count,
                const struct parallel *parallel, struct sampled *sampled)
{
    const struct forward_input *inputs[MOST];
    struct forward_result results[MOST], *listed[MOST];
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    for (size_t i = 0; i < count; i++) {
        inputs[i] = &problems[i].input;
        results[i] = answer_result(&problems[i], &sampled[i].answer);
        results[i].output_std = sampled[i].deviations;
        if (inputs[i]->rules->keep_heads.kind != KEEP_ALL_HEADS)
            results[i].heads_used = sampled[i].used;
        listed[i] = &results[i];
    }
    ck_assert(forward_scratch_bytes(attention_layer_shape(layer), inputs, count, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    ck_assert(forward_run(layer, inputs, listed, count, parallel, &arena, &error));
    for (size_t i = 0; i < count; i++)
        sampled[i].answer.fully_masked_rows = results[i].fully_masked_rows;
    arena_free(&arena);
}

static void check_same(const struct problem *p, const struct sampled *a, const struct sampled *b, const char *what)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const struct answer *x = &a->answer, *y = &b->answer;
    const float *const tensors[][2] = {{x->output, y->output}, {x->attention, y->attention},
                                       {x->heads, y->heads},   {x->query, y->query},
                                       {x->key, y->key},       {x->value, y->value}};
    for (size_t t = 0; t < 6; t++)
        ck_assert_msg(memcmp(tensors[t][0], tensors[t][1], sizes.n[t] * sizeof(float)) == 0,
                      "%s, %s: tensor %zu has other bits", engine_isa(), what, t);
    ck_assert_msg(memcmp(a->deviations, b->deviations, sizes.n[0] * sizeof(float)) == 0,
                  "%s, %s: deviations have other bits", engine_isa(), what);
    ck_assert_int_eq(memcmp(a->used, b->used, p->input.batch * p->shape.num_heads), 0);
}

static bool is_padding(const struct forward_input *in, size_t b, size_t i)
{
    return in->self_attention && in->mask_kind == FORWARD_MASK_KEYS && !in->mask[b * in->query_length + i];
}

/* Mean and deviation by two passes over the samples, of the heads that are used. */
static void reference(const struct problem *p, struct sampled *expected)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const size_t samples = in->rules->dropout.samples, d_model = s->d_model;
    struct problem all = *p, memory = {0};
    all.include_heads = NULL;
    all.n_maps = s->num_heads;
    struct answer plain = answer_create(&all);
    reference_forward(&all, &plain);
    double *outputs = problem_take(&memory, samples * d_model * sizeof *outputs),
           *joined = problem_take(&memory, s->num_heads * s->d_v * sizeof *joined);
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < in->query_length; i++) {
            const bool padding = is_padding(in, b, i);
            for (size_t n = 0; n < samples && !padding; n++) {
                drop_row(p, b, i, n + 1, plain.attention + b * s->num_heads * in->query_length * in->key_length,
                         plain.value + b * s->num_heads * in->key_length * s->d_v, expected->used + b * s->num_heads,
                         joined);
                project_heads(p, joined, outputs + n * d_model);
            }
            for (size_t c = 0; c < d_model; c++) {
                const size_t at = (b * in->query_length + i) * d_model + c;
                double mean = 0, variance = 0;
                for (size_t n = 0; n < samples && !padding; n++)
                    mean += outputs[n * d_model + c] / (double)samples;
                for (size_t n = 0; n < samples && !padding; n++)
                    variance += pow(outputs[n * d_model + c] - mean, 2) / (double)samples;
                expected->answer.output[at] = (float)mean;
                expected->deviations[at] = (float)sqrt(variance);
            }
        }
    answer_free(&plain);
    problem_free(&memory);
}

static struct attention_rules dropout(double rate, uint64_t seed, size_t samples, size_t layer, size_t num_layers)
{
    return (struct attention_rules){
        .layer = layer, .num_layers = num_layers, .dropout = {.samples = samples, .rate = rate, .seed = seed}};
}

static struct attention_rules random_dropout(struct random *random, size_t most_samples)
{
    static const double rates[] = {0, 0.1, 0.25, 0.5, 0.9};
    const size_t num_layers = random_size(random, 1, 3);
    return dropout(rates[random_size(random, 0, 4)], random_size(random, 0, ((size_t)1 << 53) - 1),
                   random_size(random, 1, most_samples), random_size(random, 0, num_layers - 1), num_layers);
}

/* Within the bound; all but the output as without dropout; the same bits on several lanes. Returns how many heads of
 * sequences are not used. */
static size_t check_problem(struct problem *p, const struct attention_rules *rules, unsigned lanes)
{
    struct attention_layer *layer = layer_of(&p->shape, &p->matrices);
    struct sampled got = sampled_create(p), expected = sampled_create(p), plain = sampled_create(p);
    const struct answer_sizes sizes = answer_sizes(p);
    struct attention_rules without = *rules;
    without.dropout.samples = 0;
    p->input.rules = &without;
    run(layer, p, 1, &parallel_serial, &plain);
    p->input.rules = rules;
    run(layer, p, 1, &parallel_serial, &got);
    memcpy(expected.used, plain.used, p->input.batch * p->shape.num_heads); /* known without dropout */
    reference(p, &expected);
    const double mean = worst_error(got.answer.output, expected.answer.output, sizes.n[0], 1e-5),
                 deviation = worst_error(got.deviations, expected.deviations, sizes.n[0], 1e-5);
    ck_assert_msg(mean <= 1, "%s: the mean is %g of the tolerance off", engine_isa(), mean);
    ck_assert_msg(deviation <= 1, "%s: the deviation is %g of the tolerance off", engine_isa(), deviation);
    ck_assert(got.deviations[sizes.n[0]] == ANSWER_UNWRITTEN);
    ck_assert(got.answer.output[sizes.n[0]] == ANSWER_UNWRITTEN);
    ck_assert_uint_eq(got.answer.fully_masked_rows, plain.answer.fully_masked_rows);
    if (lanes > 1) {
        struct sampled split = sampled_create(p);
        struct lanes threads;
        lanes_init(&threads, lanes, rules->dropout.seed);
        run(layer, p, 1, &threads.parallel, &split);
        check_same(p, &got, &split, "lanes");
        sampled_free(&split);
    }
    if (rules->dropout.rate == 0 || rules->dropout.samples == 1)
        for (size_t i = 0; i < sizes.n[0]; i++)
            ck_assert(got.deviations[i] == 0);
    if (rules->dropout.rate > 0) /* else the output, too, is as without */
        memcpy(plain.answer.output, got.answer.output, sizes.n[0] * sizeof(float));
    memcpy(plain.deviations, got.deviations, sizes.n[0] * sizeof(float));
    check_same(p, &plain, &got, "without dropout");
    size_t n_dropped = 0;
    for (size_t i = 0; i < p->input.batch * p->shape.num_heads; i++)
        n_dropped += !got.used[i];
    sampled_free(&got);
    sampled_free(&expected);
    sampled_free(&plain);
    attention_layer_free(layer);
    return n_dropped;
}

START_TEST(random_problems_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    struct random random = {31};
    for (size_t i = 0; i < 60; i++) {
        const struct attention_shape shape = random_shape(&random, &limits);
        struct problem p = problem_create(&random, &shape, NULL, &limits);
        const struct attention_rules rules = random_dropout(&random, 5);
        check_problem(&p, &rules, i % 5 == 0 ? 3 : 1);
        problem_free(&p);
    }
}
END_TEST

/* Keys are numbered by their positions, whatever of them a pattern leaves. */
START_TEST(patterns_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits longer = {
        .d_model = 20, .heads = 2, .d_k = 9, .d_v = 9, .batch = 2, .length = 250};
    struct random random = {35};
    for (size_t i = 0; i < 4 * PATTERN_KIND_COUNT; i++) {
        const struct attention_shape shape = random_shape(&random, &longer);
        struct problem p = problem_create(&random, &shape, NULL, &longer);
        const struct forward_input *in = &p.input;
        const ptrdiff_t shift = in->causal ? (ptrdiff_t)in->key_length - (ptrdiff_t)in->query_length : 0;
        const enum pattern_kind kind = (enum pattern_kind)(i % PATTERN_KIND_COUNT);
        struct attention_rules rules = random_dropout(&random, 3);
        rules.pattern = random_pattern(&random, kind, random_chance(&random, 0.5) ? in->key_length : 40);
        if (kind == PATTERN_TOP_K)
            rules.pattern.k = random_size(&random, 1, in->key_length);
        bool *table = problem_take(&p, in->query_length * in->key_length * sizeof *table);
        for (size_t row = 0; row < in->query_length; row++)
            pattern_definition(&rules.pattern, rules.layer, (ptrdiff_t)row + shift, in->key_length,
                               table + row * in->key_length);
        p.pattern = (const uint8_t *)table;
        p.top_k = kind == PATTERN_TOP_K ? rules.pattern.k : 0;
        check_problem(&p, &rules, i % 4 == 0 ? 3 : 1);
        problem_free(&p);
    }
}
END_TEST

/* Samples are of the heads that are kept in the pass without dropout. */
START_TEST(dropped_heads_are_left_out)
{
    if (!choose_variant(_i))
        return;
    static const double importance[] = {0.2, 0.9, 0.1, 0.5, 0.4, 0.8, 0.3, 0.7, 0.6};
    static const struct keep_heads_rule kinds[] = {
        {.kind = KEEP_COUNT, .count = 1, .by = KEEP_BY_NORM},
        {.kind = KEEP_COUNT, .count = 1, .by = KEEP_BY_CONFIDENCE},
        {.kind = KEEP_COUNT, .count = 2, .by = KEEP_BY_IMPORTANCE, .importance = importance},
        {.kind = KEEP_MASS, .mass = 0.5, .by = KEEP_BY_NORM},
        {.kind = KEEP_ENTROPY_BELOW, .entropy_below = 0.8},
    };
    struct random random = {36};
    size_t n_dropped = 0;
    for (size_t i = 0; i < 30; i++) {
        struct attention_shape shape = random_shape(&random, &limits);
        while (shape.num_heads < 2)
            shape = random_shape(&random, &limits);
        struct problem p = problem_create(&random, &shape, NULL, &limits);
        struct attention_rules rules = random_dropout(&random, 3);
        rules.keep_heads = kinds[i % (sizeof kinds / sizeof *kinds)];
        n_dropped += check_problem(&p, &rules, i % 5 == 0 ? 3 : 1);
        problem_free(&p);
    }
    ck_assert_uint_gt(n_dropped, 10);
}
END_TEST

/* Chunks of samples, of which the last is shorter; several units and tiles of a head. */
START_TEST(many_rows_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits large = {
        .d_model = 24, .heads = 2, .d_k = 9, .d_v = 9, .batch = 2, .length = 600};
    struct random random = {32};
    for (size_t i = 0; i < 3; i++) {
        const struct attention_shape shape = random_shape(&random, &large);
        struct problem p = problem_create(&random, &shape, NULL, &large);
        const struct attention_rules rules = dropout(0.3, 77 + i, 5, 0, 1);
        check_problem(&p, &rules, 4);
        problem_free(&p);
    }
}
END_TEST

START_TEST(a_thousand_samples_are_within_the_bound)
{
    if (!choose_variant(_i))
        return;
    static const struct problem_limits small = {.d_model = 8, .heads = 2, .d_k = 4, .d_v = 4, .batch = 2, .length = 6};
    struct random random = {33};
    const struct attention_shape shape = random_shape(&random, &small);
    struct problem p = problem_create(&random, &shape, NULL, &small);
    const struct attention_rules rules = dropout(0.1, 5, 1024, 0, 1);
    check_problem(&p, &rules, 1);
    problem_free(&p);
}
END_TEST

START_TEST(company_changes_no_bit)
{
    if (!choose_variant(_i))
        return;
    struct random random = {34};
    for (size_t i = 0; i < 12; i++) {
        enum { COUNT = 3 };
        struct problem owner = {0}, problems[COUNT];
        const struct attention_shape shape = random_shape(&random, &limits);
        const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
        const struct attention_rules rules = random_dropout(&random, 4);
        struct sampled together[COUNT], alone[COUNT];
        struct attention_layer *layer = layer_of(&shape, &matrices);
        for (size_t n = 0; n < COUNT; n++) {
            problems[n] = problem_create(&random, &shape, &matrices, &limits);
            problems[n].input.rules = &rules;
            together[n] = sampled_create(&problems[n]);
            alone[n] = sampled_create(&problems[n]);
            run(layer, &problems[n], 1, &parallel_serial, &alone[n]);
        }
        struct lanes lanes;
        lanes_init(&lanes, 3, i);
        run(layer, problems, COUNT, &lanes.parallel, together);
        for (size_t n = 0; n < COUNT; n++) {
            check_same(&problems[n], &alone[n], &together[n], "company");
            sampled_free(&alone[n]);
            sampled_free(&together[n]);
            problem_free(&problems[n]);
        }
        attention_layer_free(layer);
        problem_free(&owner);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/dropout");
    TCase *t = tcase_create("dropout");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, random_problems_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, patterns_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, dropped_heads_are_left_out, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, many_rows_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_thousand_samples_are_within_the_bound, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, company_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
