/* Defaults and refusals of a set's numbers. */
#include "suite.h"

#include "weights/layer_shape.h"
#include "weights/layer_tensors.h"

#include <stdint.h>
#include <string.h>

static const struct weights_config plain = {.source = WEIGHTS_SAFETENSORS, .num_heads = 8};

START_TEST(defaults)
{
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&plain, 64, &shape, &error));
    ck_assert_uint_eq(shape.d_model, 64);
    ck_assert_uint_eq(shape.num_heads, 8);
    ck_assert_uint_eq(shape.num_kv_heads, 8);
    ck_assert_uint_eq(shape.d_k, 8);
    ck_assert_uint_eq(shape.d_v, 8);
    ck_assert_float_eq(shape.scale, 0.35355339F); /* 1/sqrt(8) */
    ck_assert(shape.projected);
    struct layer_tensors tensors = layer_tensors_describe(&shape, 1U << LAYER_B_V);
    ck_assert_uint_eq(layer_tensors_count(&tensors), 4 * 64 * 64 + 64);
}
END_TEST

START_TEST(given)
{
    struct weights_config config = plain;
    struct attention_shape shape;
    struct error error;
    config.num_kv_heads = 2;
    config.d_k = 3;
    config.d_v = 5;
    config.scale = -0.25;
    config.has_scale = true;
    ck_assert(layer_shape_make(&config, 7, &shape, &error));
    ck_assert_uint_eq(shape.num_kv_heads, 2);
    ck_assert_uint_eq(shape.d_k, 3);
    ck_assert_uint_eq(shape.d_v, 5);
    ck_assert_float_eq(shape.scale, -0.25F);
    struct layer_tensors tensors = layer_tensors_describe(&shape, 15U << LAYER_B_Q);
    ck_assert_uint_eq(layer_tensors_count(&tensors), 7 * 24 + 7 * 6 + 7 * 10 + 40 * 7 + 24 + 6 + 10 + 7);
}
END_TEST

START_TEST(d_v_follows_d_k)
{
    struct weights_config config = plain;
    struct attention_shape shape;
    struct error error;
    config.d_k = 3;
    ck_assert(layer_shape_make(&config, 64, &shape, &error));
    ck_assert_uint_eq(shape.d_v, 3);
}
END_TEST

START_TEST(numpy_scale_is_no_scale_of_scores)
{
    struct weights_config config = {.source = WEIGHTS_NUMPY, .num_heads = 1, .scale = 0.1, .has_scale = true};
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&config, 16, &shape, &error));
    ck_assert_float_eq(shape.scale, 0.25F);
}
END_TEST

START_TEST(identity)
{
    struct weights_config config = {.source = WEIGHTS_IDENTITY, .num_heads = 8};
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&config, 512, &shape, &error));
    ck_assert(!shape.projected);
    ck_assert_uint_eq(shape.d_k, 64);
    ck_assert_uint_eq(shape.d_v, 64);
    struct layer_tensors tensors = layer_tensors_describe(&shape, 15U << LAYER_B_Q);
    ck_assert_uint_eq(layer_tensors_count(&tensors), 0);
}
END_TEST

static const struct refusal {
    struct weights_config config;
    size_t d_model;
    const char *pointer; /* NULL: none */
    const char *words[2];
} refusals[] = {
    {{.source = WEIGHTS_SAFETENSORS, .num_heads = 3}, 8, "/num_heads", {"d_model 8", "num_heads 3"}},
    {{.source = WEIGHTS_SAFETENSORS, .num_heads = 4, .num_kv_heads = 3},
     8,
     "/num_kv_heads",
     {"num_heads 4", "num_kv_heads 3"}},
    {{.source = WEIGHTS_SAFETENSORS, .num_heads = 0}, 8, "/num_heads", {"num_heads is 0", "1"}},
    {{.source = WEIGHTS_SAFETENSORS, .num_heads = 2}, 0, "/d_model", {"d_model is 0", "1"}},
    {{.source = WEIGHTS_SAFETENSORS, .num_heads = 2, .has_scale = true, .scale = 1e39},
     8,
     "/scale",
     {"1e+39", "float32"}},
    {{.source = WEIGHTS_IDENTITY, .num_heads = 3}, 8, "/num_heads", {"8", "3"}},
    {{.source = WEIGHTS_IDENTITY, .num_heads = 4, .num_kv_heads = 2}, 8, "/num_kv_heads", {"4", "2"}},
    {{.source = WEIGHTS_IDENTITY, .num_heads = 4, .d_k = 3}, 8, "/d_k", {"2", "3"}},
    {{.source = WEIGHTS_IDENTITY, .num_heads = 4, .d_v = 5}, 8, "/d_v", {"2", "5"}},
    {{.source = WEIGHTS_NUMPY, .num_heads = 2, .d_k = SIZE_MAX / 2}, 8, NULL, {"9223372036854775807", "memory"}},
    {{.source = WEIGHTS_NUMPY, .num_heads = 1, .d_k = 1, .d_v = SIZE_MAX}, 1, NULL, {"18446744073709551615", "memory"}},
    {{.source = WEIGHTS_NUMPY, .num_heads = SIZE_MAX, .d_k = 1}, 1, NULL, {"18446744073709551615", "memory"}},
    {{.source = WEIGHTS_NUMPY, .num_heads = 1}, (size_t)1 << 31, NULL, {"2147483648", "memory"}},
};

START_TEST(refused)
{
    const struct refusal *refusal = &refusals[_i];
    struct attention_shape shape = {.d_model = 77};
    struct error error;
    ck_assert(!layer_shape_make(&refusal->config, refusal->d_model, &shape, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_int_eq(error.has_pointer, refusal->pointer != NULL);
    if (refusal->pointer)
        ck_assert_str_eq(error.pointer, refusal->pointer);
    for (size_t i = 0; i < 2; i++)
        ck_assert_msg(strstr(error.message, refusal->words[i]) != NULL, "no %s in: %s", refusal->words[i],
                      error.message);
    ck_assert_uint_eq(shape.d_model, 77);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/layer_shape");
    TCase *tcase = tcase_create("make");
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, given);
    tcase_add_test(tcase, d_v_follows_d_k);
    tcase_add_test(tcase, numpy_scale_is_no_scale_of_scores);
    tcase_add_test(tcase, identity);
    tcase_add_loop_test(tcase, refused, 0, sizeof refusals / sizeof *refusals);
    suite_add_tcase(suite, tcase);
    return suite;
}
