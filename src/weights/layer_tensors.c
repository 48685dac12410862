/* Owns the memory of a layer's tensors between their source and the packing, which copies them. No state. */
#include "weights/layer_tensors.h"

#include <stdlib.h>

struct layer_tensors layer_tensors_describe(const struct attention_shape *shape, unsigned biases)
{
    size_t query = shape->num_heads * shape->d_k, key = shape->num_kv_heads * shape->d_k;
    size_t value = shape->num_kv_heads * shape->d_v, heads = shape->num_heads * shape->d_v;
    struct layer_tensors tensors = {
        .items =
            {
                [LAYER_W_Q] = {.rows = shape->d_model, .columns = query},
                [LAYER_W_K] = {.rows = shape->d_model, .columns = key},
                [LAYER_W_V] = {.rows = shape->d_model, .columns = value},
                [LAYER_W_O] = {.rows = heads, .columns = shape->d_model},
                [LAYER_B_Q] = {.rows = 1, .columns = query},
                [LAYER_B_K] = {.rows = 1, .columns = key},
                [LAYER_B_V] = {.rows = 1, .columns = value},
                [LAYER_B_O] = {.rows = 1, .columns = shape->d_model},
            },
    };
    for (unsigned i = 0; i < LAYER_TENSOR_COUNT; i++)
        if (!shape->projected || (i >= LAYER_B_Q && !(biases & 1U << i)))
            tensors.items[i] = (struct layer_tensor){0};
    return tensors;
}

/* layer_shape_make has made sure that nothing here overflows. */
size_t layer_tensors_count(const struct layer_tensors *tensors)
{
    size_t count = 0;
    for (unsigned i = 0; i < LAYER_TENSOR_COUNT; i++)
        count += tensors->items[i].rows * tensors->items[i].columns;
    return count;
}

bool layer_tensors_allocate(struct layer_tensors *tensors, struct error *error)
{
    size_t count = layer_tensors_count(tensors), at = 0;
    if (count == 0)
        return true;
    float *memory = malloc(count * sizeof *memory);
    if (!memory)
        return error_set(error, ERROR_OUT_OF_MEMORY,
                         "memory ran out: its tensors are %zu numbers, %zu bytes as float32", count,
                         count * sizeof *memory);
    tensors->memory = memory;
    for (unsigned i = 0; i < LAYER_TENSOR_COUNT; i++) {
        struct layer_tensor *tensor = &tensors->items[i];
        if (tensor->rows)
            tensor->data = memory + at;
        at += tensor->rows * tensor->columns;
    }
    return true;
}

void layer_tensors_free(struct layer_tensors *tensors)
{
    free(tensors->memory);
    *tensors = (struct layer_tensors){0};
}
