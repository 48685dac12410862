/* Owns the memory of a model: how large each tensor is, where it lies, and how its numbers get there. */

#include "engine/model_parts.h"

#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum activation ffn_activation(enum ffn_kind kind)
{
    static const enum activation activations[FFN_KIND_COUNT] = {
#define FFN_ACTIVATION(code, name, activation, gated) activation,
        FFN_KINDS(FFN_ACTIVATION)
#undef FFN_ACTIVATION
    };
    return activations[kind];
}

bool ffn_is_gated(enum ffn_kind kind)
{
    static const bool all[FFN_KIND_COUNT] = {
#define FFN_GATED(code, name, activation, gated) gated,
        FFN_KINDS(FFN_GATED)
#undef FFN_GATED
    };
    return all[kind];
}

/* ---- extents */

static struct slot_extent matrix(bool there, size_t rows, size_t columns)
{
    return there ? (struct slot_extent){rows, columns, true} : (struct slot_extent){0};
}

static struct slot_extent table(bool there, size_t rows, size_t columns)
{
    return there ? (struct slot_extent){rows, columns, false} : (struct slot_extent){0};
}

static struct slot_extent gain_of(const struct norm_shape *norm, size_t width)
{
    return table(norm->kind != NORM_NONE, 1, width);
}

static struct slot_extent bias_of(const struct norm_shape *norm, size_t width)
{
    return table(norm->kind != NORM_NONE && norm->bias, 1, width);
}

static struct slot_extent layer_slot_extent(const struct attention_shape *a, const struct layer_shape *l,
                                            enum layer_slot slot)
{
    const size_t query = a->num_heads * a->d_k, key = a->num_kv_heads * a->d_k, value = a->num_kv_heads * a->d_v,
                 heads = a->num_heads * a->d_v;
    const struct ffn_shape *ffn = &l->ffn;
    const bool feeds = ffn->kind != FFN_NONE, gated = ffn_is_gated(ffn->kind);
    switch (slot) {
    case SLOT_W_Q:
        return matrix(a->projected, a->d_model, query);
    case SLOT_W_K:
        return matrix(a->projected, a->d_model, key);
    case SLOT_W_V:
        return matrix(a->projected, a->d_model, value);
    case SLOT_W_O:
        return matrix(a->projected, heads, a->d_model);
    case SLOT_B_Q:
        return table(l->bias_q, 1, query);
    case SLOT_B_K:
        return table(l->bias_k, 1, key);
    case SLOT_B_V:
        return table(l->bias_v, 1, value);
    case SLOT_B_O:
        return table(l->bias_o, 1, a->d_model);
    case SLOT_W_1:
        return matrix(feeds, a->d_model, ffn->d_ff);
    case SLOT_B_1:
        return table(feeds && ffn->bias_1, 1, ffn->d_ff);
    case SLOT_W_GATE:
        return matrix(gated, a->d_model, ffn->d_ff);
    case SLOT_B_GATE:
        return table(gated && ffn->bias_gate, 1, ffn->d_ff);
    case SLOT_W_2:
        return matrix(feeds, ffn->d_ff, a->d_model);
    case SLOT_B_2:
        return table(feeds && ffn->bias_2, 1, a->d_model);
    case SLOT_NORM1_GAIN:
        return gain_of(&l->norm1, a->d_model);
    case SLOT_NORM1_BIAS:
        return bias_of(&l->norm1, a->d_model);
    case SLOT_NORM2_GAIN:
        return gain_of(&l->norm2, a->d_model);
    case SLOT_NORM2_BIAS:
        return bias_of(&l->norm2, a->d_model);
    case LAYER_SLOT_COUNT:
        break;
    }
    return (struct slot_extent){0};
}

static struct slot_extent model_own_extent(const struct model_shape *shape, enum model_slot slot)
{
    const struct embeddings_shape *e = &shape->embeddings;
    const size_t d_model = shape->attention.d_model;
    const bool patches = e->present && e->patch_size > 0;
    switch (slot) {
    case SLOT_TOKEN:
        return table(e->present && e->vocabulary, e->vocabulary, e->width);
    case SLOT_POSITION:
        return table(e->present && e->positions, e->positions, e->width);
    case SLOT_TYPE:
        return table(e->present && e->types, e->types, e->width);
    case SLOT_EMBEDDING_GAIN:
        return gain_of(&e->norm, e->width);
    case SLOT_EMBEDDING_BIAS:
        return bias_of(&e->norm, e->width);
    case SLOT_PROJECTION_W:
        return matrix(e->present && e->projection, e->width, d_model);
    case SLOT_PROJECTION_B:
        return table(e->present && e->projection && e->projection_bias, 1, d_model);
    case SLOT_PATCH_W:
        return matrix(patches, e->channels * e->patch_size * e->patch_size, e->width);
    case SLOT_PATCH_B:
        return table(patches, 1, e->width);
    case SLOT_CLASS:
        return table(patches, 1, e->width);
    case SLOT_FINAL_GAIN:
        return gain_of(&shape->final_norm, d_model);
    case SLOT_FINAL_BIAS:
        return bias_of(&shape->final_norm, d_model);
    case MODEL_SLOT_COUNT:
        break;
    }
    return (struct slot_extent){0};
}

struct slot_extent model_slot_extent(const struct model_shape *shape, struct tensor_slot slot)
{
    if (slot.layer == MODEL_ITSELF)
        return model_own_extent(shape, (enum model_slot)slot.slot);
    return layer_slot_extent(&shape->attention, &shape->layers[slot.layer], (enum layer_slot)slot.slot);
}

char *model_slot_name(struct tensor_slot slot, char text[SLOT_NAME_BYTES])
{
#define SLOT_NAME(code, name) name,
    static const char *const of_layer[LAYER_SLOT_COUNT] = {LAYER_SLOTS(SLOT_NAME)};
    static const char *const of_model[MODEL_SLOT_COUNT] = {MODEL_SLOTS(SLOT_NAME)};
#undef SLOT_NAME
    if (slot.layer == MODEL_ITSELF)
        snprintf(text, SLOT_NAME_BYTES, "%s", of_model[slot.slot]);
    else
        snprintf(text, SLOT_NAME_BYTES, "layer %zu, %s", slot.layer, of_layer[slot.slot]);
    return text;
}

/* ---- memory: what is counted is what is taken, in one order */

/* A matrix, whose bias stands in another slot. Without an arena it is counted alone. */
static bool lay_matrix(const struct model_shape *shape, size_t layer, unsigned slot, unsigned bias_slot,
                       struct packed_matrix *to, struct arena *arena, size_t *total)
{
    const struct slot_extent extent = model_slot_extent(shape, (struct tensor_slot){layer, slot});
    const bool bias = model_slot_extent(shape, (struct tensor_slot){layer, bias_slot}).rows > 0;
    if (extent.rows == 0)
        return true;
    if (arena)
        *to = packed_matrix_take(extent.rows, extent.columns, bias, shape->precision, arena);
    return packed_matrix_need(extent.rows, extent.columns, bias, shape->precision, total);
}

static bool lay_numbers(const struct model_shape *shape, size_t layer, unsigned slot, size_t element, void *to,
                        struct arena *arena, size_t *total)
{
    const struct slot_extent extent = model_slot_extent(shape, (struct tensor_slot){layer, slot});
    size_t bytes;
    if (extent.rows == 0)
        return true;
    if (!tensor_bytes((size_t[]){extent.rows, extent.columns}, 2, element, &bytes))
        return false;
    if (arena) {
        const void *taken = arena_take(arena, bytes);
        memcpy(to, &taken, sizeof taken);
    }
    return arena_need(total, bytes);
}

static bool lay_vector(const struct model_shape *shape, size_t layer, unsigned slot, float **to, struct arena *arena,
                       size_t *total)
{
    return lay_numbers(shape, layer, slot, sizeof(float), to, arena, total);
}

static bool lay_table(const struct model_shape *shape, enum model_slot slot, struct table *to, struct arena *arena,
                      size_t *total)
{
    return shape->precision == PRECISION_BF16
               ? lay_numbers(shape, MODEL_ITSELF, slot, sizeof *to->bf16, &to->bf16, arena, total)
               : lay_numbers(shape, MODEL_ITSELF, slot, sizeof *to->numbers, &to->numbers, arena, total);
}

static bool lay_norm(const struct model_shape *shape, const struct norm_shape *norm, size_t layer, unsigned gain,
                     unsigned bias, struct norm *to, struct arena *arena, size_t *total)
{
    *to = (struct norm){.kind = norm->kind, .eps = norm->eps};
    return lay_vector(shape, layer, gain, &to->gain, arena, total) &&
           lay_vector(shape, layer, bias, &to->bias, arena, total);
}

static bool lay_layer(const struct model_shape *shape, size_t n, struct model_layer *to, struct arena *arena,
                      size_t *total)
{
    const struct layer_shape *layer = &shape->layers[n];
    struct attention_layer *attention = &to->attention;
    to->shape = layer;
    attention->shape = shape->attention;
    attention->shape.scale = layer->scale;
    to->ffn.kind = layer->ffn.kind;
    return lay_matrix(shape, n, SLOT_W_Q, SLOT_B_Q, &attention->query, arena, total) &&
           lay_matrix(shape, n, SLOT_W_K, SLOT_B_K, &attention->key, arena, total) &&
           lay_matrix(shape, n, SLOT_W_V, SLOT_B_V, &attention->value, arena, total) &&
           lay_matrix(shape, n, SLOT_W_O, SLOT_B_O, &attention->output, arena, total) &&
           lay_matrix(shape, n, SLOT_W_1, SLOT_B_1, &to->ffn.w_1, arena, total) &&
           lay_matrix(shape, n, SLOT_W_GATE, SLOT_B_GATE, &to->ffn.w_gate, arena, total) &&
           lay_matrix(shape, n, SLOT_W_2, SLOT_B_2, &to->ffn.w_2, arena, total) &&
           lay_norm(shape, &layer->norm1, n, SLOT_NORM1_GAIN, SLOT_NORM1_BIAS, &to->norm1, arena, total) &&
           lay_norm(shape, &layer->norm2, n, SLOT_NORM2_GAIN, SLOT_NORM2_BIAS, &to->norm2, arena, total);
}

static bool lay_embeddings(const struct model_shape *shape, struct embeddings *to, struct arena *arena, size_t *total)
{
    return lay_table(shape, SLOT_TOKEN, &to->token, arena, total) &&
           lay_table(shape, SLOT_POSITION, &to->position, arena, total) &&
           lay_table(shape, SLOT_TYPE, &to->type, arena, total) &&
           lay_vector(shape, MODEL_ITSELF, SLOT_CLASS, &to->class_token, arena, total) &&
           lay_norm(shape, &shape->embeddings.norm, MODEL_ITSELF, SLOT_EMBEDDING_GAIN, SLOT_EMBEDDING_BIAS, &to->norm,
                    arena, total) &&
           lay_matrix(shape, MODEL_ITSELF, SLOT_PROJECTION_W, SLOT_PROJECTION_B, &to->projection, arena, total) &&
           lay_matrix(shape, MODEL_ITSELF, SLOT_PATCH_W, SLOT_PATCH_B, &to->patch, arena, total);
}

/* All of it: `layers` [num_layers], its own copies of the layers' shapes. Without an arena it is counted alone. */
static bool lay_model(const struct model_shape *shape, struct model *to, struct arena *arena, size_t *total)
{
    struct model_layer counted;
    *total = 0;
    for (size_t n = 0; n < shape->num_layers; n++)
        if (!lay_layer(shape, n, arena ? &to->layers[n] : &counted, arena, total))
            return false;
    return lay_embeddings(shape, &to->embeddings, arena, total) &&
           lay_norm(shape, &shape->final_norm, MODEL_ITSELF, SLOT_FINAL_GAIN, SLOT_FINAL_BIAS, &to->final_norm, arena,
                    total);
}

bool model_parts_bytes(const struct model_shape *shape, size_t *bytes)
{
    return size_multiply(shape->num_layers, sizeof(struct model_layer) + sizeof(struct layer_shape), bytes) &&
           size_add(*bytes, sizeof(struct model), bytes);
}

bool model_shape_bytes(const struct model_shape *shape, size_t *bytes)
{
    struct model counted;
    size_t tensors, own;
    return lay_model(shape, &counted, NULL, &tensors) && model_parts_bytes(shape, &own) &&
           size_add(tensors, own, bytes);
}

struct model *model_create(const struct model_shape *shape, struct error *error)
{
    struct model *model = calloc(1, sizeof *model);
    size_t bytes;
    if (!model)
        goto fail;
    struct layer_shape *layers = calloc(shape->num_layers, sizeof *layers);
    model->shape = *shape;
    model->shape.layers = layers;
    model->kernels = kernels_chosen();
    model->layers = calloc(shape->num_layers, sizeof *model->layers);
    if (!layers || !model->layers)
        goto fail;
    memcpy(layers, shape->layers, shape->num_layers * sizeof *layers);
    if (!lay_model(&model->shape, model, NULL, &bytes) || !arena_reserve(&model->memory, bytes))
        goto fail;
    for (size_t n = 0; n < shape->num_layers; n++)
        model->layers[n].attention.kernels = model->kernels;
    lay_model(&model->shape, model, &model->memory, &bytes);
    return model;
fail:
    error_out_of_memory(error);
    model_free(model);
    return NULL;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    arena_free(&model->memory);
    free(model->layers);
    free((void *)model->shape.layers);
    free(model);
}

const struct model_shape *model_shape_of(const struct model *model)
{
    return &model->shape;
}

size_t model_bytes(const struct model *model)
{
    size_t own = 0;
    model_parts_bytes(&model->shape, &own);
    return own + model->memory.capacity;
}
