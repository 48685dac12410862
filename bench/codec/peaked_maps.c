#include "peaked_maps.h"

#include "base/arena.h"
#include "engine/forward.h"
#include "weights/numpy_random.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static float *normals(uint32_t seed, size_t count, double scale)
{
    struct numpy_random random;
    float *numbers = malloc(count * sizeof *numbers);
    numpy_random_seed(&random, seed);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = (float)(numpy_random_normal(&random) * scale);
    return numbers;
}

bool peaked_maps_make(struct peaked_maps *made, size_t length, size_t d_model, size_t heads, struct error *error)
{
    const size_t square = d_model * d_model, d_k = d_model / heads;
    const struct attention_shape shape = {d_model, heads, heads, d_k, d_k, 1 / sqrtf((float)d_k), true};
    *made = (struct peaked_maps){.heads = heads, .length = length, .d_model = d_model};
    made->maps = malloc(heads * length * length * sizeof *made->maps);
    made->output = malloc(length * d_model * sizeof *made->output);
    float *weights = normals(42, 4 * square, 0.1), *x = normals(7, length * d_model, 1);
    struct attention_layer *layer = NULL;
    struct arena arena = {0};
    bool done = false;
    if (!made->maps || !made->output || !weights || !x) {
        error_out_of_memory(error);
        goto end;
    }
    const struct attention_matrices matrices = {
        .w_q = weights, .w_k = weights + square, .w_v = weights + 2 * square, .w_o = weights + 3 * square};
    layer = attention_layer_create(&shape, &matrices, error);
    const struct forward_input input = {.batch = 1,
                                        .query_length = length,
                                        .key_length = length,
                                        .self_attention = true,
                                        .query = x,
                                        .key = x,
                                        .value = x};
    struct forward_result result = {.output = made->output, .attention = made->maps, .n_maps = heads};
    const struct forward_input *inputs[] = {&input};
    struct forward_result *results[] = {&result};
    size_t bytes;
    if (!layer)
        goto end;
    if (!forward_scratch_bytes(&shape, inputs, 1, 1, &bytes) || !arena_reserve(&arena, bytes)) {
        error_out_of_memory(error);
        goto end;
    }
    done = forward_run(layer, inputs, results, 1, &parallel_serial, &arena, error);
end:
    arena_free(&arena);
    attention_layer_free(layer);
    free(weights);
    free(x);
    if (!done)
        peaked_maps_free(made);
    return done;
}

void peaked_maps_free(struct peaked_maps *made)
{
    free(made->maps);
    free(made->output);
    *made = (struct peaked_maps){0};
}
