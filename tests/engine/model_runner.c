#include "model_runner.h"

#include "engine/kernels/kernels.h"
#include "require.h"

#include <string.h>

enum { GUARD_BYTES = 4096, GUARD_BYTE = 0xA5 };

bool choose_variant(int i)
{
    struct error error;
    return isa_supported((enum isa)i) && engine_init(kernel_variants[i]->name, &error);
}

void guarded_open(struct guarded *g, size_t bytes)
{
    *g = (struct guarded){0};
    require(arena_reserve(&g->arena, bytes + GUARD_BYTES), "no memory for %zu bytes", bytes);
    g->whole = g->arena.capacity;
    g->arena.capacity = bytes;
    memset(g->arena.base, 0xFF, bytes);
    memset(g->arena.base + bytes, GUARD_BYTE, GUARD_BYTES);
}

void guarded_close(struct guarded *g)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        require((unsigned char)g->arena.base[g->arena.capacity + i] == GUARD_BYTE,
                "byte %zu behind the arena is written", i);
    g->arena.capacity = g->whole;
    arena_free(&g->arena);
}

void model_run_results(const struct model_problem *m, const struct model_case *const *cases,
                       struct forward_result *results, size_t count, const struct forward_observer *observer,
                       const struct parallel *parallel)
{
    const struct forward_input *inputs[CASES_MOST];
    struct forward_result *listed[CASES_MOST];
    struct guarded memory;
    struct error error = {0};
    size_t bytes;
    for (size_t i = 0; i < count; i++) {
        inputs[i] = &cases[i]->input;
        listed[i] = &results[i];
    }
    require(model_scratch_bytes(&m->shape, inputs, count, parallel->lanes, &bytes), "the size overflows");
    guarded_open(&memory, bytes);
    require(model_run(m->model, inputs, listed, count, observer, parallel, &memory.arena, &error), "%s", error.message);
    guarded_close(&memory);
}

void model_run_cases(const struct model_problem *m, const struct model_case *cases, size_t count,
                     const struct forward_observer *observer, const struct parallel *parallel,
                     struct model_answer *answers)
{
    const struct model_case *listed[CASES_MOST] = {NULL};
    struct forward_result results[CASES_MOST];
    for (size_t i = 0; i < count; i++) {
        listed[i] = &cases[i];
        results[i] = model_answer_result(m, &cases[i], &answers[i]);
    }
    model_run_results(m, listed, results, count, observer, parallel);
    for (size_t i = 0; i < count; i++)
        answers[i].fully_masked_rows = results[i].fully_masked_rows;
}

static void put(struct model *model, enum layer_slot slot, const float *tensor)
{
    const struct tensor_slot place = {0, slot};
    const struct slot_extent extent = model_slot_extent(model_shape_of(model), place);
    if (extent.rows)
        model_put_rows(model, place, 0, extent.rows, tensor, extent.columns);
}

void check_bare_layer(const struct problem *p)
{
    const struct attention_matrices *w = &p->matrices;
    const struct layer_shape bare = {
        .bias_q = w->b_q, .bias_k = w->b_k, .bias_v = w->b_v, .bias_o = w->b_o, .scale = p->shape.scale};
    const struct model_shape shape = {.attention = p->shape, .num_layers = 1, .layers = &bare};
    struct error error = {0};
    struct model_problem m = {.shape = shape, .model = model_create(&shape, &error)};
    struct attention_layer *layer = attention_layer_create(&p->shape, w, &error);
    require(m.model && layer, "%s", error.message);
    put(m.model, SLOT_W_Q, w->w_q);
    put(m.model, SLOT_W_K, w->w_k);
    put(m.model, SLOT_W_V, w->w_v);
    put(m.model, SLOT_W_O, w->w_o);
    put(m.model, SLOT_B_Q, w->b_q);
    put(m.model, SLOT_B_K, w->b_k);
    put(m.model, SLOT_B_V, w->b_v);
    put(m.model, SLOT_B_O, w->b_o);
    const struct model_case c = {.input = p->input}, *cases[] = {&c};
    struct answer as_model = answer_create(p), alone = answer_create(p);
    struct forward_result result = answer_result(p, &as_model);
    model_run_results(&m, cases, &result, 1, NULL, &parallel_serial);
    run_problem(layer, p, &parallel_serial, &alone);
    const struct answer_sizes sizes = answer_sizes(p);
    const float *const x[] = {as_model.output, as_model.attention, as_model.heads,
                              as_model.query,  as_model.key,       as_model.value};
    const float *const y[] = {alone.output, alone.attention, alone.heads, alone.query, alone.key, alone.value};
    for (size_t t = 0; t < 6; t++)
        require(memcmp(x[t], y[t], sizes.n[t] * sizeof(float)) == 0,
                "tensor %zu has other bits than of the layer alone", t);
    require(result.fully_masked_rows == alone.fully_masked_rows, "%zu rows without a key", result.fully_masked_rows);
    answer_free(&as_model);
    answer_free(&alone);
    attention_layer_free(layer);
    model_free(m.model);
}
