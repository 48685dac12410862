#include "layer.h"

#include "weights/numpy_random.h"

#include <math.h>
#include <stdlib.h>

void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

float *normals(uint32_t seed, size_t count, double scale)
{
    struct numpy_random random;
    float *numbers = allocate(count * sizeof *numbers);
    numpy_random_seed(&random, seed);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(numpy_random_normal(&random) * scale);
    return numbers;
}

struct attention_layer *random_layer(size_t d_model, size_t num_heads, struct attention_shape *shape)
{
    const size_t d_k = d_model / num_heads, square = d_model * d_model;
    *shape = (struct attention_shape){d_model, num_heads, num_heads, d_k, d_k, 1 / sqrtf((float)d_k), true};
    float *weights = normals(42, 4 * square, 1.1 / sqrt((double)d_model));
    const struct attention_matrices matrices = {
        .w_q = weights, .w_k = weights + square, .w_v = weights + 2 * square, .w_o = weights + 3 * square};
    struct error error;
    struct attention_layer *layer = attention_layer_create(shape, &matrices, &error);
    if (!layer)
        abort();
    free(weights);
    return layer;
}

struct forward_input self_input(const float *x, size_t length)
{
    return (struct forward_input){.batch = 1,
                                  .query_length = length,
                                  .key_length = length,
                                  .self_attention = true,
                                  .query = x,
                                  .key = x,
                                  .value = x};
}
