/* Loading survives the failure of any one allocation: an error that says so, and nothing left behind (the sanitizer
 * build looks for that). */
#include "suite.h"

#include "../fail_alloc.h"
#include "golden_model.h"
#include "layer_file.h"
#include "model_file.h"
#include "weights/blocks_source.h"
#include "weights/huggingface_source.h"
#include "weights/registry.h"

#include <stdio.h>
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

/* Loads with every n-th allocation failing, until none does. */
static size_t load_failing(const struct weights_config *config)
{
    for (size_t n = 1;; n++) {
        struct error error = {.code = ERROR_NONE};
        fail_alloc_at(n);
        struct weight_set *set = weight_set_load(config, &error);
        bool happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert_msg(set || error.code == ERROR_OUT_OF_MEMORY, "at %zu: %s", n, error.message);
        ck_assert(set || error.message[0]);
        if (set)
            ck_assert_msg(!happened, "allocation %zu failed and nobody noticed", n);
        weight_set_free(set);
        if (!happened)
            return n - 1;
        ck_assert_uint_lt(n, 2000);
    }
}

START_TEST(numpy)
{
    char name[] = "demo";
    struct weights_config config = {.name = name, .source = WEIGHTS_NUMPY, .d_model = 16, .num_heads = 4, .scale = 0.1};
    ck_assert_uint_gt(load_failing(&config), 3);
    config.source = WEIGHTS_IDENTITY;
    ck_assert_uint_gt(load_failing(&config), 3);
}
END_TEST

START_TEST(safetensors)
{
    static const struct layer_form forms[] = {{"F16", LAYOUT_OUT_IN, false, false, true},
                                              {"F32", LAYOUT_IN_OUT, true, true, false}};
    struct made_layer layer = layer_make(&grouped, ALL_BIASES, 8);
    struct weights_config config;
    layer_write(&layer, &forms[_i], "allocations.safetensors", &config);
    ck_assert_uint_gt(load_failing(&config), 10);
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

/* Rules with a table that is a tensor of the file, positions, texts and numbers. */
START_TEST(rules)
{
    static const struct layer_form form = {"F32", LAYOUT_IN_OUT, false, false, false};
    struct made_layer layer = layer_make(&grouped, ALL_BIASES, 8);
    struct weights_config config;
    char position[256], pattern[] = "{\"kind\":\"block\",\"size\":2,\"global\":[3,1]}",
                        keep[] = "{\"count\":1,\"by\":\"importance\"}", importance[] = "[1,2,3,4]";
    layer_write(&layer, &form, "rules.safetensors", &config);
    snprintf(position, sizeof position, "{\"kind\":\"learned\",\"P\":\"%s\"}", config.tensors[TENSOR_W_O]);
    config.position = (struct weights_text){position, strlen(position), 1};
    config.pattern = (struct weights_text){pattern, strlen(pattern), 1};
    config.keep_heads = (struct weights_text){keep, strlen(keep), 1};
    config.head_importance = (struct weights_text){importance, strlen(importance), 1};
    ck_assert_uint_gt(load_failing(&config), 20);
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

/* The error itself needs memory for its hint: without it the error stands. */
START_TEST(a_tensor_that_is_missing)
{
    const struct layer_form form = {"F32", LAYOUT_IN_OUT, false, false, false};
    struct made_layer layer = layer_make(&grouped, 0, 8);
    struct weights_config config;
    layer_write(&layer, &form, "allocations.safetensors", &config);
    config.tensors[TENSOR_W_K][0] = 'X';
    bool happened = true;
    for (size_t n = 1; happened; n++) {
        struct error error = {.code = ERROR_NONE};
        fail_alloc_at(n);
        struct weight_set *set = weight_set_load(&config, &error);
        happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert_ptr_null(set);
        ck_assert(error.code == ERROR_OUT_OF_MEMORY ||
                  (error.code == ERROR_INVALID && strstr(error.message, "\"X_K\"")));
        ck_assert_uint_lt(n, 2000);
    }
    layer_config_free(&config);
    layer_free(&layer);
}
END_TEST

/* Small tables that are read, names that nothing uses. Where jansson 2.14 gets no memory for the last byte of a string,
 * it reads on behind it; no name in these files ends where its buffer does (at 2^n - 1 bytes). */
START_TEST(huggingface)
{
    static const char *const models[] = {"t5", "gpt2"};
    char *path = golden_model_path(models[_i]);
    bool happened = true;
    for (size_t n = 1; happened; n++) {
        struct model_source source = {0};
        struct error error = {.code = ERROR_NONE};
        fail_alloc_at(n);
        const bool opened = huggingface_source_open(path, &source, &error);
        happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert_msg(opened != happened, "at %zu", n);
        ck_assert_msg(opened || error.code == ERROR_OUT_OF_MEMORY, "at %zu: %s", n, error.message);
        model_source_free(&source);
        ck_assert_uint_lt(n, 2000);
    }
    free(path);
}
END_TEST

START_TEST(shards)
{
    static const struct file_tensor tensors[] = {{"x", "F32", 1, {2, 0}, NULL}, {"y", "F32", 1, {2, 0}, NULL}};
    static const char index[] = "{\"weight_map\": {\"y\": \"b.safetensors\", \"x\": \"a.safetensors\"}}";
    for (size_t i = 0; i < 2; i++) {
        struct model_file file = model_file_compose(&tensors[i], 1);
        model_folder_write_file(i ? "b.safetensors" : "a.safetensors", &file);
        model_file_free(&file);
    }
    model_folder_write("model.safetensors.index.json", index, sizeof index - 1);
    char *path = model_folder_path(".");
    bool happened = true;
    for (size_t n = 1; happened; n++) {
        struct model_files files = {0};
        struct error error = {.code = ERROR_NONE};
        fail_alloc_at(n);
        const bool opened = model_files_open_folder(path, &files, &error);
        happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert_msg(opened != happened, "at %zu", n);
        ck_assert_msg(opened || error.code == ERROR_OUT_OF_MEMORY, "at %zu: %s", n, error.message);
        model_files_close(&files);
        ck_assert_uint_lt(n, 2000);
    }
    free(path);
}
END_TEST

START_TEST(blocks)
{
    char layer[] = "{\"tensors\": {\"W_Q\": \"W_Q{head}\", \"W_K\": \"W_K\", \"W_V\": \"W_V\", \"W_O\": \"W_O\"}, "
                   "\"norm1\": {\"kind\": \"rms_norm\", \"gain\": \"g\"}}",
         embeddings[] = "{\"token\": \"W_K\"}";
    static const struct file_tensor tensors[] = {{"W_Q0", "F32", 2, {4, 2}, NULL},  {"W_Q1", "F32", 2, {4, 2}, NULL},
                                                 {"W_K", "F32", 2, {4, 4}, NULL},   {"W_V", "F32", 2, {4, 4}, NULL},
                                                 {"W_O", "F32", 2, {4, 4}, NULL},   {"g", "F32", 1, {4, 0}, NULL},
                                                 {"unused", "F32", 1, {4, 0}, NULL}};
    struct model_file file = model_file_compose(tensors, 7);
    model_folder_write_file("blocks.safetensors", &file);
    model_file_free(&file);
    const struct weights_config entry = {
        .source = WEIGHTS_SAFETENSORS, .path = model_folder_path("blocks.safetensors"), .num_heads = 2};
    const struct blocks_config config = {.entry = &entry,
                                         .num_layers = 2,
                                         .layer = {layer, sizeof layer - 1, 1},
                                         .embeddings = {embeddings, sizeof embeddings - 1, 1}};
    bool happened = true;
    for (size_t n = 1; happened; n++) {
        struct model_source source = {0};
        struct error error = {.code = ERROR_NONE};
        fail_alloc_at(n);
        const bool opened = blocks_source_open(&config, NULL, &source, &error);
        happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert_msg(opened != happened, "at %zu: %s", n, error.message);
        ck_assert_msg(opened || error.code == ERROR_OUT_OF_MEMORY, "at %zu: %s", n, error.message);
        model_source_free(&source);
        ck_assert_uint_lt(n, 2000);
    }
    free(entry.path);
}
END_TEST

/* Whole sets of many layers, with rules of the set and of a layer, tables and all. */
START_TEST(models)
{
    static const struct file_tensor tensors[] = {{"q", "F32", 2, {4, 4}, NULL}, {"k", "F32", 2, {4, 4}, NULL},
                                                 {"v", "F32", 2, {4, 4}, NULL}, {"o", "F32", 2, {4, 4}, NULL},
                                                 {"R", "F32", 2, {3, 2}, NULL}, {"unused", "F32", 1, {4, 0}, NULL}};
    char name[] = "set",
         layer[] = "{\"tensors\":{\"W_Q\":\"q\",\"W_K\":\"k\",\"W_V\":\"v\",\"W_O\":\"o\"},"
                   "\"pattern\":{\"kind\":\"block\",\"size\":2,\"global\":[1]}}",
         layers[] = "[{},{\"position\":{\"kind\":\"relative\",\"R\":\"R\"}}]",
         position[] = "{\"kind\":\"relative\",\"R\":\"R\"}";
    struct model_file file = model_file_compose(tensors, 6);
    model_folder_write_file("set.safetensors", &file);
    model_file_free(&file);
    struct weights_config config = {.name = name,
                                    .source = WEIGHTS_BLOCKS,
                                    .path = model_folder_path("set.safetensors"),
                                    .num_heads = 2,
                                    .num_layers = 2,
                                    .layer = {layer, sizeof layer - 1, 1},
                                    .layers = {layers, sizeof layers - 1, 1},
                                    .position = {position, sizeof position - 1, 1}};
    const size_t count = load_failing(&config);
    ck_assert_uint_gt(count, 40);
    char svd[] = "{\"kind\":\"svd\",\"rank\":1}";
    config.low_rank = (struct weights_text){svd, sizeof svd - 1, 1};
    ck_assert_uint_gt(load_failing(&config), count + 5);
    free(config.path);
    config = (struct weights_config){.name = name, .source = WEIGHTS_HUGGINGFACE, .path = golden_model_path("t5")};
    ck_assert_uint_gt(load_failing(&config), 40);
    free(config.path);
}
END_TEST

START_TEST(all_sets)
{
    char demo[] = "demo", plain[] = "plain", file[] = "attnd.json";
    struct weights_config sets[] = {
        {.name = demo, .source = WEIGHTS_NUMPY, .required = true, .d_model = 16, .num_heads = 4, .scale = 0.1},
        {.name = plain, .source = WEIGHTS_IDENTITY, .d_model = 16, .num_heads = 4},
    };
    struct config config = {.file = file, .weights = sets, .weights_count = 2};
    bool happened = true;
    for (size_t n = 1; happened; n++) {
        struct weights_registry registry;
        struct faults faults = {0}, warnings = {0};
        struct error error;
        fail_alloc_at(n);
        bool loaded = registry_load(&config, &registry, &faults, &warnings);
        bool found = registry_find(&registry, "nobody", &error) != NULL;
        happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert(!found);
        ck_assert(error.code == ERROR_UNKNOWN_WEIGHTS || error.code == ERROR_OUT_OF_MEMORY);
        ck_assert_msg(loaded || faults.count || faults.out_of_memory, "at %zu: no fault", n);
        registry_free(&registry);
        faults_free(&faults);
        faults_free(&warnings);
        ck_assert_uint_lt(n, 2000);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/allocations");
    TCase *tcase = tcase_create("every allocation");
    tcase_add_unchecked_fixture(tcase, start, model_folder_remove);
    tcase_add_test(tcase, numpy);
    tcase_add_loop_test(tcase, safetensors, 0, 2);
    tcase_add_test(tcase, rules);
    tcase_add_test(tcase, a_tensor_that_is_missing);
    tcase_add_loop_test(tcase, huggingface, 0, 2);
    tcase_add_test(tcase, shards);
    tcase_add_test(tcase, blocks);
    tcase_add_test(tcase, models);
    tcase_add_test(tcase, all_sets);
    suite_add_tcase(suite, tcase);
    return suite;
}
