/* Requests with the results that an engine might have written, to be answered. */
#ifndef ATTND_TESTS_CODEC_SCENE_H
#define ATTND_TESTS_CODEC_SCENE_H

#include "codec/forward_request.h"

#include <stdlib.h>
#include <string.h>

/* Distinct extents, so that no two axes can be taken for each other. */
static const struct attention_shape SHAPE = {
    .d_model = 7, .num_heads = 5, .num_kv_heads = 5, .d_k = 3, .d_v = 2, .scale = 1, .projected = true};

static const char *const NAMES[FORWARD_RETURN_COUNT] = {"output", "attention", "heads",        "query",
                                                        "key",    "value",     "hidden_states"};

/* One request with the results that an engine might have written. */
struct scene {
    struct forward_request request;
    struct attention_shape shape;
    struct forward_input problem;
    struct forward_result result;
    float *data[FORWARD_RETURN_COUNT];
    size_t sizes[FORWARD_RETURN_COUNT][4]; /* with the batch axis */
    unsigned ranks[FORWARD_RETURN_COUNT];
};

static inline size_t product(const size_t *shape, unsigned rank)
{
    size_t count = 1;
    for (unsigned i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

static inline void set_scene(struct scene *s, size_t batch, size_t queries, size_t keys, bool rank2)
{
    *s = (struct scene){.request = {.returned = RETURN_OUTPUT | RETURN_ATTENTION, .decimals = -1}, .shape = SHAPE};
    s->problem = (struct forward_input){.batch = batch, .query_length = queries, .key_length = keys, .rank2 = rank2};
}

/* The shapes of the contract, spelled out, and numbers: of maps in [0, 1], else any. */
static inline void fill_scene(struct scene *s)
{
    size_t B = s->problem.batch, Tq = s->problem.query_length, Tk = s->problem.key_length, H = s->shape.num_heads,
           maps = s->request.include_heads ? s->request.n_include_heads : H;
    const size_t sizes[FORWARD_RETURN_COUNT][4] = {{B, Tq, s->shape.d_model},   {B, maps, Tq, Tk},
                                                   {B, maps, Tq, s->shape.d_v}, {B, H, Tq, s->shape.d_k},
                                                   {B, H, Tk, s->shape.d_k},    {B, H, Tk, s->shape.d_v}};
    memcpy(s->sizes, sizes, sizeof sizes);
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
        s->ranks[i] = i == 0 ? 3 : 4;
        if (!(s->request.returned >> i & 1))
            continue;
        size_t count = product(s->sizes[i], s->ranks[i]);
        s->data[i] = malloc(count * sizeof(float));
        for (size_t j = 0; j < count; j++)
            s->data[i][j] =
                i == 1 ? (float)(rand() % 17) / 16 : (float)(rand() - RAND_MAX / 2) / (float)(1 + rand() % 1000);
    }
    s->result = (struct forward_result){.output = s->data[0],
                                        .attention = s->data[1],
                                        .heads = s->data[2],
                                        .query = s->data[3],
                                        .key = s->data[4],
                                        .value = s->data[5],
                                        .include_heads = s->request.include_heads,
                                        .n_maps = maps,
                                        .fully_masked_rows = 3};
}

static inline void free_scene(struct scene *s)
{
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++)
        free(s->data[i]);
}

#endif
