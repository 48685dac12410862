/* Models that share all but their attention with another: beside projections of lower rank the original ones stay, and
 * feed-forward networks, norms and embeddings need not be there twice. One thread makes one; then any may read it. */

#include "engine/model_parts.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* Takes a layer's own matrices. Without an arena they are counted alone. */
static bool lay_attention(const struct model_shape *shape, size_t n, unsigned own, struct attention_layer *to,
                          struct arena *arena, size_t *total)
{
    struct packed_matrix *const matrices[] = {&to->query, &to->key, &to->value, &to->output};
    for (unsigned i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        const struct slot_extent extent = model_slot_extent(shape, (struct tensor_slot){n, SLOT_W_Q + i});
        const bool bias = model_slot_extent(shape, (struct tensor_slot){n, SLOT_B_Q + i}).rows > 0;
        if (!(own & 1U << (SLOT_W_Q + i)))
            continue;
        if (arena)
            *matrices[i] = packed_matrix_take(extent.rows, extent.columns, bias, PRECISION_F32, arena);
        if (!packed_matrix_need(extent.rows, extent.columns, bias, PRECISION_F32, total))
            return false;
    }
    return true;
}

static bool count_layers(const struct model_shape *shape, unsigned own, size_t *total)
{
    struct attention_layer counted;
    *total = 0;
    for (size_t n = 0; n < shape->num_layers; n++)
        if (!lay_attention(shape, n, own, &counted, NULL, total))
            return false;
    return true;
}

bool model_over_bytes(const struct model_shape *base, const struct attention_shape *attention, unsigned own,
                      size_t *bytes)
{
    struct model_shape shape = *base;
    size_t matrices, parts;
    shape.attention = *attention;
    return count_layers(&shape, own, &matrices) && model_parts_bytes(&shape, &parts) &&
           size_add(matrices, parts, bytes);
}

struct model *model_create_over(const struct model *base, const struct attention_shape *attention, unsigned own,
                                struct error *error)
{
    struct model *model = malloc(sizeof *model);
    const size_t num_layers = base->shape.num_layers;
    size_t bytes;
    if (!model)
        goto fail;
    *model = *base;
    model->memory = (struct arena){0};
    model->shape.attention = *attention;
    struct layer_shape *shapes = calloc(num_layers, sizeof *shapes);
    model->shape.layers = shapes;
    model->layers = calloc(num_layers, sizeof *model->layers);
    if (!shapes || !model->layers)
        goto fail;
    memcpy(shapes, base->shape.layers, num_layers * sizeof *shapes);
    if (!count_layers(&model->shape, own, &bytes) || !arena_reserve(&model->memory, bytes))
        goto fail;
    bytes = 0;
    for (size_t n = 0; n < num_layers; n++) {
        struct model_layer *layer = &model->layers[n];
        *layer = base->layers[n];
        layer->shape = &shapes[n];
        layer->attention.shape = *attention;
        layer->attention.shape.scale = shapes[n].scale;
        lay_attention(&model->shape, n, own, &layer->attention, &model->memory, &bytes);
    }
    return model;
fail:
    error_out_of_memory(error);
    model_free(model);
    return NULL;
}
