/* Weight sets by --model and ATTND_MODELS: entries, which of both counts, what is served without a file, and faults. */
#include "config/models.h"

#include "config_text.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct config config;
static struct faults faults, warnings;

static bool load(const char *file, const char *variable, const char *const *models, size_t count)
{
    const char *environment[] = {variable, NULL};
    const struct config_flags flags = {.file = file, .models = models, .model_count = count};
    return config_load(&flags, environment, &config, &faults, &warnings);
}

static void release(void)
{
    config_free(&config);
    faults_free(&faults);
    faults_free(&warnings);
}

static void expect_model(size_t index, const char *name, const char *path, const char *given_by)
{
    const struct weights_config *set = &config.weights[index];
    ck_assert_uint_gt(config.weights_count, index);
    ck_assert_int_eq(set->source, WEIGHTS_HUGGINGFACE);
    ck_assert_str_eq(set->name, name);
    ck_assert_str_eq(set->path, path);
    ck_assert_str_eq(set->given_by, given_by);
    ck_assert(set->required);
}

START_TEST(without_a_file)
{
    static const char *const models[] = {"a=folder", "b.2=/x/y=z"};
    ck_assert(load(NULL, NULL, models, 2));
    ck_assert_uint_eq(config.weights_count, 2);
    expect_model(0, "a", "folder", "--model");
    expect_model(1, "b.2", "/x/y=z", "--model");
    ck_assert_str_eq(config.default_weights, "a");
}
END_TEST

START_TEST(from_the_environment)
{
    ck_assert(load(NULL, "ATTND_MODELS= a=one folder , b=two,", NULL, 0));
    ck_assert_uint_eq(config.weights_count, 2);
    expect_model(0, "a", "one folder", "ATTND_MODELS");
    expect_model(1, "b", "two", "ATTND_MODELS");
    ck_assert_uint_eq(warnings.count, 0);
}
END_TEST

START_TEST(flags_win)
{
    static const char *const models[] = {"flag=one"};
    ck_assert(load(NULL, "ATTND_MODELS=variable=two", models, 1));
    ck_assert_uint_eq(config.weights_count, 1);
    expect_model(0, "flag", "one", "--model");
}
END_TEST

START_TEST(none_is_the_built_in_set)
{
    ck_assert(load(NULL, "ATTND_MODELS= ", NULL, 0));
    ck_assert_uint_eq(config.weights_count, 1);
    ck_assert_str_eq(config.weights[0].name, "demo");
}
END_TEST

/* They stand behind those of the file, which says what is the default. */
START_TEST(beside_a_file)
{
    static const char *const models[] = {"a=folder"};
    char *path = getenv("ATTND_CONFIG_FOLDER"), file[4096];
    snprintf(file, sizeof file, "%s/examples/identity.json", path);
    ck_assert(load(file, NULL, models, 1));
    ck_assert_uint_ge(config.weights_count, 2);
    expect_model(config.weights_count - 1, "a", "folder", "--model");
    ck_assert(!config.default_weights || strcmp(config.default_weights, "a") != 0);
}
END_TEST

static const struct {
    const char *one, *other, *words;
} WRONG[] = {
    {"folder", NULL, "expected NAME=PATH"}, {"a=", NULL, "expected NAME=PATH"},        {"=folder", NULL, "letters"},
    {"a b=folder", NULL, "letters"},        {"a=folder", "a=other", "\"a\" is taken"}, {"", NULL, "expected NAME=PATH"},
};

START_TEST(wrong)
{
    const char *const models[] = {WRONG[_i].one, WRONG[_i].other};
    ck_assert(!load(NULL, NULL, models, WRONG[_i].other ? 2 : 1));
    ck_assert_uint_eq(faults.count, 1);
    ck_assert_str_eq(faults.items[0].where, "--model");
    ck_assert_msg(strstr(faults.items[0].message, WRONG[_i].words), "%s", faults.items[0].message);
}
END_TEST

START_TEST(wrong_variable)
{
    ck_assert(!load(NULL, "ATTND_MODELS=a=b,,c=d", NULL, 0));
    ck_assert_uint_eq(faults.count, 1);
    ck_assert_str_eq(faults.items[0].where, "ATTND_MODELS");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("models");
    TCase *c = tcase_create("models");
    tcase_add_checked_fixture(c, NULL, release);
    tcase_add_test(c, without_a_file);
    tcase_add_test(c, from_the_environment);
    tcase_add_test(c, flags_win);
    tcase_add_test(c, none_is_the_built_in_set);
    tcase_add_test(c, beside_a_file);
    tcase_add_loop_test(c, wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, wrong_variable);
    suite_add_tcase(s, c);
    return s;
}
