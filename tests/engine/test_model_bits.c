/* The promise of forward.h for whole models: the same bits in any company, on any number of lanes, whatever is returned
 * and whoever looks on; and what happens when a run is cancelled or has too little memory. */

#include "engine/kernels/kernels.h"
#include "engine/observer.h"
#include "engine/position.h"
#include "lanes.h"
#include "model_runner.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 3, TRAFFICS = 25 };

static const struct model_limits limits = {
    .layers = 3, .d_model = 60, .heads = 3, .d_k = 20, .d_ff = 90, .batch = 3, .length = 60};

/* Several inputs of one model, and the answer of each alone on one lane. */
struct traffic {
    struct model_problem m;
    struct model_case cases[CASES];
    struct model_answer alone[CASES];
};

static void traffic_open(struct traffic *t, uint64_t seed)
{
    struct random random = {seed};
    struct model_limits its = limits;
    its.dropout = seed % 3 == 0;
    model_problem_open(&t->m, &random, &its);
    for (size_t i = 0; i < CASES; i++) {
        model_case_open(&t->cases[i], &random, &t->m, &its);
        t->alone[i] = model_answer_create(&t->m, &t->cases[i]);
        model_run_cases(&t->m, &t->cases[i], 1, NULL, &parallel_serial, &t->alone[i]);
    }
}

static void traffic_close(struct traffic *t)
{
    for (size_t i = 0; i < CASES; i++) {
        model_answer_free(&t->alone[i]);
        model_case_close(&t->cases[i]);
    }
    model_problem_close(&t->m);
}

/* What `wanted` says of the tensors has the bits it has alone, the others are as they were. */
static void check_same(const struct traffic *t, size_t i, const struct model_answer *got, unsigned wanted)
{
    const struct model_answer *alone = &t->alone[i];
    const struct model_shape *shape = &t->m.shape;
    for (size_t tensor = 0; tensor < ANSWER_TENSORS; tensor++) {
        const size_t size = model_answer_size(&t->m, &t->cases[i], tensor);
        if (wanted >> tensor & 1)
            ck_assert_msg(memcmp(got->tensors[tensor], alone->tensors[tensor], (size + 1) * sizeof(float)) == 0,
                          "%s: tensor %zu has other bits", engine_isa(), tensor);
    }
    ck_assert_uint_eq(got->fully_masked_rows, alone->fully_masked_rows);
    if (t->m.ruled && t->m.rules.keep_heads.kind != KEEP_ALL_HEADS)
        ck_assert_int_eq(memcmp(got->heads_used, alone->heads_used,
                                t->cases[i].input.batch * shape->num_layers * shape->attention.num_heads),
                         0);
}

/* Runs `count` of the cases together, each with some of its results. */
static void run_together(const struct traffic *t, const size_t *order, size_t count, const unsigned *wanted,
                         const struct forward_observer *observer, const struct parallel *parallel)
{
    const struct model_case *cases[CASES] = {NULL};
    struct forward_result results[CASES];
    struct model_answer answers[CASES];
    for (size_t i = 0; i < count; i++) {
        cases[i] = &t->cases[order[i]];
        answers[i] = model_answer_create(&t->m, cases[i]);
        struct forward_result *r = &results[i];
        *r = model_answer_result(&t->m, cases[i], &answers[i]);
        float **const tensors[ANSWER_TENSORS] = {&r->output, &r->attention, &r->heads,         &r->query,
                                                 &r->key,    &r->value,     &r->hidden_states, &r->output_std};
        for (size_t tensor = 0; tensor < ANSWER_TENSORS; tensor++)
            if (!(wanted[i] >> tensor & 1))
                *tensors[tensor] = NULL;
    }
    model_run_results(&t->m, cases, results, count, observer, parallel);
    for (size_t i = 0; i < count; i++) {
        answers[i].fully_masked_rows = results[i].fully_masked_rows;
        check_same(t, order[i], &answers[i], wanted[i]);
        model_answer_free(&answers[i]);
    }
}

enum { EVERYTHING = (1 << ANSWER_TENSORS) - 1, OUTPUTS = 1 << ANSWER_OUTPUT | 1 << ANSWER_DEVIATION };

START_TEST(company_and_lanes_change_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 100 + seed);
        struct random random = {seed};
        for (unsigned n_lanes = 1; n_lanes <= 4; n_lanes++) {
            const unsigned wanted[CASES] = {EVERYTHING, EVERYTHING, EVERYTHING};
            size_t order[CASES];
            struct lanes lanes;
            random_order(&random, order, CASES);
            lanes_init(&lanes, n_lanes, seed * 4 + n_lanes);
            run_together(&t, order, random_size(&random, 1, CASES), wanted, NULL, &lanes.parallel);
        }
        traffic_close(&t);
    }
}
END_TEST

START_TEST(what_is_returned_changes_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 200 + seed);
        struct random random = {seed};
        for (size_t round = 0; round < 4; round++) {
            unsigned wanted[CASES];
            size_t order[CASES];
            random_order(&random, order, CASES);
            for (size_t i = 0; i < CASES; i++) {
                wanted[i] = round == 0 ? OUTPUTS : (unsigned)random_bits(&random) & EVERYTHING;
                /* What dropout answers goes together. */
                wanted[i] = wanted[i] & OUTPUTS ? wanted[i] | OUTPUTS : wanted[i];
            }
            run_together(&t, order, random_size(&random, 1, CASES), wanted, NULL, &parallel_serial);
        }
        traffic_close(&t);
    }
}
END_TEST

/* From a layer on, over what reached it, whose rows have had their positions added: the output and the later states
 * have the bits of the whole run. */
static void check_from_layer(const struct traffic *t, size_t i, size_t first)
{
    const struct model_case *whole = &t->cases[i];
    const size_t states = t->m.shape.num_layers + 1, batch = whole->input.batch,
                 per_state = whole->input.query_length * t->m.shape.attention.d_model;
    const float *reached = t->alone[i].tensors[ANSWER_STATES];
    float *rows = malloc(batch * per_state * sizeof *rows); /* [B, T, d_model] */
    ck_assert_ptr_nonnull(rows);
    for (size_t b = 0; b < batch; b++)
        memcpy(rows + b * per_state, reached + (b * states + first) * per_state, per_state * sizeof *rows);
    struct model_case part = *whole;
    struct attention_rules rules = t->m.rules;
    if (position_is_added(&rules))
        rules.position.kind = POSITION_NONE;
    if (t->m.ruled)
        part.input.rules = &rules;
    part.input.embedding = NULL;
    part.input.query = part.input.key = part.input.value = rows;
    part.input.first_layer = first;
    const struct model_case *cases[] = {&part};
    struct model_answer answer = model_answer_create(&t->m, &part);
    struct forward_result result = {
        .output = answer.tensors[ANSWER_OUTPUT], .hidden_states = answer.tensors[ANSWER_STATES], .n_states = states};
    model_run_results(&t->m, cases, &result, 1, NULL, &parallel_serial);
    ck_assert_msg(memcmp(result.output, t->alone[i].tensors[ANSWER_OUTPUT], batch * per_state * sizeof(float)) == 0,
                  "%s: the output has other bits from layer %zu on", engine_isa(), first);
    for (size_t b = 0; b < batch; b++)
        ck_assert_msg(memcmp(result.hidden_states + (b * states + first) * per_state,
                             reached + (b * states + first) * per_state,
                             (states - first) * per_state * sizeof(float)) == 0,
                      "%s: states have other bits from layer %zu on", engine_isa(), first);
    model_answer_free(&answer);
    free(rows);
}

START_TEST(a_run_from_a_layer_on_changes_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 700 + seed);
        for (size_t i = 0; i < CASES && t.m.rules.dropout.samples == 0; i++) /* whose output is a mean */
            for (size_t first = 0; first < t.m.shape.num_layers; first++)
                check_from_layer(&t, i, first);
        traffic_close(&t);
    }
}
END_TEST

/* Numbers that are exact in bfloat16 are the same in either precision, and take half the memory. */
START_TEST(precision_changes_no_bit_of_exact_numbers)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct random random = {600 + seed};
        struct model_limits its = limits;
        struct model_problem m;
        struct model_case c;
        its.bf16 = true;
        model_problem_open(&m, &random, &its);
        model_case_open(&c, &random, &m, &its);
        struct model_answer answers[PRECISION_COUNT];
        struct model *own = m.model;
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            m.model = model_problem_copy(&m, (enum precision)precision);
            answers[precision] = model_answer_create(&m, &c);
            model_run_cases(&m, &c, 1, NULL, &parallel_serial, &answers[precision]);
            model_free(m.model);
        }
        m.model = own;
        for (size_t t = 0; t < ANSWER_TENSORS; t++)
            ck_assert_msg(memcmp(answers[PRECISION_F32].tensors[t], answers[PRECISION_BF16].tensors[t],
                                 model_answer_size(&m, &c, t) * sizeof(float)) == 0,
                          "%s, seed %zu: tensor %zu has other bits in bfloat16", engine_isa(), (size_t)seed, t);
        for (int precision = 0; precision < PRECISION_COUNT; precision++)
            model_answer_free(&answers[precision]);
        model_case_close(&c);
        model_problem_close(&m);
    }
}
END_TEST

/* ---- observers */

struct watch {
    const struct traffic *traffic;
    uint8_t *seen[CASES]; /* [B, L, H, Tq]: rows that were shown, by position; NULL: not observed */
    atomic_size_t wrong;
};

static size_t position_of(const struct forward_input *in, size_t sequence, size_t row)
{
    if (in->mask_kind != FORWARD_MASK_KEYS)
        return row;
    const uint8_t *mask = in->mask + sequence * in->key_length;
    size_t t = 0;
    for (; t < in->key_length && (!mask[t] || row > 0); t++)
        row -= mask[t];
    return t;
}

/* The map of the layer and head that is shown, where the answer has it: [Tq, Tk]. */
static const float *map_of(const struct traffic *t, size_t i, const struct observed_rows *rows)
{
    const struct model_case *c = &t->cases[i];
    const size_t layers = c->include_layers ? c->n_layers : t->m.shape.num_layers;
    size_t place = 0, map = 0;
    while (place < layers && (c->include_layers ? c->include_layers[place] : place) != rows->layer)
        place++;
    while (map < c->n_maps && (c->include_heads ? c->include_heads[map] : map) != rows->head)
        map++;
    if (place == layers || map == c->n_maps)
        return NULL;
    return t->alone[i].tensors[ANSWER_ATTENTION] +
           ((rows->sequence * layers + place) * c->n_maps + map) * c->input.query_length * c->input.key_length;
}

static void look(void *context, const struct observed_rows *rows, unsigned lane)
{
    (void)lane;
    struct watch *watch = context;
    const struct traffic *t = watch->traffic;
    size_t i = 0, wrong = 0;
    while (i < CASES && &t->cases[i].input != rows->input)
        i++;
    if (i == CASES || !watch->seen[i] || rows->layer >= t->m.shape.num_layers) {
        atomic_fetch_add(&watch->wrong, 1);
        return;
    }
    const struct forward_input *in = rows->input;
    const float *map = map_of(t, i, rows);
    for (size_t row = 0; row < rows->n_rows; row++) {
        const size_t query = position_of(in, rows->sequence, rows->first_row + row);
        wrong +=
            watch->seen[i][((rows->sequence * t->m.shape.num_layers + rows->layer) * rows->num_heads + rows->head) *
                               in->query_length +
                           query]++ != 0;
        for (size_t j = 0; map && j < rows->n_computed; j++) {
            const float weight = rows->weights[row * rows->stride + j] * rows->inverse[row];
            wrong +=
                memcmp(&weight, &map[query * in->key_length + position_of(in, rows->sequence, j)], sizeof weight) != 0;
        }
        for (size_t j = 0; j < rows->n_computed; j++)
            rows->weights[row * rows->stride + j] = 1e9f; /* nobody may read it */
    }
    atomic_fetch_add(&watch->wrong, wrong);
}

static void check_seen(const struct traffic *t, size_t i, const uint8_t *seen)
{
    const struct forward_input *in = &t->cases[i].input;
    const size_t planes = t->m.shape.num_layers * t->m.shape.attention.num_heads;
    for (size_t row = 0; row < in->batch * planes * in->query_length; row++) {
        const size_t at = row / in->query_length / planes * in->query_length + row % in->query_length;
        ck_assert_uint_eq(seen[row], in->mask_kind != FORWARD_MASK_KEYS || in->mask[at]);
    }
}

/* Every row of every head of every layer is shown once, with the weights that the maps have. */
START_TEST(observers_change_no_bit)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < TRAFFICS; seed++) {
        struct traffic t;
        traffic_open(&t, 300 + seed);
        struct random random = {seed};
        struct watch watch = {.traffic = &t};
        const struct forward_observer observer = {.rows = look, .context = &watch};
        unsigned wanted[CASES];
        size_t order[CASES];
        struct lanes lanes;
        lanes_init(&lanes, 3, seed);
        for (size_t i = 0; i < CASES; i++) {
            struct forward_input *in = &t.cases[i].input;
            order[i] = i;
            wanted[i] = random_chance(&random, 0.5) ? EVERYTHING : OUTPUTS;
            in->observed = !in->bias && random_chance(&random, 0.8);
            if (in->observed)
                watch.seen[i] =
                    calloc(in->batch * t.m.shape.num_layers * t.m.shape.attention.num_heads, in->query_length);
        }
        run_together(&t, order, CASES, wanted, &observer, seed % 2 ? &parallel_serial : &lanes.parallel);
        ck_assert_uint_eq(watch.wrong, 0);
        for (size_t i = 0; i < CASES; i++) {
            if (watch.seen[i])
                check_seen(&t, i, watch.seen[i]);
            free(watch.seen[i]);
        }
        traffic_close(&t);
    }
}
END_TEST

/* ---- what fails */

/* One run of the first case in so much memory, which is not written behind. */
static bool run_in(const struct traffic *t, size_t bytes, const struct parallel *parallel, struct error *error)
{
    const struct model_case *c = &t->cases[0];
    const struct forward_input *inputs[] = {&c->input};
    struct model_answer answer = model_answer_create(&t->m, c);
    struct forward_result result = model_answer_result(&t->m, c, &answer), *results[] = {&result};
    struct guarded memory;
    guarded_open(&memory, bytes);
    const bool done = model_run(t->m.model, inputs, results, 1, NULL, parallel, &memory.arena, error);
    guarded_close(&memory);
    if (done) {
        answer.fully_masked_rows = result.fully_masked_rows;
        check_same(t, 0, &answer, EVERYTHING);
    }
    model_answer_free(&answer);
    return done;
}

START_TEST(a_run_that_is_cancelled_says_so)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct traffic t;
        traffic_open(&t, 400 + seed);
        const struct forward_input *inputs[] = {&t.cases[0].input};
        struct error error = {0};
        struct lanes lanes;
        size_t bytes, asked;
        ck_assert(model_scratch_bytes(&t.m.shape, inputs, 1, 2, &bytes));
        lanes_init(&lanes, 2, seed);
        ck_assert(run_in(&t, bytes, &lanes.parallel, &error));
        asked = lanes.n_asked;
        ck_assert_uint_ge(asked, t.m.shape.num_layers * 3);
        for (size_t after = 0; after < asked; after += 1 + asked / 25) {
            lanes_init(&lanes, 2, seed);
            lanes.cancel_after = after;
            ck_assert(!run_in(&t, bytes, &lanes.parallel, &error));
            ck_assert_int_eq(error.code, ERROR_CLIENT_GONE);
        }
        traffic_close(&t);
    }
}
END_TEST

START_TEST(an_arena_that_is_too_small_is_an_error)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct traffic t;
        traffic_open(&t, 500 + seed);
        struct random random = {seed};
        const struct forward_input *inputs[] = {&t.cases[0].input};
        struct error error = {0};
        size_t bytes, failed = 0;
        ck_assert(model_scratch_bytes(&t.m.shape, inputs, 1, 1, &bytes));
        ck_assert(!run_in(&t, 0, &parallel_serial, &error));
        ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        for (size_t i = 0; i < 15; i++) {
            const size_t some = i < 5 ? bytes - (i + 1) * ARENA_ALIGNMENT : random_size(&random, 0, bytes) / 64 * 64;
            if (run_in(&t, some, &parallel_serial, &error)) /* what was not needed after all */
                continue;
            ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
            failed++;
        }
        ck_assert_uint_gt(failed, 5);
        traffic_close(&t);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/model_bits");
    TCase *t = tcase_create("model_bits");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, company_and_lanes_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, what_is_returned_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, a_run_from_a_layer_on_changes_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, precision_changes_no_bit_of_exact_numbers, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, observers_change_no_bit, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(t, a_run_that_is_cancelled_says_so);
    tcase_add_test(t, an_arena_that_is_too_small_is_an_error);
    suite_add_tcase(s, t);
    return s;
}
