#include "engine/layer.h"
#include "problem.h"
#include "suite.h"

#include <stdint.h>
#include <string.h>

static const struct attention_shape shape = {
    .d_model = 5, .num_heads = 4, .num_kv_heads = 2, .d_k = 3, .d_v = 7, .scale = 0.5f, .projected = true};

START_TEST(the_layer_keeps_its_shape_and_copies_its_weights)
{
    struct random random = {1};
    struct problem owner = {0};
    const struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
    struct error error;
    struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
    ck_assert_ptr_nonnull(layer);
    const float first = matrices.w_q[0];
    problem_free(&owner);
    ck_assert(layer->query.panels[0] == first);
    ck_assert_mem_eq(attention_layer_shape(layer), &shape, sizeof shape);
    const size_t parameters = 5 * (12 + 6 + 14) + 28 * 5;
    ck_assert_uint_ge(attention_layer_bytes(layer), parameters * sizeof(float));
    attention_layer_free(layer);
}
END_TEST

START_TEST(panels_are_aligned_and_biases_padded_with_zeros)
{
    const float bias[28] = {1, 2, 3, 4, 5};
    struct random random = {2};
    struct problem owner = {0};
    struct attention_matrices matrices = random_matrices(&random, &shape, &owner);
    matrices.b_q = matrices.b_k = matrices.b_v = NULL;
    matrices.b_o = bias;
    struct error error;
    struct attention_layer *layer = attention_layer_create(&shape, &matrices, &error);
    const struct packed_matrix *const packed[] = {&layer->query, &layer->key, &layer->value, &layer->output};
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq((uintptr_t)packed[i]->panels % 64, 0);
    ck_assert_ptr_null(layer->query.bias);
    ck_assert_mem_eq(layer->output.bias, bias, 5 * sizeof *bias);
    for (size_t i = 5; i < kernel_padded(5); i++)
        ck_assert(layer->output.bias[i] == 0);
    attention_layer_free(layer);
    problem_free(&owner);
}
END_TEST

START_TEST(identity_needs_no_matrices)
{
    struct attention_shape identity = shape;
    identity.projected = false;
    struct error error;
    struct attention_layer *layer = attention_layer_create(&identity, &(struct attention_matrices){0}, &error);
    ck_assert_ptr_nonnull(layer);
    attention_layer_free(layer);
    attention_layer_free(NULL);
}
END_TEST

START_TEST(impossible_sizes_are_out_of_memory)
{
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 60};
    for (size_t i = 0; i < 3; i++)
        for (size_t member = 0; member < 3; member++) {
            struct attention_shape huge = shape;
            *(member == 0 ? &huge.d_model : member == 1 ? &huge.d_k : &huge.d_v) = sizes[i];
            struct error error = {0};
            ck_assert_ptr_null(attention_layer_create(&huge, &(struct attention_matrices){0}, &error));
            ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
        }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/attention");
    TCase *t = tcase_create("attention");
    tcase_add_test(t, the_layer_keeps_its_shape_and_copies_its_weights);
    tcase_add_test(t, panels_are_aligned_and_biases_padded_with_zeros);
    tcase_add_test(t, identity_needs_no_matrices);
    tcase_add_test(t, impossible_sizes_are_out_of_memory);
    suite_add_tcase(s, t);
    return s;
}
