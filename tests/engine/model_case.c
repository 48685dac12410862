#include "model_problem.h"
#include "positions.h"
#include "require.h"

#include <stdlib.h>
#include <string.h>

static bool coin(struct random *random)
{
    return random_chance(random, 0.5);
}

static uint32_t *random_numbers(struct random *random, struct model_case *c, size_t count, size_t end)
{
    uint32_t *numbers = problem_take(&c->owner, count * sizeof *numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)random_size(random, 0, end - 1);
    return numbers;
}

static float *random_rows(struct random *random, struct model_case *c, size_t count)
{
    float *rows = problem_take(&c->owner, count * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (float)random_normal(random);
    return rows;
}

/* Token dropout divides by the share of tokens that are not masked: padding is no mask token where that would be none.
 */
static void unmask_padding(const struct model_case *c, const struct embeddings_shape *e, uint32_t *ids)
{
    const struct forward_input *in = &c->input;
    const size_t length = in->query_length;
    for (size_t b = 0; b < in->batch; b++, ids += length) {
        size_t masked = 0, kept = 0;
        for (size_t t = 0; t < length; t++) {
            masked += ids[t] == e->mask_token;
            kept += in->mask_kind != FORWARD_MASK_KEYS || in->mask[b * length + t];
        }
        for (size_t t = 0; t < length && masked >= kept; t++)
            if (in->mask_kind == FORWARD_MASK_KEYS && !in->mask[b * length + t] && ids[t] == e->mask_token)
                ids[t] = (ids[t] + 1) % (uint32_t)e->vocabulary;
    }
}

static void random_embedding(struct random *random, struct model_case *c, const struct model_problem *m)
{
    const struct embeddings_shape *e = &m->shape.embeddings;
    struct forward_input *in = &c->input;
    const size_t rows = in->batch * in->query_length;
    in->query = NULL; /* as in->key and in->value */
    in->embedding = &c->embedding;
    if (e->patch_size) {
        c->embedding.pixels = random_rows(random, c, in->batch * e->channels * e->image_size * e->image_size);
        return;
    }
    if (random_chance(random, 0.3)) {
        c->embedding.embeds = random_rows(random, c, rows * e->width);
    } else {
        uint32_t *ids = random_numbers(random, c, rows, e->vocabulary);
        if (e->token_dropout)
            unmask_padding(c, e, ids);
        c->embedding.ids = ids;
    }
    if (e->types && coin(random))
        c->embedding.type_ids = random_numbers(random, c, rows, e->types);
}

static void random_choice(struct random *random, struct model_case *c, const struct model_problem *m)
{
    const size_t num_heads = m->shape.attention.num_heads, num_layers = m->shape.num_layers;
    c->n_maps = num_heads;
    if (coin(random)) {
        c->n_maps = random_size(random, 0, num_heads);
        c->include_heads = random_numbers(random, c, c->n_maps, num_heads);
    }
    if (coin(random)) {
        c->n_layers = random_size(random, 0, num_layers);
        size_t *order = problem_take(&c->owner, num_layers * sizeof *order);
        uint32_t *layers = problem_take(&c->owner, num_layers * sizeof *layers);
        random_order(random, order, num_layers);
        for (size_t i = 0; i < num_layers; i++)
            layers[i] = (uint32_t)order[i];
        c->include_layers = layers;
    }
}

void model_case_open(struct model_case *c, struct random *random, const struct model_problem *m,
                     const struct model_limits *limits)
{
    const struct embeddings_shape *e = &m->shape.embeddings;
    const struct attention_shape *a = &m->shape.attention;
    const size_t per_row = e->patch_size ? e->image_size / e->patch_size : 0;
    *c = (struct model_case){0};
    /* Batch, mask, bias and head mask are those of an attention; drawn until it is self-attention. */
    struct problem p = {0};
    const struct attention_matrices none = {0};
    do {
        problem_free(&p);
        const struct problem_limits part = {.batch = limits->batch, .length = limits->length};
        p = problem_create(random, a, &none, &part);
    } while (!p.input.self_attention || (m->embeds && per_row && p.input.query_length != 1 + per_row * per_row));
    c->owner = p;
    c->input = p.input;
    struct forward_input *in = &c->input;
    in->causal_given = coin(random);
    if (coin(random) && in->head_mask) {
        in->head_mask_per_layer = true;
        in->head_mask = random_rows(random, c, m->shape.num_layers * a->num_heads);
    }
    if (m->embeds)
        random_embedding(random, c, m);
    if (random_chance(random, 0.3) && !(m->embeds && per_row)) {
        struct problem ids = {.input = *in};
        random_position_ids(random, &ids, e->count_padding_id ? 40 : 900);
        in->positions_per_sequence = ids.input.positions_per_sequence;
        const size_t count = (in->positions_per_sequence ? in->batch : 1) * in->query_length;
        uint32_t *copy = problem_take(&c->owner, count * sizeof *copy);
        memcpy(copy, ids.input.position_ids, count * sizeof *copy);
        in->position_ids = copy;
        problem_free(&ids);
    }
    random_choice(random, c, m);
    if (m->ruled)
        in->rules = &m->rules;
}

void model_case_close(struct model_case *c)
{
    problem_free(&c->owner);
}

/* ---- answers */

size_t model_answer_size(const struct model_problem *m, const struct model_case *c, size_t tensor)
{
    const struct attention_shape *a = &m->shape.attention;
    const size_t rows = c->input.batch * c->input.query_length,
                 layers = c->include_layers ? c->n_layers : m->shape.num_layers;
    switch (tensor) {
    case ANSWER_OUTPUT:
        return rows * a->d_model;
    case ANSWER_ATTENTION:
        return layers * c->n_maps * rows * c->input.key_length;
    case ANSWER_HEADS:
        return layers * c->n_maps * rows * a->d_v;
    case ANSWER_QUERY:
    case ANSWER_KEY:
        return layers * a->num_heads * rows * a->d_k;
    case ANSWER_VALUE:
        return layers * a->num_heads * rows * a->d_v;
    case ANSWER_STATES:
        return rows * (m->shape.num_layers + 1) * a->d_model;
    default:
        return c->input.rules && c->input.rules->dropout.samples ? rows * a->d_model : 0;
    }
}

struct model_answer model_answer_create(const struct model_problem *m, const struct model_case *c)
{
    struct model_answer a = {.fully_masked_rows = SIZE_MAX};
    for (size_t t = 0; t < ANSWER_TENSORS; t++) {
        const size_t size = model_answer_size(m, c, t);
        a.tensors[t] = malloc((size + 1) * sizeof(float));
        require(a.tensors[t], "no memory for %zu numbers", size);
        for (size_t i = 0; i <= size; i++)
            a.tensors[t][i] = ANSWER_UNWRITTEN;
    }
    const size_t heads = c->input.batch * m->shape.num_layers * m->shape.attention.num_heads;
    a.heads_used = malloc(heads);
    require(a.heads_used, "no memory for %zu heads", heads);
    memset(a.heads_used, 7, heads);
    return a;
}

void model_answer_free(struct model_answer *a)
{
    for (size_t t = 0; t < ANSWER_TENSORS; t++)
        free(a->tensors[t]);
    free(a->heads_used);
    *a = (struct model_answer){0};
}

struct forward_result model_answer_result(const struct model_problem *m, const struct model_case *c,
                                          const struct model_answer *a)
{
    const struct attention_rules *rules = c->input.rules;
    return (struct forward_result){
        .output = a->tensors[ANSWER_OUTPUT],
        .attention = a->tensors[ANSWER_ATTENTION],
        .heads = a->tensors[ANSWER_HEADS],
        .query = a->tensors[ANSWER_QUERY],
        .key = a->tensors[ANSWER_KEY],
        .value = a->tensors[ANSWER_VALUE],
        .hidden_states = a->tensors[ANSWER_STATES],
        .n_states = m->shape.num_layers + 1,
        .output_std = rules && rules->dropout.samples ? a->tensors[ANSWER_DEVIATION] : NULL,
        .heads_used = rules && rules->keep_heads.kind != KEEP_ALL_HEADS ? a->heads_used : NULL,
        .include_heads = c->include_heads,
        .n_maps = c->n_maps,
        .include_layers = c->include_layers,
        .n_layers = c->include_layers ? c->n_layers : m->shape.num_layers,
        .fully_masked_rows = SIZE_MAX,
    };
}
