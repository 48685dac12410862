/* Whole forward passes against float64: random problems of all kinds, and deep ones. */

#include "check.h"

#include "../problem.h"
#include "../require.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const tensor_names[6] = {"output", "attention", "heads", "query", "key", "value"};

static void compare(const struct problem *p, const struct answer *found, const struct answer *expected)
{
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const f[6] = {found->output, found->attention, found->heads, found->query, found->key, found->value};
    const float *const e[6] = {expected->output, expected->attention, expected->heads,
                               expected->query,  expected->key,       expected->value};
    for (size_t t = 0; t < 6; t++) {
        const double worst = worst_error(f[t], e[t], sizes.n[t], 1e-5);
        if (!(worst <= 1))
            check_fail("%s is off by %.3g tolerances", tensor_names[t], worst);
        if (f[t][sizes.n[t]] != ANSWER_UNWRITTEN)
            check_fail("%s is written beyond its end", tensor_names[t]);
    }
    if (found->fully_masked_rows != expected->fully_masked_rows)
        check_fail("%zu rows without a key, not %zu", found->fully_masked_rows, expected->fully_masked_rows);
    for (size_t i = 0; i < sizes.n[1]; i++)
        if (expected->attention[i] == 0 && found->attention[i] != 0)
            check_fail("a weight that is exactly 0 came out as %g", (double)found->attention[i]);
}

/* The problem is freed; after a failure it is not. */
static void check_problem(struct problem *p)
{
    const struct attention_shape *s = &p->shape;
    check_case("B %zu Tq %zu Tk %zu D %zu H %zu/%zu d_k %zu d_v %zu mask %d causal %d", p->input.batch,
               p->input.query_length, p->input.key_length, s->d_model, s->num_heads, s->num_kv_heads, s->d_k, s->d_v,
               (int)p->input.mask_kind, p->input.causal);
    struct error error;
    struct attention_layer *layer = attention_layer_create(s, &p->matrices, &error);
    require(layer, "%s", error.message);
    struct answer found = answer_create(p), expected = answer_create(p);
    run_problem(layer, p, &parallel_serial, &found);
    reference_forward(p, &expected);
    compare(p, &found, &expected);
    answer_free(&found);
    answer_free(&expected);
    attention_layer_free(layer);
    problem_free(p);
}

static void check_random(struct random *random, const struct problem_limits *limits)
{
    const struct attention_shape shape = random_shape(random, limits);
    struct problem p = problem_create(random, &shape, NULL, limits);
    check_problem(&p);
}

/* More than one block of depth in every product: d_model, d_k, keys and num_heads * d_v above 768. */
static void check_deep(struct random *random)
{
    const struct attention_shape shapes[] = {
        {.d_model = 1601, .num_heads = 1, .num_kv_heads = 1, .d_k = 3, .d_v = 2, .scale = 0.5f, .projected = true},
        {.d_model = 3, .num_heads = 1, .num_kv_heads = 1, .d_k = 801, .d_v = 790, .scale = 0.03f, .projected = true},
    };
    const size_t lengths[] = {5, 900};
    for (size_t i = 0; i < 2; i++) {
        const struct problem_limits limits = {.batch = 1, .length = 1};
        struct problem p = problem_create(random, &shapes[i], NULL, &limits);
        p.input = (struct forward_input){.batch = 1, .query_length = 2, .key_length = lengths[i], .causal = i == 1};
        float *x = problem_take(&p, lengths[i] * shapes[i].d_model * sizeof *x);
        for (size_t j = 0; j < lengths[i] * shapes[i].d_model; j++)
            x[j] = (float)random_normal(random);
        p.input.query = p.input.key = p.input.value = x;
        check_problem(&p);
    }
}

void check_forward(const struct kernels *k, struct random *random)
{
    const struct problem_limits small = {.d_model = 40, .heads = 4, .d_k = 20, .d_v = 20, .batch = 3, .length = 12};
    const struct problem_limits larger = {
        .d_model = 150, .heads = 3, .d_k = 100, .d_v = 100, .batch = 2, .length = 150};
    struct error error;
    require(engine_init(k->name, &error), "%s", error.message);
    for (int i = 0; i < 200; i++)
        check_random(random, &small);
    for (int i = 0; i < 8; i++)
        check_random(random, &larger);
    check_deep(random);
}
