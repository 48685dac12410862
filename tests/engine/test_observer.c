/* What an observer is shown: every row of every head once, the weights that the maps have, and which keys are allowed;
 * and the results, which have the bits they have unobserved, whatever the observer writes into what it was shown. */

#include "engine/observer.h"

#include "lanes.h"
#include "problem.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 3, TRAFFICS = 8 };

static const struct problem_limits limits = {
    .d_model = 96, .heads = 4, .d_k = 40, .d_v = 40, .batch = 3, .length = 200};

struct watched {
    const struct problem *problem;
    struct answer alone;
    uint8_t *seen; /* [B, H, Tq]: rows that were shown, numbered without padding */
};

struct watch {
    struct watched problems[PROBLEMS];
    size_t next_head[LANES_MOST]; /* that the lane is shown next */
    atomic_size_t wrong;
};

/* The position of row `row` of a sequence in its input. */
static size_t position_of(const struct forward_input *in, size_t sequence, size_t row)
{
    if (!in->self_attention || in->mask_kind != FORWARD_MASK_KEYS)
        return row;
    const uint8_t *mask = in->mask + sequence * in->key_length;
    for (size_t i = 0; i < in->key_length; i++)
        if (mask[i] && row-- == 0)
            return i;
    return SIZE_MAX;
}

/* By the definition of the request, not of the engine. */
static bool is_allowed(const struct forward_input *in, size_t sequence, size_t query, size_t key)
{
    if (in->causal && key + in->query_length > query + in->key_length)
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS && !in->mask[sequence * in->key_length + key])
        return false;
    return in->mask_kind != FORWARD_MASK_PAIRS ||
           in->mask[(sequence * in->query_length + query) * in->key_length + key];
}

static size_t wrong_in_row(const struct watched *w, const struct observed_rows *rows, size_t i)
{
    const struct forward_input *in = rows->input;
    const size_t row = rows->first_row + i, query = position_of(in, rows->sequence, row);
    const float *map = w->alone.attention +
                       ((rows->sequence * rows->num_heads + rows->head) * in->query_length + query) * in->key_length;
    const float *weights = rows->weights + i * rows->stride;
    const ptrdiff_t limit = rows->key_limit + (ptrdiff_t)(i * rows->key_step);
    size_t wrong = 0;
    double logs = 0;
    for (size_t j = 0; j < rows->n_computed; j++)
        logs += weights[j] > 0 ? (double)weights[j] * log((double)weights[j]) : 0;
    wrong += !(fabs((double)rows->logs[i] - logs) <= 2e-7 - 1e-6 * logs);
    for (size_t j = 0; j < rows->n_keys; j++) {
        const size_t key = position_of(in, rows->sequence, j);
        const float weight = j < rows->n_computed ? weights[j] * rows->inverse[i] : 0;
        const bool allowed = (ptrdiff_t)j < limit && (!rows->allowed || rows->allowed[i * rows->n_keys + j]);
        wrong += memcmp(&weight, &map[key], sizeof weight) != 0;
        wrong += allowed != is_allowed(in, rows->sequence, query, key);
        wrong += allowed && j >= rows->n_computed;
    }
    return wrong;
}

static void look(void *context, const struct observed_rows *rows, unsigned lane)
{
    struct watch *watch = context;
    struct watched *w = watch->problems;
    while (&w->problem->input != rows->input)
        w++;
    size_t wrong = (rows->head != watch->next_head[lane]) + (rows->first_row % 12 != 0);
    watch->next_head[lane] = (rows->head + 1) % rows->num_heads;
    for (size_t i = 0; i < rows->n_rows; i++) {
        const size_t at =
            (rows->sequence * rows->num_heads + rows->head) * rows->input->query_length + rows->first_row + i;
        wrong += w->seen[at]++ != 0;
        wrong += wrong_in_row(w, rows, i);
    }
    /* What other heads have left is still there, and this is what this one leaves. */
    for (size_t head = 0; head < rows->head; head++)
        wrong += rows->weights[0 - (rows->head - head) * rows->head_stride] != (float)head - 1e9f;
    for (size_t i = 0; i < rows->n_rows; i++)
        for (size_t j = 0; j < rows->n_computed; j++)
            rows->weights[i * rows->stride + j] = (float)rows->head - 1e9f;
    atomic_fetch_add(&watch->wrong, wrong);
}

static size_t kept_rows(const struct forward_input *in, size_t sequence)
{
    size_t rows = 0;
    while (rows < in->query_length && position_of(in, sequence, rows) < in->query_length)
        rows++;
    return rows;
}

static void check_all_seen(const struct watched *w)
{
    const struct forward_input *in = &w->problem->input;
    for (size_t b = 0; b < in->batch; b++)
        for (size_t h = 0; h < w->problem->shape.num_heads; h++)
            for (size_t row = 0; row < kept_rows(in, b); row++)
                ck_assert_uint_eq(w->seen[(b * w->problem->shape.num_heads + h) * in->query_length + row], 1);
}

static void run(const struct attention_layer *layer, struct watch *watch, size_t count, const struct parallel *parallel,
                struct answer *answers)
{
    const struct forward_input *inputs[PROBLEMS];
    struct forward_result results[PROBLEMS], *list[PROBLEMS];
    const struct forward_observer observer = {.rows = look, .context = watch};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    for (size_t i = 0; i < count; i++) {
        inputs[i] = &watch->problems[i].problem->input;
        results[i] = answer_result(watch->problems[i].problem, &answers[i]);
        list[i] = &results[i];
    }
    ck_assert(forward_scratch_bytes(attention_layer_shape(layer), inputs, count, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes;
    ck_assert(forward_run_observed(layer, inputs, list, count, &observer, parallel, &arena, &error));
    arena_free(&arena);
}

static bool same_bits(const struct problem *p, const struct answer *a, const struct answer *b)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const all[6] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    const float *const others[6] = {b->output, b->attention, b->heads, b->query, b->key, b->value};
    for (size_t t = 0; t < 6; t++)
        if (memcmp(all[t], others[t], sizes.n[t] * sizeof(float)) != 0)
            return false;
    return true;
}

/* Some of them observed, on every number of threads. */
START_TEST(all_rows_are_shown_and_no_bit_changes)
{
    struct random random = {(uint64_t)_i + 40};
    struct problem owner = {0}, problems[PROBLEMS];
    struct watch watch = {0};
    struct error error;
    const struct attention_shape shape = random_shape(&random, &limits);
    const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
    struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(layer);
    for (size_t i = 0; i < PROBLEMS; i++) {
        problems[i] = problem_create(&random, &shape, &matrices, &limits);
        problems[i].input.bias = NULL;
        problems[i].include_heads = NULL;
        problems[i].n_maps = shape.num_heads;
        struct watched *w = &watch.problems[i];
        *w = (struct watched){.problem = &problems[i], .alone = answer_create(&problems[i])};
        w->seen = calloc(problems[i].input.batch * shape.num_heads * problems[i].input.query_length, 1);
        ck_assert_ptr_nonnull(w->seen);
        run_problem(layer, &problems[i], &parallel_serial, &w->alone);
    }
    for (unsigned lanes = 1; lanes <= LANES_MOST; lanes++) {
        struct answer answers[PROBLEMS];
        struct lanes threads;
        lanes_init(&threads, lanes, (uint64_t)_i * LANES_MOST + lanes);
        for (size_t i = 0; i < PROBLEMS; i++) {
            const struct forward_input *in = &problems[i].input;
            answers[i] = answer_create(&problems[i]);
            problems[i].input.observed = in->self_attention && (i + (size_t)_i) % PROBLEMS != 0;
            memset(watch.problems[i].seen, 0, in->batch * shape.num_heads * in->query_length);
        }
        memset(watch.next_head, 0, sizeof watch.next_head);
        run(layer, &watch, PROBLEMS, &threads.parallel, answers);
        ck_assert_uint_eq(atomic_load(&watch.wrong), 0);
        for (size_t i = 0; i < PROBLEMS; i++) {
            ck_assert(same_bits(&problems[i], &watch.problems[i].alone, &answers[i]));
            if (problems[i].input.observed)
                check_all_seen(&watch.problems[i]);
            answer_free(&answers[i]);
        }
    }
    for (size_t i = 0; i < PROBLEMS; i++) {
        free(watch.problems[i].seen);
        answer_free(&watch.problems[i].alone);
        problem_free(&problems[i]);
    }
    attention_layer_free(layer);
    problem_free(&owner);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/observer");
    TCase *t = tcase_create("observer");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, all_rows_are_shown_and_no_bit_changes, 0, TRAFFICS);
    suite_add_tcase(s, t);
    return s;
}
