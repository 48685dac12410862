/* What the entries of a configuration file say of rules: what sets then do, where faults are, and what digests tell
 * apart. */
#include "suite.h"

#include "model_file.h"
#include "weights/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    struct error error;
    model_folder_make();
    if (!engine_init(NULL, &error))
        abort();
    const struct file_tensor tensors[] = {
        {"q", "F32", 2, {4, 4}, NULL},
        {"k", "F32", 2, {4, 4}, NULL},
        {"v", "F32", 2, {4, 4}, NULL},
        {"o", "F32", 2, {4, 4}, NULL},
        {"P", "F16", 2, {9, 4}, NULL},
        {"R", "BF16", 2, {6, 2}, (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {"odd", "F32", 2, {5, 2}, NULL},
        {"E", "F64", 2, {3, 7}, NULL},
        {"flat", "F32", 1, {4}, NULL},
        {"whole", "I32", 2, {9, 4}, NULL},
        {"bad", "F64", 2, {9, 4}, (const double[36]){[7] = 1e300}},
    };
    struct model_file file = model_file_compose(tensors, sizeof tensors / sizeof *tensors);
    model_folder_write_file("rules.safetensors", &file);
    model_file_free(&file);
}

#define NUMPY "\"source\":\"numpy\",\"d_model\":8,\"num_heads\":2"
#define FILE_SET                                                                 \
    "\"source\":\"safetensors\",\"path\":\"rules.safetensors\",\"num_heads\":2," \
    "\"tensors\":{\"W_Q\":\"q\",\"W_K\":\"k\",\"W_V\":\"v\",\"W_O\":\"o\"}"

static struct config config;
static struct weights_registry registry;
static struct faults faults, warnings;

/* Loads a file whose entries are these, each on a line of its own from line 2 on. True without a fault. */
static bool load(const char *entries)
{
    char text[4096];
    const int length = snprintf(text, sizeof text, "{\"weights\":[\n%s\n]}\n", entries);
    model_folder_write("attnd.json", text, (size_t)length);
    char *path = model_folder_path("attnd.json");
    static const char *const environment[] = {NULL};
    const struct config_flags flags = {.file = path};
    registry = (struct weights_registry){0};
    const bool right = config_load(&flags, environment, &config, &faults, &warnings) &&
                       registry_load(&config, &registry, &faults, &warnings);
    free(path);
    return right;
}

static void unload(void)
{
    registry_free(&registry);
    config_free(&config);
    faults_free(&faults);
    faults_free(&warnings);
}

static void load_right(const char *entries)
{
    ck_assert_msg(load(entries), "%s: %s", faults.count ? faults.items[0].pointer : "",
                  faults.count ? faults.items[0].message : "");
}

START_TEST(nothing)
{
    load_right("{\"name\":\"a\"," NUMPY "},{\"name\":\"b\"," NUMPY ",\"causal\":false,\"position\":null},"
               "{\"name\":\"c\"," NUMPY ",\"position\":{\"kind\":\"none\"},\"pattern\":{\"kind\":\"full\"}}");
    for (size_t i = 0; i < 3; i++) {
        const struct set_rules *rules = &registry.sets[i]->rules;
        ck_assert(!rules->defaults.rules && !rules->defaults.causal && set_rules_are_plain(rules));
        ck_assert_str_eq(registry.sets[i]->digest, registry.sets[0]->digest);
    }
    unload();
}
END_TEST

START_TEST(rules_of_numbers)
{
    load_right("{\"name\":\"a\"," NUMPY ",\"causal\":true,\n \"pattern\":{\"kind\":\"window\",\"left\":2,\"right\":0,"
               "\"global\":[5,1]},\"position\":{\"kind\":\"rope\",\"dims\":2},\"dropout\":{\"rate\":0.5}}");
    const struct set_rules *rules = &registry.sets[0]->rules;
    const struct attention_rules *r = rules->defaults.rules;
    ck_assert_ptr_nonnull(r);
    ck_assert(rules->defaults.causal && r->num_layers == 1 && r->layer == 0);
    ck_assert(r->pattern.kind == PATTERN_WINDOW && r->pattern.left == 2 && r->pattern.n_global == 2 &&
              r->pattern.global[0] == 1 && r->pattern.global[1] == 5);
    ck_assert(r->position.kind == POSITION_ROPE && r->position.dims == 2 && r->dropout.rate == 0.5 &&
              r->dropout.samples == 32);
    ck_assert_str_eq(rules->texts[RULE_POSITION_INDEX], "{\"kind\":\"rope\",\"dims\":2}");
    ck_assert_ptr_null(rules->texts[RULE_LOW_RANK_INDEX]);
    unload();
}
END_TEST

START_TEST(rules_of_tensors)
{
    load_right("{\"name\":\"a\"," FILE_SET ",\"position\":{\"kind\":\"learned\",\"P\":\"P\",\"offset\":3}},\n"
               "{\"name\":\"b\"," FILE_SET ",\"position\":{\"kind\":\"t5\",\"R\":\"R\",\"max_distance\":9}},\n"
               "{\"name\":\"c\"," FILE_SET ",\"low_rank\":{\"kind\":\"linformer\",\"E\":\"E\",\"F\":\"E\"}}");
    const struct position_rule *p = &registry.sets[0]->rules.defaults.rules->position;
    ck_assert(p->table_rows == 9 && p->offset == 3 && p->table[35] == 0.5f);
    p = &registry.sets[1]->rules.defaults.rules->position;
    ck_assert(p->table_rows == 6 && p->max_distance == 9 && p->table[0] == 1 && p->table[11] == 12);
    const struct low_rank_rule *l = &registry.sets[2]->rules.defaults.rules->low_rank;
    ck_assert(l->projected_keys == 3 && l->e_columns == 7 && l->f_columns == 7 && l->e[20] == 0.5f && l->e != l->f);
    struct weight_set_need plain, tables;
    struct error error;
    ck_assert(weight_set_need(&config.weights[0], &tables, &error));
    char *text = config.weights[0].position.text;
    config.weights[0].position.text = NULL;
    ck_assert(weight_set_need(&config.weights[0], &plain, &error));
    config.weights[0].position.text = text;
    ck_assert_uint_eq(tables.loaded - plain.loaded, 9 * 4 * sizeof(float));
    unload();
}
END_TEST

static double stored(size_t set, size_t head)
{
    struct head_importance *importance = importance_store_hold(registry.sets[set]->rules.importance);
    const double value = importance ? importance->values[head] : -1;
    head_importance_release(importance);
    return value;
}

START_TEST(importance)
{
    load_right("{\"name\":\"a\"," NUMPY ",\"head_importance\":[0.25,3]},{\"name\":\"b\"," NUMPY
               ",\"head_importance\":[[1,0]]},{\"name\":\"c\"," NUMPY
               ",\"keep_heads\":{\"count\":1,\"by\":\"importance\"}}");
    ck_assert(stored(0, 0) == 0.25 && stored(0, 1) == 3 && stored(1, 0) == 1 && stored(2, 0) == -1);
    ck_assert(!importance_store_is_posted(registry.sets[0]->rules.importance));
    ck_assert(importance_store_put(registry.sets[2]->rules.importance, (const double[]){7, 8}, 2, true));
    ck_assert(stored(2, 1) == 8 && importance_store_is_posted(registry.sets[2]->rules.importance));
    struct head_importance *now = importance_store_hold(registry.sets[2]->rules.importance);
    ck_assert(now->rules.keep_heads.by == KEEP_BY_IMPORTANCE && now->rules.keep_heads.importance == now->values);
    ck_assert(importance_store_put(registry.sets[2]->rules.importance, (const double[]){9, 9}, 2, true));
    ck_assert(now->values[0] == 7 && stored(2, 0) == 9); /* what was held stays as it was */
    head_importance_release(now);
    unload();
}
END_TEST

static bool take(void *context, size_t bytes, struct error *error)
{
    (void)context;
    (void)bytes;
    (void)error;
    return true;
}

static void give(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
}

static void tried(void *context, const char *name, bool succeeded)
{
    (void)context;
    (void)name;
    (void)succeeded;
}

/* A reload keeps a set that came out the same, but not numbers that were put into it. */
START_TEST(reload)
{
    struct weights_registry again;
    struct registry_reload options = {.take = take, .give = give, .tried = tried};
    load_right("{\"name\":\"a\"," NUMPY ",\"head_importance\":[1,2]},{\"name\":\"b\"," NUMPY "}");
    ck_assert(registry_reload(&config, &registry, &options, &again, &faults, &warnings));
    ck_assert(again.sets[0] == registry.sets[0] && again.sets[1] == registry.sets[1]);
    registry_free(&again);
    ck_assert(importance_store_put(registry.sets[0]->rules.importance, (const double[]){5, 5}, 2, true));
    ck_assert(registry_reload(&config, &registry, &options, &again, &faults, &warnings));
    ck_assert(again.sets[0] != registry.sets[0] && again.sets[1] == registry.sets[1]);
    registry_free(&registry);
    registry = again;
    ck_assert(stored(0, 0) == 1);
    unload();
}
END_TEST

/* Each differs from all others. */
START_TEST(digests)
{
    static const char *const members[] = {"",
                                          ",\"causal\":true",
                                          ",\"position\":{\"kind\":\"rope\"}",
                                          ",\"position\":{\"kind\":\"rope\",\"base\":100}",
                                          ",\"position\":{\"kind\":\"alibi\"}",
                                          ",\"pattern\":{\"kind\":\"window\",\"left\":1,\"right\":0}",
                                          ",\"pattern\":{\"kind\":\"window\",\"left\":0,\"right\":1}",
                                          ",\"pattern\":{\"kind\":\"window\",\"left\":0,\"right\":1,\"global\":[1]}",
                                          ",\"pattern\":{\"kind\":\"top_k\",\"k\":2}",
                                          ",\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":2}",
                                          ",\"keep_heads\":{\"count\":1}",
                                          ",\"keep_heads\":{\"mass\":0.5}",
                                          ",\"dropout\":{\"rate\":0.5}",
                                          ",\"dropout\":{\"rate\":0.5,\"seed\":1}",
                                          ",\"head_importance\":[1,2]",
                                          ",\"head_importance\":[2,1]"};
    enum { COUNT = sizeof members / sizeof *members };
    char entries[4096];
    size_t at = 0;
    for (size_t i = 0; i < COUNT; i++)
        at += (size_t)snprintf(entries + at, sizeof entries - at, "%s{\"name\":\"s%zu\"," NUMPY "%s}", i ? "," : "", i,
                               members[i]);
    load_right(entries);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_msg(strcmp(registry.sets[i]->digest, registry.sets[j]->digest) != 0, "%s and %s", members[i],
                          members[j]);
    unload();
}
END_TEST

static const struct {
    const char *entry; /* the set begins on line 2 */
    const char *pointer, *words;
    size_t line;
} WRONG[] = {
    {NUMPY ",\n\"pattern\":{\"kind\":\"window\",\n\"left\":-1,\"right\":0}", "/weights/0/pattern/left", "-1", 4},
    {NUMPY ",\n\n\"pattern\":{\"kind\":\"window\",\"left\":1}", "/weights/0/pattern", "right", 4},
    {NUMPY ",\"pattern\":{\"kind\":\"windw\"}", "/weights/0/pattern/kind", "window", 2},
    {NUMPY ",\"pattern\":[]", "/weights/0/pattern", "an object", 2},
    {NUMPY ",\"head_importance\":{}", "/weights/0/head_importance", "an array", 2},
    {NUMPY ",\"head_importance\":null", "/weights/0/head_importance", "an array", 2},
    {NUMPY ",\"head_importance\":[1]", "/weights/0/head_importance", "1 numbers, expected 2", 2},
    {NUMPY ",\"head_importance\":[1,-2]", "/weights/0/head_importance/1", "-2", 2},
    {NUMPY ",\"head_importance\":[[1,2],[3,4]]", "/weights/0/head_importance/1", "more lists", 2},
    {NUMPY ",\"causal\":1", "/weights/0/causal", "true", 2},
    {NUMPY ",\"compare\":\"full\"", "/weights/0/compare", "unknown key", 2},
    {NUMPY ",\"position\":{\"kind\":\"rope\",\"dims\":3}", "/weights/0/position/dims", "even", 2},
    {NUMPY ",\"position\":{\"kind\":\"learned\",\"P\":\"P\"}", "/weights/0/position/P", "no file", 2},
    {NUMPY ",\"position\":{\"kind\":\"learned\",\"P\":[[1]]}", "/weights/0/position/P", "name of a tensor", 2},
    {NUMPY ",\"keep_heads\":{\"count\":3}", "/weights/0/keep_heads/count", "1 to 2", 2},
    {NUMPY ",\"low_rank\":{\"kind\":\"svd\",\"rank\":5}", "/weights/0/low_rank/rank", "d_k, 4", 2},
    {NUMPY ",\"low_rank\":{\"kind\":\"svd\",\"rank\":2},\"position\":{\"kind\":\"rope\"}", "/weights/0/low_rank",
     "svd does not go with position rope", 2},
    {NUMPY ",\"low_rank\":{\"kind\":\"nystrom\",\"landmarks\":2},\"causal\":true", "/weights/0/low_rank",
     "nystrom does not go with causal", 2},
    {"\"source\":\"identity\",\"d_model\":8,\"num_heads\":2,\"low_rank\":{\"kind\":\"svd\",\"rank\":2}",
     "/weights/0/low_rank/kind", "none", 2},
    {FILE_SET ",\"position\":{\"kind\":\"learned\",\n\"P\":\"p\"}", "/weights/0/position/P", "no tensor \"p\"", 3},
    {FILE_SET ",\"position\":{\"kind\":\"learned\",\"P\":\"R\"}", "/weights/0/position/P", "[6, 2], expected", 2},
    {FILE_SET ",\"position\":{\"kind\":\"learned\",\"P\":\"flat\"}", "/weights/0/position/P", "[4]", 2},
    {FILE_SET ",\"position\":{\"kind\":\"learned\",\"P\":\"whole\"}", "/weights/0/position/P", "I32", 2},
    {FILE_SET ",\"position\":{\"kind\":\"learned\",\"P\":\"bad\"}", "/weights/0/position/P", "1e+300", 2},
    {FILE_SET ",\"position\":{\"kind\":\"t5\",\"R\":\"odd\"}", "/weights/0/position/R", "5 buckets", 2},
    {FILE_SET ",\"position\":{\"kind\":\"relative\",\"R\":\"R\"}", "/weights/0/position/R", "6 rows", 2},
    {FILE_SET ",\"low_rank\":{\"kind\":\"linformer\",\"E\":\"E\",\"F\":\"P\"}", "/weights/0/low_rank/F", "k is 9", 2},
};

START_TEST(wrong)
{
    char entry[1024], where[32];
    snprintf(entry, sizeof entry, "{\"name\":\"a\",%s}", WRONG[_i].entry);
    ck_assert_msg(!load(entry), "%s was accepted", entry);
    ck_assert_uint_eq(faults.count, 1);
    const struct fault *fault = &faults.items[0];
    snprintf(where, sizeof where, "attnd.json:%zu", WRONG[_i].line);
    ck_assert_msg(fault->pointer && strcmp(fault->pointer, WRONG[_i].pointer) == 0, "%s: %s", fault->pointer,
                  fault->message);
    ck_assert_msg(strstr(fault->message, WRONG[_i].words), "%s", fault->message);
    ck_assert_msg(strlen(fault->where) > strlen(where) &&
                      strcmp(fault->where + strlen(fault->where) - strlen(where), where) == 0,
                  "%s, expected %s", fault->where, where);
    unload();
}
END_TEST

/* ---- numbers are put while others hold them */

enum { ROUNDS = 2000 };

static void *read_numbers(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct head_importance *now = importance_store_hold(argument);
        if (now && now->values[0] != now->values[1])
            return argument;
        head_importance_release(now);
    }
    return NULL;
}

START_TEST(put_while_held)
{
    struct importance_store *store = importance_store_create(NULL);
    pthread_t readers[2];
    void *failed[2];
    ck_assert_ptr_nonnull(store);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_numbers, store), 0);
    for (int i = 0; i < ROUNDS; i++)
        ck_assert(importance_store_put(store, (const double[]){i, i}, 2, true));
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], &failed[i]);
        ck_assert_ptr_null(failed[i]);
    }
    importance_store_free(store);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("set_rules");
    TCase *c = tcase_create("set_rules");
    tcase_add_unchecked_fixture(c, start, model_folder_remove);
    tcase_add_test(c, nothing);
    tcase_add_test(c, rules_of_numbers);
    tcase_add_test(c, rules_of_tensors);
    tcase_add_test(c, importance);
    tcase_add_test(c, reload);
    tcase_add_test(c, digests);
    tcase_add_loop_test(c, wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, put_while_held);
    suite_add_tcase(s, c);
    return s;
}
