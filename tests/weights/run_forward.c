/* Runs the engine on one lane for the golden tests. */
#include "run_forward.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

bool use_kernels(size_t variant)
{
    struct error error;
    return isa_supported((enum isa)variant) && engine_init(kernel_variants[variant]->name, &error);
}

struct forward_result run_forward(const struct attention_layer *layer, const struct forward_input *input)
{
    const struct attention_shape *shape = attention_layer_shape(layer);
    struct forward_result result = {
        .output = malloc(input->batch * input->query_length * shape->d_model * sizeof(float)),
        .attention = malloc(input->batch * shape->num_heads * input->query_length * input->key_length * sizeof(float)),
        .heads = malloc(input->batch * shape->num_heads * input->query_length * shape->d_v * sizeof(float)),
        .n_maps = shape->num_heads,
    };
    const struct forward_input *inputs[] = {input};
    struct forward_result *results[] = {&result};
    struct arena arena = {0};
    struct error error;
    size_t bytes;
    ck_assert_ptr_nonnull(result.output);
    ck_assert_ptr_nonnull(result.attention);
    ck_assert_ptr_nonnull(result.heads);
    ck_assert(forward_scratch_bytes(shape, inputs, 1, parallel_serial.lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    ck_assert_msg(forward_run(layer, inputs, results, 1, &parallel_serial, &arena, &error), "%s", error.message);
    arena_reset(&arena);
    arena_free(&arena);
    return result;
}

void run_forward_free(struct forward_result *result)
{
    free(result->output);
    free(result->attention);
    free(result->heads);
}

void expect_close(const char *what, const float *got, const float *expected, size_t count, bool zeros)
{
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)expected[i]);
        if (!(difference <= 1e-5 + 1e-5 * fabs((double)expected[i])) || (zeros && expected[i] == 0 && got[i] != 0))
            ck_abort_msg("%s, number %zu: %.9g, expected %.9g", what, i, (double)got[i], (double)expected[i]);
    }
}
