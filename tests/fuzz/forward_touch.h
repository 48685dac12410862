/* Small weight sets, a look at all that their engine would read of a request, and the forms that requests come in. For
 * the fuzz targets of requests. */
#ifndef ATTND_TESTS_FUZZ_FORWARD_TOUCH_H
#define ATTND_TESTS_FUZZ_FORWARD_TOUCH_H

#include "codec/forward_request.h"
#include "engine/compare.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void check(bool holds)
{
    if (!holds)
        abort();
}

/* What refuses a request says why, and has let go of what it had taken. */
static inline void expect_refused(const struct error *error, const struct arena *arena)
{
    check(error->code != ERROR_NONE && error->code != ERROR_OUT_OF_MEMORY && error->message[0] && arena->used == 0);
}

/* Calls `decode` with the body as JSON and as safetensors, in memory of just its size, and an empty arena each time. */
static inline void decode_each_form(const uint8_t *data, size_t size,
                                    void (*decode)(const struct request_body *body, struct arena *arena))
{
    uint8_t *exact = malloc(size + !size);
    struct arena arena = {0};
    if (size)
        memcpy(exact, data, size);
    check(arena_reserve(&arena, forward_request_decoded_bytes(size)));
    for (enum body_form form = BODY_JSON; form <= BODY_SAFETENSORS; form++) {
        decode(&(struct request_body){form, (const char *)exact, size}, &arena);
        arena_reset(&arena);
    }
    arena_free(&arena);
    free(exact);
}

#define SHAPE_NUMBERS                                                                                      \
    {                                                                                                      \
        .d_model = 4, .num_heads = 2, .num_kv_heads = 2, .d_k = 2, .d_v = 2, .scale = 1, .projected = true \
    }
static const struct attention_shape SHAPE = SHAPE_NUMBERS; /* no constant to clang, inside another */

/* What the set is, besides: a bare layer, a model that embeds ids, one that embeds pixels. */
static const struct layer_shape LAYERS[] = {{.scale = 1}, {.scale = 1, .own_causal = true, .causal = true}};
static const struct model_shape
    IDS = {.attention = SHAPE_NUMBERS,
           .num_layers = 2,
           .layers = LAYERS,
           .embeddings = {.present = true,
                          .vocabulary = 9,
                          .width = 3,
                          .positions = 8,
                          .types = 2,
                          .count_padding_id = true,
                          .padding_id = 1}},
    PIXELS = {
        .attention = SHAPE_NUMBERS,
        .num_layers = 2,
        .layers = LAYERS,
        .embeddings = {.present = true, .width = 4, .positions = 5, .channels = 1, .image_size = 2, .patch_size = 1}};
static const struct rules_defaults SETS[] = {{.model = NULL}, {.model = &IDS}, {.model = &PIXELS}};
enum { SET_COUNT = sizeof SETS / sizeof *SETS };

static const struct approximation COMPARED = {.output_error = 0.5, .attention_error = NAN, .pairs = 1, .pairs_full = 2};

/* The same for rules: that they are what the engine is promised, and all their numbers. */
static inline void touch_rules(const struct attention_rules *rules, const struct forward_input *problem)
{
    const struct position_rule *position = &rules->position;
    const struct pattern_rule *pattern = &rules->pattern;
    const struct low_rank_rule *low = &rules->low_rank;
    volatile float sum = 0;
    check(position->kind < POSITION_KIND_COUNT && pattern->kind < PATTERN_KIND_COUNT &&
          rules->num_layers == (problem->num_layers ? problem->num_layers : 1));
    check(low->kind == LOW_RANK_NONE || low->kind == LOW_RANK_LINFORMER || low->kind == LOW_RANK_NYSTROM);
    if (position->kind == POSITION_LEARNED || position->kind == POSITION_T5 || position->kind == POSITION_RELATIVE)
        sum +=
            position
                ->table[position->table_rows * (position->kind == POSITION_LEARNED ? SHAPE.d_model : SHAPE.num_heads) -
                        1];
    if (position->kind == POSITION_ROPE)
        check(position->dims % 2 == 0 && position->dims <= SHAPE.d_k && position->base > 0);
    if (problem->position_ids && position->kind == POSITION_LEARNED)
        for (size_t i = 0; i < problem->query_length * (problem->positions_per_sequence ? problem->batch : 1); i++)
            check(problem->position_ids[i] + position->offset < position->table_rows);
    for (size_t i = 0; i < pattern->n_global; i++)
        check(i == 0 || pattern->global[i - 1] < pattern->global[i]);
    if (pattern->kind == PATTERN_BIGBIRD)
        check(pattern->size > 0 && pattern->window_blocks % 2);
    if (low->kind == LOW_RANK_LINFORMER) {
        check(low->e_columns >= problem->key_length && low->f_columns >= problem->key_length);
        sum += low->e[low->projected_keys * low->e_columns * (low->e_per_head ? SHAPE.num_heads : 1) - 1] +
               low->f[low->projected_keys * low->f_columns * (low->f_per_head ? SHAPE.num_heads : 1) - 1];
    }
    if (rules->keep_heads.kind == KEEP_COUNT)
        check(rules->keep_heads.count >= 1 && rules->keep_heads.count <= SHAPE.num_heads);
    check(rules->dropout.samples <= 1024 && rules->dropout.rate >= 0 && rules->dropout.rate < 1);
    (void)sum;
}

/* The same for what a model embeds: the rows that it names are there. */
static inline void touch_embedding(const struct forward_input *problem)
{
    const struct embedding_input *in = problem->embedding;
    const size_t rows = problem->batch * problem->query_length;
    volatile float sum = 0;
    check(problem->self_attention && problem->num_layers &&
          (in->ids != NULL) + (in->embeds != NULL) + (in->pixels != NULL) == 1);
    for (size_t i = 0, before = 0; in->ids && i < rows; i++) {
        before = i % problem->query_length ? before : 0;
        check(in->ids[i] < IDS.embeddings.vocabulary);
        before += in->ids[i] != IDS.embeddings.padding_id;
        check(problem->position_ids || IDS.embeddings.padding_id + before < IDS.embeddings.positions);
    }
    for (size_t i = 0; in->type_ids && i < rows; i++)
        check(in->type_ids[i] < IDS.embeddings.types);
    for (size_t i = 0; problem->position_ids && i < (problem->positions_per_sequence ? rows : problem->query_length);
         i++)
        check(problem->position_ids[i] < IDS.embeddings.positions);
    if (in->embeds)
        sum += in->embeds[rows * IDS.embeddings.width - 1];
    if (in->pixels)
        sum += in->pixels[problem->batch * 4 - 1];
    check(!in->pixels || (problem->query_length == 5 && !in->type_ids && !problem->position_ids));
    (void)sum;
}

/* Reads the last number of everything that the engine will read. */
static inline void touch(const struct forward_request *request, const struct forward_input *problem)
{
    size_t queries = problem->batch * problem->query_length, keys = problem->batch * problem->key_length;
    size_t pairs = queries * problem->key_length;
    volatile float sum = 0;
    check(queries > 0 && keys > 0 && (!problem->rank2 || problem->batch == 1));
    if (problem->embedding)
        touch_embedding(problem);
    else
        sum += problem->query[queries * SHAPE.d_model - 1] + problem->key[keys * SHAPE.d_model - 1] +
               problem->value[keys * SHAPE.d_model - 1];
    if (problem->mask_kind)
        sum += problem->mask[(problem->mask_kind == FORWARD_MASK_KEYS ? keys : pairs) - 1];
    if (problem->bias)
        sum += problem->bias[SHAPE.num_heads * (problem->bias_per_sequence ? pairs : pairs / problem->batch) - 1];
    if (problem->head_mask)
        sum += problem->head_mask[SHAPE.num_heads * (problem->head_mask_per_layer ? problem->num_layers : 1) - 1];
    if (problem->position_ids)
        sum += (float)problem->position_ids[problem->positions_per_sequence ? queries - 1 : problem->query_length - 1];
    if (problem->rules)
        touch_rules(problem->rules, problem);
    (void)sum;
    check(!request->include_heads == !request->n_include_heads && request->n_include_heads <= SHAPE.num_heads);
    for (size_t i = 0; i < request->n_include_heads; i++)
        check(request->include_heads[i] < SHAPE.num_heads);
    for (size_t i = 0; i < request->n_include_layers; i++)
        check(request->include_layers[i] < (problem->num_layers ? problem->num_layers : 1));
    check(request->returned && request->decimals >= -1 && request->decimals <= 9);
}

#endif
