/* Whole matrices of source numpy: their SHA-256 as Python's hashlib has it (golden/weights/make.py). */
#include "suite.h"

#include "golden.h"
#include "weights/layer_shape.h"
#include "weights/numpy_source.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

static size_t size_of(const json_t *one, const char *name)
{
    return (size_t)json_integer_value(json_object_get(one, name));
}

START_TEST(matrices_of_a_seed)
{
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O"};
    json_t *document = golden_load("weights/numpy.json"),
           *one = json_array_get(json_object_get(document, "cases"), (size_t)_i);
    struct weights_config config = {
        .source = WEIGHTS_NUMPY,
        .d_model = size_of(one, "d_model"),
        .num_heads = size_of(one, "num_heads"),
        .num_kv_heads = size_of(one, "num_kv_heads"),
        .d_k = size_of(one, "d_k"),
        .d_v = size_of(one, "d_v"),
        .seed = (uint32_t)size_of(one, "seed"),
        .scale = json_number_value(json_object_get(one, "scale")),
    };
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&config, config.d_model, &shape, &error));
    struct layer_tensors tensors = layer_tensors_describe(&shape, 0);
    ck_assert(layer_tensors_allocate(&tensors, &error));
    ck_assert(numpy_source_fill(&config, &tensors, &error));
    for (size_t m = 0; m < 4; m++) {
        const struct layer_tensor *matrix = &tensors.items[m];
        uint8_t bytes[SHA256_DIGEST_SIZE];
        char text[2 * SHA256_DIGEST_SIZE + 1];
        struct sha256_ctx hash;
        sha256_init(&hash);
        sha256_update(&hash, matrix->rows * matrix->columns * sizeof(float), (const uint8_t *)matrix->data);
        sha256_digest(&hash, sizeof bytes, bytes);
        for (size_t i = 0; i < sizeof bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        ck_assert_str_eq(text, json_string_value(json_object_get(json_object_get(one, "sha256"), names[m])));
    }
    layer_tensors_free(&tensors);
    json_decref(document);
}
END_TEST

/* The prototype's own weights, as the golden case of its forward has them. */
START_TEST(prototype_weights)
{
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O"};
    json_t *document = golden_load("forward/prototype.json");
    const json_t *expected = json_object_get(json_object_get(document, "expect"), "first_weights");
    struct weights_config config = {.source = WEIGHTS_NUMPY, .d_model = 64, .num_heads = 8, .seed = 42, .scale = 0.1};
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&config, 64, &shape, &error));
    struct layer_tensors tensors = layer_tensors_describe(&shape, 0);
    ck_assert(layer_tensors_allocate(&tensors, &error));
    ck_assert(numpy_source_fill(&config, &tensors, &error));
    for (size_t m = 0; m < 4; m++) {
        const json_t *first = json_object_get(expected, names[m]);
        ck_assert_uint_eq(json_array_size(first), 5);
        for (size_t i = 0; i < 5; i++)
            ck_assert_double_eq((double)tensors.items[m].data[i], json_number_value(json_array_get(first, i)));
    }
    layer_tensors_free(&tensors);
    json_decref(document);
}
END_TEST

START_TEST(a_scale_beyond_float32)
{
    struct weights_config config = {.source = WEIGHTS_NUMPY, .d_model = 4, .num_heads = 2, .seed = 1, .scale = 1e39};
    struct attention_shape shape;
    struct error error;
    ck_assert(layer_shape_make(&config, 4, &shape, &error));
    struct layer_tensors tensors = layer_tensors_describe(&shape, 0);
    ck_assert(layer_tensors_allocate(&tensors, &error));
    ck_assert(!numpy_source_fill(&config, &tensors, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_str_eq(error.pointer, "/scale");
    ck_assert_ptr_nonnull(strstr(error.message, "1e+39"));
    layer_tensors_free(&tensors);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/numpy_source");
    TCase *tcase = tcase_create("draws");
    tcase_add_loop_test(tcase, matrices_of_a_seed, 0, 5);
    tcase_add_test(tcase, prototype_weights);
    tcase_add_test(tcase, a_scale_beyond_float32);
    suite_add_tcase(suite, tcase);
    return suite;
}
