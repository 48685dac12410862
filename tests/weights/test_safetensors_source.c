/* Every form of a file gives the layer that was put into it, number for number. */
#include "suite.h"

#include "layer_file.h"
#include "model_file.h"
#include "weights/safetensors_source.h"

#include <string.h>

#define ALL_BIASES (15U << LAYER_B_Q)

static const struct attention_shape small = {.d_model = 12, .num_heads = 4, .num_kv_heads = 4, .d_k = 3, .d_v = 3};
static const struct attention_shape grouped = {.d_model = 16, .num_heads = 4, .num_kv_heads = 2, .d_k = 3, .d_v = 5};
/* Matrices of more numbers than are read at once, with extents that nothing divides. */
static const struct attention_shape large = {.d_model = 307, .num_heads = 4, .num_kv_heads = 2, .d_k = 75, .d_v = 29};

static const struct {
    const struct attention_shape *shape;
    unsigned biases;
    struct layer_form form;
} cases[] = {
    {&small, 0, {"F32", LAYOUT_IN_OUT, false, false, false}},
    {&small, ALL_BIASES, {"F64", LAYOUT_OUT_IN, false, false, false}},
    {&small, 5U << LAYER_B_Q, {"F16", LAYOUT_IN_OUT, false, false, false}},
    {&small, 10U << LAYER_B_Q, {"BF16", LAYOUT_OUT_IN, false, false, false}},
    {&grouped, ALL_BIASES, {"F32", LAYOUT_IN_OUT, true, true, false}},
    {&grouped, ALL_BIASES, {"F64", LAYOUT_OUT_IN, true, false, false}},
    {&grouped, ALL_BIASES, {"F32", LAYOUT_IN_OUT, false, true, false}},
    {&grouped, ALL_BIASES, {"F32", LAYOUT_IN_OUT, false, false, true}},
    {&grouped, ALL_BIASES, {"BF16", LAYOUT_OUT_IN, false, false, true}},
    {&grouped, 8U << LAYER_B_Q, {"F16", LAYOUT_OUT_IN, false, false, true}},
    {&large, ALL_BIASES, {"F16", LAYOUT_IN_OUT, false, false, false}},
    {&large, ALL_BIASES, {"F16", LAYOUT_OUT_IN, true, true, false}},
    {&large, ALL_BIASES, {"BF16", LAYOUT_IN_OUT, true, true, false}},
    {&large, 0, {"F16", LAYOUT_OUT_IN, false, false, true}},
};

START_TEST(every_number)
{
    struct made_layer layer = layer_make(cases[_i].shape, cases[_i].biases, 3);
    struct weights_config config;
    struct attention_shape shape;
    struct layer_tensors tensors;
    struct error error;
    layer_write(&layer, &cases[_i].form, "form.safetensors", &config);
    ck_assert_msg(safetensors_source_load(&config, &shape, &tensors, &error), "%s", error.message);
    ck_assert_uint_eq(shape.d_model, layer.shape.d_model);
    ck_assert_uint_eq(shape.num_heads, layer.shape.num_heads);
    ck_assert_uint_eq(shape.num_kv_heads, layer.shape.num_kv_heads);
    ck_assert_uint_eq(shape.d_k, layer.shape.d_k);
    ck_assert_uint_eq(shape.d_v, layer.shape.d_v);
    for (size_t kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        const struct layer_tensor *tensor = &tensors.items[kind];
        ck_assert_int_eq(tensor->data != NULL, layer.items[kind] != NULL);
        ck_assert_int_eq(tensor->rows != 0, layer.items[kind] != NULL);
        for (size_t i = 0; i < tensor->rows * tensor->columns; i++)
            if ((double)tensor->data[i] != layer.items[kind][i])
                ck_abort_msg("tensor %zu, number %zu: %g, expected %g", kind, i, (double)tensor->data[i],
                             layer.items[kind][i]);
    }
    layer_tensors_free(&tensors);
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

/* d_model / num_heads where d_k is not given, from a file of either layout. */
START_TEST(numbers_that_are_not_given)
{
    const struct layer_form form = {"F32", _i ? LAYOUT_OUT_IN : LAYOUT_IN_OUT, true, false, false};
    struct made_layer layer = layer_make(&small, 0, 4);
    struct weights_config config;
    struct attention_shape shape;
    struct layer_tensors tensors;
    struct error error;
    layer_write(&layer, &form, "form.safetensors", &config);
    config.num_kv_heads = config.d_k = config.d_v = 0;
    ck_assert_msg(safetensors_source_load(&config, &shape, &tensors, &error), "%s", error.message);
    ck_assert_uint_eq(shape.d_model, 12);
    ck_assert_uint_eq(shape.num_kv_heads, 4);
    ck_assert_uint_eq(shape.d_k, 3);
    ck_assert_uint_eq(shape.d_v, 3);
    layer_tensors_free(&tensors);
    config.d_model = 13;
    config.d_k = 3;
    ck_assert(!safetensors_source_load(&config, &shape, &tensors, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "\"W_QKV\""));
    ck_assert_ptr_nonnull(strstr(error.message, "13"));
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/safetensors_source");
    TCase *tcase = tcase_create("forms");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_loop_test(tcase, every_number, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tcase, numbers_that_are_not_given, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
