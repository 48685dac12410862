/* Packs the weights of an attention layer, once, when they are loaded: any thread. Afterwards they are only read. */

#include "engine/attention.h"

#include "base/size.h"
#include "engine/layer.h"

#include <stdlib.h>

enum { MATRICES = 4 };

/* One matrix on its way into the layer. */
struct source {
    const float *matrix; /* [depth, columns] */
    const float *bias;   /* [columns] or NULL */
    size_t depth, columns;
    struct packed_matrix *packed;
};

static bool memory_needed(const struct source *sources, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < MATRICES; i++)
        if (!packed_matrix_need(sources[i].depth, sources[i].columns, sources[i].bias, PRECISION_F32, bytes))
            return false;
    return true;
}

/* The arena holds memory_needed. */
static void pack_source(const struct source *source, const struct kernels *kernels, struct arena *memory)
{
    *source->packed = packed_matrix_take(source->depth, source->columns, source->bias, PRECISION_F32, memory);
    packed_matrix_put_rows(source->packed, kernels, 0, source->depth, source->matrix, source->columns);
    if (source->bias)
        packed_matrix_put_bias(source->packed, source->bias);
}

struct attention_layer *attention_layer_create(const struct attention_shape *shape,
                                               const struct attention_matrices *matrices, struct error *error)
{
    struct attention_layer *layer = malloc(sizeof *layer);
    if (!layer) {
        error_out_of_memory(error);
        return NULL;
    }
    *layer = (struct attention_layer){.shape = *shape, .kernels = kernels_chosen()};
    if (!shape->projected)
        return layer;

    size_t query_columns, key_columns, value_columns, head_columns, bytes;
    if (!size_multiply(shape->num_heads, shape->d_k, &query_columns) ||
        !size_multiply(shape->num_kv_heads, shape->d_k, &key_columns) ||
        !size_multiply(shape->num_kv_heads, shape->d_v, &value_columns) ||
        !size_multiply(shape->num_heads, shape->d_v, &head_columns))
        goto fail;
    const struct source sources[MATRICES] = {
        {matrices->w_q, matrices->b_q, shape->d_model, query_columns, &layer->query},
        {matrices->w_k, matrices->b_k, shape->d_model, key_columns, &layer->key},
        {matrices->w_v, matrices->b_v, shape->d_model, value_columns, &layer->value},
        {matrices->w_o, matrices->b_o, head_columns, shape->d_model, &layer->output},
    };
    if (!memory_needed(sources, &bytes) || !arena_reserve(&layer->memory, bytes))
        goto fail;
    for (size_t i = 0; i < MATRICES; i++)
        pack_source(&sources[i], layer->kernels, &layer->memory);
    return layer;
fail:
    error_out_of_memory(error);
    attention_layer_free(layer);
    return NULL;
}

void attention_layer_free(struct attention_layer *layer)
{
    if (!layer)
        return;
    arena_free(&layer->memory);
    free(layer);
}

const struct attention_shape *attention_layer_shape(const struct attention_layer *layer)
{
    return &layer->shape;
}

size_t attention_layer_bytes(const struct attention_layer *layer)
{
    return sizeof *layer + layer->memory.capacity;
}
