/* Whole sets: their digests, against values that Python computed (golden/weights/make.py), and what they say of
 * themselves. */
#include "suite.h"

#include "golden.h"
#include "layer_file.h"
#include "model_file.h"
#include "weights/weight_set.h"

#include <stdlib.h>
#include <string.h>

#define ALL_BIASES (15U << LAYER_B_Q)

static const struct attention_shape grouped = {.d_model = 16, .num_heads = 4, .num_kv_heads = 2, .d_k = 3, .d_v = 5};

static void start(void)
{
    struct error error;
    model_folder_make();
    if (!engine_init(NULL, &error))
        abort();
}

static struct weight_set *load(const struct weights_config *config)
{
    struct error error = {.code = ERROR_NONE};
    struct weight_set *set = weight_set_load(config, &error);
    ck_assert_msg(set != NULL, "%s", error.message);
    return set;
}

static size_t size_of(const json_t *one, const char *name)
{
    return (size_t)json_integer_value(json_object_get(one, name));
}

START_TEST(numpy_digest)
{
    json_t *document = golden_load("weights/numpy.json"),
           *one = json_array_get(json_object_get(document, "cases"), (size_t)_i);
    char name[] = "drawn";
    struct weights_config config = {
        .name = name,
        .source = WEIGHTS_NUMPY,
        .d_model = size_of(one, "d_model"),
        .num_heads = size_of(one, "num_heads"),
        .num_kv_heads = size_of(one, "num_kv_heads"),
        .d_k = size_of(one, "d_k"),
        .d_v = size_of(one, "d_v"),
        .seed = (uint32_t)size_of(one, "seed"),
        .scale = json_number_value(json_object_get(one, "scale")),
    };
    struct weight_set *set = load(&config);
    ck_assert_str_eq(set->digest, json_string_value(json_object_get(one, "digest")));
    ck_assert_str_eq(set->name, "drawn");
    ck_assert_str_eq(set->source, "numpy");
    ck_assert(set->ready);
    ck_assert(!set->bias);
    ck_assert_ptr_null(set->failure);
    ck_assert_uint_eq(set->num_layers, 1);
    ck_assert_uint_eq(set->parameters,
                      config.d_model * (config.num_heads * config.d_k + config.num_kv_heads * config.d_k +
                                        config.num_kv_heads * config.d_v + config.num_heads * config.d_v));
    ck_assert_uint_eq(attention_layer_shape(set->layers[0])->d_model, config.d_model);
    weight_set_free(set);
    json_decref(document);
}
END_TEST

START_TEST(identity)
{
    json_t *document = golden_load("weights/numpy.json");
    char name[] = "plain";
    struct weights_config config = {.name = name, .source = WEIGHTS_IDENTITY, .d_model = 512, .num_heads = 8};
    struct weight_set *set = load(&config);
    ck_assert_str_eq(set->digest, json_string_value(json_object_get(document, "identity_512_8")));
    ck_assert_str_eq(set->source, "identity");
    ck_assert_uint_eq(set->parameters, 0);
    ck_assert(!set->shape.projected);
    ck_assert_uint_eq(set->shape.d_k, 64);
    char digest[WEIGHT_SET_DIGEST_BYTES];
    strcpy(digest, set->digest);
    weight_set_free(set);
    config.num_heads = 16;
    set = load(&config);
    ck_assert_str_ne(set->digest, digest);
    weight_set_free(set);
    json_decref(document);
}
END_TEST

static void digest_of(const struct made_layer *layer, const struct layer_form *form,
                      char digest[WEIGHT_SET_DIGEST_BYTES])
{
    struct weights_config config;
    layer_write(layer, form, "digest.safetensors", &config);
    struct weight_set *set = load(&config);
    strcpy(digest, set->digest);
    weight_set_free(set);
    layer_config_free(&config);
}

static const struct layer_form forms[] = {
    {"F32", LAYOUT_IN_OUT, false, false, false}, {"F64", LAYOUT_OUT_IN, false, false, false},
    {"F16", LAYOUT_IN_OUT, true, true, false},   {"BF16", LAYOUT_OUT_IN, true, true, false},
    {"F32", LAYOUT_IN_OUT, false, false, true},  {"F64", LAYOUT_OUT_IN, false, true, true},
};

START_TEST(one_digest_for_all_forms)
{
    char digest[WEIGHT_SET_DIGEST_BYTES], other[WEIGHT_SET_DIGEST_BYTES];
    struct made_layer layer = layer_make(&grouped, ALL_BIASES, 8);
    digest_of(&layer, &forms[0], digest);
    ck_assert_uint_eq(strlen(digest), 64);
    for (size_t i = 1; i < sizeof forms / sizeof *forms; i++) {
        digest_of(&layer, &forms[i], other);
        ck_assert_str_eq(other, digest);
    }
    layer_free(&layer);
}
END_TEST

START_TEST(other_weights_have_another)
{
    char digests[7][WEIGHT_SET_DIGEST_BYTES];
    struct weights_config config;
    struct made_layer layer = layer_make(&grouped, ALL_BIASES, 8);
    digest_of(&layer, &forms[0], digests[0]);
    layer.items[LAYER_W_O][79] += 0.5;
    digest_of(&layer, &forms[0], digests[1]);
    layer.items[LAYER_W_O][79] -= 0.5;
    layer.items[LAYER_B_O][0] += 0.5;
    digest_of(&layer, &forms[0], digests[2]);
    layer.items[LAYER_B_O][0] -= 0.5;

    layer_write(&layer, &forms[0], "digest.safetensors", &config);
    config.has_scale = true;
    config.scale = 0.75;
    struct weight_set *set = load(&config);
    ck_assert_float_eq(set->shape.scale, 0.75F);
    strcpy(digests[3], set->digest);
    weight_set_free(set);
    /* The bias that is left out is all zeros in the other: it may still not be the same set. */
    config.has_scale = false;
    free(config.tensors[TENSOR_B_K]);
    config.tensors[TENSOR_B_K] = NULL;
    set = load(&config);
    strcpy(digests[4], set->digest);
    weight_set_free(set);
    layer_config_free(&config);
    memset(layer.items[LAYER_B_K], 0, 6 * sizeof(double));
    digest_of(&layer, &forms[0], digests[5]);
    layer_free(&layer);

    /* The same numbers, cut into twice as many heads. */
    const struct attention_shape few = {.d_model = 16, .num_heads = 2, .num_kv_heads = 2, .d_k = 4, .d_v = 4};
    layer = layer_make(&few, 0, 1);
    digest_of(&layer, &forms[0], digests[6]);
    layer.shape.num_heads = layer.shape.num_kv_heads = 4;
    layer.shape.d_k = layer.shape.d_v = 2;
    char cut[WEIGHT_SET_DIGEST_BYTES];
    digest_of(&layer, &forms[0], cut);
    ck_assert_str_ne(cut, digests[6]);
    layer_free(&layer);
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(digests[i], digests[j]);
}
END_TEST

START_TEST(what_it_says_of_itself)
{
    struct weights_config config;
    struct made_layer layer = layer_make(&grouped, 2U << LAYER_B_Q, 8);
    struct timespec before, after;
    layer_write(&layer, &forms[0], "model.safetensors", &config);
    clock_gettime(CLOCK_REALTIME, &before);
    struct weight_set *set = load(&config);
    clock_gettime(CLOCK_REALTIME, &after);
    ck_assert_str_eq(set->source, "safetensors:model.safetensors");
    ck_assert(set->bias);
    ck_assert_uint_eq(set->parameters, 16 * 12 + 16 * 6 + 16 * 10 + 20 * 16 + 6);
    ck_assert_int_ge(set->loaded_at.tv_sec, before.tv_sec);
    ck_assert_int_le(set->loaded_at.tv_sec, after.tv_sec);
    weight_set_free(set);
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

START_TEST(failed)
{
    char name[] = "optional", path[] = "/secret/nowhere.safetensors";
    struct weights_config config = {.name = name, .source = WEIGHTS_SAFETENSORS, .path = path};
    struct weight_set *set = weight_set_failed(&config, "why");
    ck_assert_ptr_nonnull(set);
    ck_assert(!set->ready);
    ck_assert_str_eq(set->failure, "why");
    ck_assert_str_eq(set->name, "optional");
    ck_assert_str_eq(set->source, "safetensors:nowhere.safetensors");
    ck_assert_uint_eq(set->num_layers, 0);
    weight_set_free(set);
    weight_set_free(NULL);
    /* Names of files are bytes; answers are UTF-8. */
    char bytes[] = "/secret/\xC3\xA9\xFF.safetensors";
    config.path = bytes;
    set = weight_set_failed(&config, "of \xC3\xA9 and \xC3");
    ck_assert_ptr_nonnull(set);
    ck_assert_str_eq(set->source, "safetensors:\xC3\xA9?.safetensors");
    ck_assert_str_eq(set->failure, "of \xC3\xA9 and ?");
    weight_set_free(set);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/weight_set");
    TCase *tcase = tcase_create("sets");
    tcase_add_unchecked_fixture(tcase, start, model_folder_remove);
    tcase_add_loop_test(tcase, numpy_digest, 0, 5);
    tcase_add_test(tcase, identity);
    tcase_add_test(tcase, one_digest_for_all_forms);
    tcase_add_test(tcase, other_weights_have_another);
    tcase_add_test(tcase, what_it_says_of_itself);
    tcase_add_test(tcase, failed);
    suite_add_tcase(suite, tcase);
    return suite;
}
