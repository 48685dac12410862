/* Sets of many layers, as a configuration has them: what is loaded, what they say of themselves, rules of the set and
 * of its layers, what digests tell apart, and faults with their places. */
#include "suite.h"

#include "golden_model.h"
#include "golden_tensors.h"
#include "model_file.h"
#include "weights/model_digest.h"
#include "weights/model_load.h"
#include "weights/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    struct error error;
    model_folder_make();
    if (!engine_init(NULL, &error))
        abort();
}

/* Two layers of a bare attention, and tensors that rules can name. */
static void write_file(void)
{
    static char names[8][8];
    struct file_tensor tensors[16];
    size_t count = 0;
    for (int layer = 0; layer < 2; layer++)
        for (int i = 0; i < 4; i++) {
            snprintf(names[layer * 4 + i], sizeof names[0], "%c%d", "qkvo"[i], layer);
            tensors[count++] = (struct file_tensor){names[layer * 4 + i], "F32", 2, {4, 4}, NULL};
        }
    tensors[count++] = (struct file_tensor){"R", "F16", 2, {5, 2}, NULL};
    tensors[count++] = (struct file_tensor){"R2", "F32", 2, {3, 2}, NULL};
    tensors[count++] = (struct file_tensor){"odd", "F32", 2, {3, 3}, NULL};
    tensors[count++] = (struct file_tensor){"head", "F32", 1, {4}, NULL};
    struct model_file file = model_file_compose(tensors, count);
    model_folder_write_file("two.safetensors", &file);
    model_file_free(&file);
}

#define TENSORS "\"tensors\":{\"W_Q\":\"q{layer}\",\"W_K\":\"k{layer}\",\"W_V\":\"v{layer}\",\"W_O\":\"o{layer}\"}"
#define BLOCKS  "\"source\":\"blocks\",\"path\":\"two.safetensors\",\"num_heads\":2,\"num_layers\":2"
#define PLAIN   BLOCKS ",\"layer\":{" TENSORS "}"

static struct config config;
static struct weights_registry registry;
static struct faults faults, warnings;

static void release(void)
{
    registry_free(&registry);
    faults_free(&faults);
    faults_free(&warnings);
    config_free(&config);
}

/* Loads a set of these members, which stand on line 2. True without a fault. */
static bool load(const char *members)
{
    char text[4096];
    release();
    const int length = snprintf(text, sizeof text, "{\"weights\":[\n{\"name\":\"set\",%s}\n]}\n", members);
    write_file();
    model_folder_write("attnd.json", text, (size_t)length);
    char *path = model_folder_path("attnd.json");
    static const char *const environment[] = {NULL};
    const struct config_flags flags = {.file = path};
    const bool right = config_load(&flags, environment, &config, &faults, &warnings) &&
                       registry_load(&config, &registry, &faults, &warnings);
    free(path);
    return right;
}

static const struct weight_set *loaded(const char *members)
{
    if (!load(members)) {
        char *text = faults.count ? fault_text(&faults.items[0]) : NULL;
        ck_abort_msg("%s: %s", members, text ? text : "no fault");
    }
    return registry.sets[0];
}

static void digest_of(const char *members, char digest[WEIGHT_SET_DIGEST_BYTES])
{
    strcpy(digest, loaded(members)->digest);
}

START_TEST(blocks)
{
    const struct weight_set *set = loaded(PLAIN);
    ck_assert(set->ready && set->model && !set->layers && !set->bias);
    ck_assert_uint_eq(set->num_layers, 2);
    ck_assert_uint_eq(set->shape.d_model, 4);
    ck_assert_uint_eq(set->parameters, 2 * 4 * 16);
    ck_assert_str_eq(set->source, "blocks:two.safetensors");
    ck_assert_ptr_eq(weight_set_model(set), model_shape_of(set->model));
    ck_assert_ptr_null(weight_set_layer(set, NULL));
    ck_assert_ptr_null(set->rules.defaults.rules);
    ck_assert_str_eq(set->unused, "R, R2, head, odd");
}
END_TEST

/* The folder of each model type, by the path that a user gives. */
START_TEST(folders)
{
    static const char *const names[] = {"bert", "gpt2", "llama", "mistral", "qwen2", "t5", "vit", "esm"};
    const char *name = names[_i];
    char *path = golden_model_path(name), members[512], source[64];
    snprintf(members, sizeof members, "\"source\":\"huggingface\",\"path\":\"%s/\"", path);
    const struct weight_set *set = loaded(members);
    snprintf(source, sizeof source, "huggingface:%s", name);
    ck_assert_str_eq(set->source, source);
    ck_assert_uint_eq(set->num_layers, strcmp(name, "gpt2") == 0 ? 3 : 2);
    ck_assert(weight_set_model(set)->embeddings.present);
    const bool causal = strcmp(name, "gpt2") == 0 || strcmp(name, "llama") == 0 || strcmp(name, "mistral") == 0 ||
                        strcmp(name, "qwen2") == 0;
    ck_assert_int_eq(set->rules.defaults.causal, causal);
    const enum position_kind position =
        strcmp(name, "t5") == 0                                                              ? POSITION_T5
        : strcmp(name, "bert") == 0 || strcmp(name, "gpt2") == 0 || strcmp(name, "vit") == 0 ? POSITION_NONE
                                                                                             : POSITION_ROPE;
    ck_assert_int_eq(set->rules.rules.position.kind, position);
    if (position == POSITION_T5) {
        ck_assert_uint_eq(set->rules.tensors.count, 1);
        ck_assert_ptr_eq(set->rules.tensors.items[0].numbers, set->rules.rules.position.table);
        ck_assert_uint_eq(set->rules.tensors.items[0].count, set->rules.rules.position.table_rows * 4);
    }
    if (strcmp(name, "bert") == 0)
        ck_assert_ptr_nonnull(strstr(set->unused, "pooler.dense.weight"));
    free(path);
}
END_TEST

static const struct {
    const char *members;
    enum pattern_kind patterns[2];
    enum position_kind positions[2];
} OWN[] = {
    {PLAIN, {PATTERN_FULL, PATTERN_FULL}, {POSITION_NONE, POSITION_NONE}},
    {BLOCKS ",\"layer\":{" TENSORS ",\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":0,\"global\":[0,3]}}",
     {PATTERN_WINDOW, PATTERN_WINDOW},
     {POSITION_NONE, POSITION_NONE}},
    {BLOCKS ",\"layer\":{" TENSORS ",\"position\":{\"kind\":\"alibi\"}},\"layers\":[{},{\"position\":{\"kind\":"
            "\"relative\",\"R\":\"R\"},\"pattern\":{\"kind\":\"block\",\"size\":2}}]",
     {PATTERN_FULL, PATTERN_BLOCK},
     {POSITION_ALIBI, POSITION_RELATIVE}},
    {BLOCKS ",\"layer\":{" TENSORS ",\"position\":{\"kind\":\"alibi\"}},\"layers\":[{\"position\":null},{}]",
     {PATTERN_FULL, PATTERN_FULL},
     {POSITION_NONE, POSITION_ALIBI}},
};

START_TEST(rules_of_layers)
{
    const struct weight_set *set = loaded(OWN[_i].members);
    for (size_t n = 0; n < 2; n++) {
        const struct layer_shape *layer = &weight_set_model(set)->layers[n];
        ck_assert_int_eq(layer->pattern.kind, OWN[_i].patterns[n]);
        ck_assert_int_eq(layer->position.kind, OWN[_i].positions[n]);
        if (layer->pattern.kind == PATTERN_WINDOW) {
            ck_assert_uint_eq(layer->pattern.n_global, 2);
            ck_assert_uint_eq(layer->pattern.global[1], 3);
        }
        if (layer->position.kind == POSITION_RELATIVE) {
            ck_assert_uint_eq(layer->position.table_rows, 5);
            ck_assert(layer->position.table[9] == 0.5f);
            ck_assert_ptr_null(strstr(set->unused, "R,"));
            ck_assert_ptr_nonnull(strstr(set->unused, "R2"));
        }
    }
}
END_TEST

/* A table of the set's own, in a folder and in a file; of a folder it takes the model's place in every layer. */
START_TEST(rules_of_sets)
{
    const struct weight_set *set = loaded(PLAIN ",\"causal\":true,\"position\":{\"kind\":\"relative\",\"R\":\"R2\"},"
                                                "\"keep_heads\":{\"count\":1,\"by\":\"importance\"},"
                                                "\"head_importance\":[[1,2],[4,3]]");
    ck_assert(set->rules.defaults.causal);
    ck_assert_uint_eq(set->rules.defaults.rules->num_layers, 2);
    ck_assert_int_eq(set->rules.defaults.rules->position.kind, POSITION_RELATIVE);
    ck_assert(!set->rules.defaults.rules->position_given);
    struct head_importance *stored = importance_store_hold(set->rules.importance);
    ck_assert_uint_eq(stored->count, 4);
    ck_assert(stored->values[2] == 4);
    head_importance_release(stored);

    char *path = golden_model_path("mistral"), members[512];
    snprintf(members, sizeof members, "\"source\":\"huggingface\",\"path\":\"%s\",\"pattern\":{\"kind\":\"full\"}",
             path);
    set = loaded(members);
    ck_assert_int_eq(weight_set_model(set)->layers[0].pattern.kind, PATTERN_WINDOW);
    ck_assert(set->rules.defaults.rules->pattern_given && !set->rules.defaults.rules->position_given);
    ck_assert_int_eq(set->rules.defaults.rules->position.kind, POSITION_ROPE);
    snprintf(members, sizeof members,
             "\"source\":\"huggingface\",\"path\":\"%s\",\"position\":{\"kind\":\"learned\","
             "\"P\":\"embed_tokens.weight\"}",
             path);
    set = loaded(members);
    ck_assert(set->rules.defaults.rules->position_given);
    ck_assert_uint_eq(set->rules.defaults.rules->position.table_rows, 96);
    free(path);
}
END_TEST

/* Without rules it is the model's own digest; each thing that decides results changes it. */
START_TEST(digests)
{
    static const char *const different[] = {
        PLAIN ",\"causal\":true",
        PLAIN ",\"scale\":2",
        PLAIN ",\"precision\":\"bf16\"",
        PLAIN ",\"position\":{\"kind\":\"alibi\"}",
        PLAIN ",\"position\":{\"kind\":\"relative\",\"R\":\"R\"}",
        PLAIN ",\"layers\":[{\"position\":{\"kind\":\"alibi\"}},{}]",
        PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"alibi\"}}]",
        PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"relative\",\"R\":\"R\"}}]",
        PLAIN ",\"layers\":[{\"causal\":false},{}]",
        PLAIN ",\"layers\":[{\"causal\":true},{}]",
        PLAIN ",\"layers\":[{\"pattern\":{\"kind\":\"block\",\"size\":2}},{}]",
        PLAIN ",\"layers\":[{\"pattern\":{\"kind\":\"block\",\"size\":3}},{}]",
        PLAIN ",\"layers\":[{\"residual\":false},{}]",
        PLAIN ",\"head_importance\":[[1,2],[3,4]]",
    };
    enum { COUNT = sizeof different / sizeof *different };
    char found[COUNT + 1][WEIGHT_SET_DIGEST_BYTES], again[WEIGHT_SET_DIGEST_BYTES];
    for (size_t i = 0; i < COUNT; i++)
        digest_of(different[i], found[i]);
    digest_of(PLAIN, found[COUNT]);
    for (size_t i = 0; i <= COUNT; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_msg(strcmp(found[i], found[j]) != 0, "%zu and %zu have one digest", i, j);
    digest_of(PLAIN ",\"required\":false", again);
    ck_assert_str_eq(again, found[COUNT]);
    digest_of(different[7], again);
    ck_assert_str_eq(again, found[7]);
}
END_TEST

/* Less memory, which is what it says it needs; in so small a model the packing shows. */
START_TEST(in_bfloat16)
{
    struct weight_set_need need;
    struct error error;
    char *path = golden_model_path("mistral"), members[512];
    snprintf(members, sizeof members, "\"source\":\"huggingface\",\"path\":\"%s\"", path);
    const size_t whole = weight_set_bytes(loaded(members));
    ck_assert_str_eq(weight_set_dtype(registry.sets[0]), "f32");
    snprintf(members, sizeof members, "\"source\":\"huggingface\",\"path\":\"%s\",\"precision\":\"bf16\"", path);
    const struct weight_set *set = loaded(members);
    ck_assert_str_eq(weight_set_dtype(set), "bf16");
    ck_assert_uint_lt(weight_set_bytes(set), whole * 65 / 100);
    ck_assert_msg(weight_set_need(&config.weights[0], &need, &error), "%s", error.message);
    ck_assert_uint_eq(need.loaded, weight_set_bytes(set));
    free(path);
}
END_TEST

START_TEST(needs)
{
    struct weight_set_need need;
    struct error error;
    const struct weight_set *set = loaded(PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"relative\",\"R\":\"R\"}}],"
                                                "\"position\":{\"kind\":\"relative\",\"R\":\"R2\"}");
    ck_assert_msg(weight_set_need(&config.weights[0], &need, &error), "%s", error.message);
    ck_assert_uint_eq(need.loaded, model_bytes(set->model) + (5 * 2 + 3 * 2) * sizeof(float));
    ck_assert_uint_gt(need.loading, need.loaded);
    ck_assert_uint_le(need.loading - need.loaded, 17 * 64 * 1024); /* threads at most; the tensors are tiny */
}
END_TEST

/* Of lower rank beside the model itself, in the memory it says; whose rule is part of the digest. */
START_TEST(of_lower_rank)
{
    static const struct attention_rules svd = {.low_rank = {.kind = LOW_RANK_SVD}}, none;
    struct weight_set_need need;
    struct error error;
    char plain[WEIGHT_SET_DIGEST_BYTES], one[WEIGHT_SET_DIGEST_BYTES];
    digest_of(PLAIN, plain);
    digest_of(PLAIN ",\"low_rank\":{\"kind\":\"svd\",\"rank\":1}", one);
    ck_assert_str_ne(one, plain);
    const struct weight_set *set = loaded(PLAIN ",\"low_rank\":{\"kind\":\"svd\",\"rank\":1,\"values\":true}");
    ck_assert_str_ne(set->digest, plain);
    ck_assert_str_ne(set->digest, one);
    ck_assert_ptr_eq(weight_set_model_under(set, NULL), set->model);
    ck_assert_ptr_eq(weight_set_model_under(set, &none), set->model);
    ck_assert_ptr_eq(weight_set_model_under(set, &svd), set->svd_model);
    ck_assert_uint_eq(weight_set_default_shape(set)->d_v, 1);
    ck_assert_uint_eq(set->shape.d_v, 2);
    ck_assert_uint_eq(weight_set_bytes(set), model_bytes(set->model) + model_bytes(set->svd_model));
    ck_assert_msg(weight_set_need(&config.weights[0], &need, &error), "%s", error.message);
    ck_assert_uint_eq(need.loaded, weight_set_bytes(set));
    ck_assert_uint_gt(need.loading, need.loaded);
}
END_TEST

static const struct {
    const char *members, *pointer, *words[3];
} WRONG[] = {
    {BLOCKS ",\"layer\":{" TENSORS ",\"pattern\":{\"kind\":\"window\",\"left\":1}}",
     "/weights/0/layer/pattern",
     {"right", "two.safetensors"}},
    {PLAIN ",\"layers\":[{},{\"pattern\":{\"kind\":\"window\",\"left\":-1,\"right\":0}}]",
     "/weights/0/layers/1/pattern/left",
     {"-1"}},
    {PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"relative\",\"R\":\"none\"}}]",
     "/weights/0/layers/1/position/R",
     {"none", "no tensor"}},
    {PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"relative\",\"R\":\"odd\"}}]",
     "/weights/0/layers/1/position/R",
     {"[3, 3]", "2"}},
    {PLAIN ",\"layers\":[{},{\"position\":{\"kind\":\"rope\",\"dims\":3}}]",
     "/weights/0/layers/1/position/dims",
     {"3"}},
    {PLAIN ",\"layers\":[{\"position\":{\"kind\":\"sinusoidal\"}},{}]",
     "/weights/0/layers/0/position/kind",
     {"sinusoidal", "before the first layer"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"svd\",\"rank\":3}", "/weights/0/low_rank/rank", {"3", "d_k, 2"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"svd\",\"rank\":1},\"position\":{\"kind\":\"rope\"}",
     "/weights/0/low_rank",
     {"svd", "position rope: leave one"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"svd\",\"rank\":1},\"layers\":[{},{\"position\":{\"kind\":\"rope\"}}]",
     "/weights/0/low_rank",
     {"svd", "position rope: leave one"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1},\"layers\":[{},{\"position\":{\"kind\":\"alibi\"}}]",
     "/weights/0/low_rank",
     {"nystrom", "position alibi"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1},\"layers\":[{},{\"causal\":true}]",
     "/weights/0/low_rank",
     {"nystrom", "causal"}},
    {PLAIN ",\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":1},\"layers\":[{},{\"pattern\":{\"kind\":\"block\","
           "\"size\":1}}]",
     "/weights/0/low_rank",
     {"nystrom", "pattern"}},
    {PLAIN ",\"head_importance\":[1,2,3]", "/weights/0/head_importance", {"2"}},
    {PLAIN ",\"layers\":[{}]", "/weights/0/layers", {"1", "num_layers", "2"}},
    {BLOCKS ",\"layer\":{}", "/weights/0/layer", {"tensors"}},
    {BLOCKS ",\"layer\":null", "/weights/0", {"layer"}},
    {"\"source\":\"blocks\",\"path\":\"none.safetensors\",\"num_heads\":2,\"num_layers\":2,\"layer\":{" TENSORS "}",
     "/weights/0",
     {"none.safetensors"}},
    {"\"source\":\"huggingface\",\"path\":\"nowhere\"", "/weights/0/path", {"nowhere", "the folder is"}},
    {"\"source\":\"huggingface\",\"path\":\".\"", "/weights/0/path", {"config.json"}},
};

START_TEST(wrong)
{
    ck_assert_msg(!load(WRONG[_i].members), "%s was accepted", WRONG[_i].members);
    ck_assert_uint_eq(faults.count, 1);
    char *text = fault_text(&faults.items[0]);
    ck_assert_msg(strncmp(faults.items[0].pointer, WRONG[_i].pointer, strlen(WRONG[_i].pointer)) == 0, "%s", text);
    for (size_t i = 0; i < 3 && WRONG[_i].words[i]; i++)
        ck_assert_msg(strstr(text, WRONG[_i].words[i]), "no %s in: %s", WRONG[_i].words[i], text);
    ck_assert_ptr_nonnull(strstr(faults.items[0].where, "attnd.json:2"));
    free(text);
    struct weight_set_need need;
    struct error error;
    ck_assert_uint_eq(config.weights_count, 1);
    /* What head_importance holds is seen when it is read. */
    if (!strstr(WRONG[_i].members, "head_importance"))
        ck_assert(!weight_set_need(&config.weights[0], &need, &error));
}
END_TEST

/* What --model gave: the fault is the flag's. */
START_TEST(wrong_flag)
{
    static const char *const environment[] = {NULL}, *const models[] = {"mine=/nowhere/at/all"};
    const struct config_flags flags = {.models = models, .model_count = 1};
    ck_assert(config_load(&flags, environment, &config, &faults, &warnings));
    ck_assert(!registry_load(&config, &registry, &faults, &warnings));
    ck_assert_uint_eq(faults.count, 1);
    ck_assert_str_eq(faults.items[0].where, "--model");
    ck_assert_ptr_null(faults.items[0].pointer);
    ck_assert_ptr_nonnull(strstr(faults.items[0].message, "\"mine\""));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("model_set");
    TCase *c = tcase_create("model_set");
    tcase_add_unchecked_fixture(c, start, model_folder_remove);
    tcase_add_checked_fixture(c, NULL, release);
    tcase_add_test(c, blocks);
    tcase_add_loop_test(c, folders, 0, 8);
    tcase_add_loop_test(c, rules_of_layers, 0, sizeof OWN / sizeof *OWN);
    tcase_add_test(c, rules_of_sets);
    tcase_add_test(c, digests);
    tcase_add_test(c, in_bfloat16);
    tcase_add_test(c, needs);
    tcase_add_test(c, of_lower_rank);
    tcase_add_loop_test(c, wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, wrong_flag);
    suite_add_tcase(s, c);
    return s;
}
