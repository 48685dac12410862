/* Every allocation of config_load fails once, each in its turn: it says so, and nothing is lost (a build with the leak
 * sanitizer sees to that) or freed twice. */
#include "config/command_line.h"
#include "config/config.h"
#include "fail_alloc.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char right[] =
    "{\"listen\": [\"127.0.0.1:1\", \"[::1]:2\"], \"default_weights\": \"s\",\n"
    "\"weights\": [{\"name\": \"n\", \"source\": \"numpy\", \"d_model\": 8, \"num_heads\": 2,\n"
    "\"pattern\": {\"kind\": \"block\", \"size\": 2}, \"head_importance\": [1, 2]},\n"
    "{\"name\": \"s\", \"source\": \"safetensors\", \"path\": \"p\", \"num_heads\": 2, \"layout\": \"out_in\",\n"
    "\"tensors\": {\"W_QKV\": \"q\", \"W_O\": \"o\", \"b_O\": \"b\"}}],\n"
    "\"log\": {\"level\": \"error\"}, \"tls\": {\"key_file\": null}}";

static const char wrong[] =
    "{\"listen\": [\"x\"], \"default_weights\": \"gone\", \"servers\": 1, \"zzzzzzzzz\": 2,\n"
    "\"weights\": [{\"name\": \"n\", \"source\": \"numpy\", \"d_model\": 8, \"num_heads\": 3, \"sede\": 1},\n"
    "{\"name\": \"n\", \"source\": \"safetensors\", \"path\": 1, \"layout\": \"x\", \"tensors\": {\"W_X\": \"q\"}}],\n"
    "\"log\": {\"level\": \"loud\"}}";

/* The number of allocations in all. */
static size_t fail_each(const char *text, size_t faults_without_failure)
{
    static const char *const environment[] = {"ATTND_LISTEN=127.0.0.1:1,127.0.0.1:2", "ATTND_UNKNOWN=1",
                                              "ATTND_LOG_FORMAT=text", NULL};
    static const char *const listen[] = {"127.0.0.1:3"};
    char file[] = "/tmp/attnd-test-XXXXXX.json";
    int descriptor = mkstemps(file, 5);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq((long long)write(descriptor, text, strlen(text)), (long long)strlen(text));
    close(descriptor);

    size_t n = 0;
    for (bool failed = true; failed;) {
        static const char *const models[] = {"m=folder"};
        struct config_flags flags = {
            .file = file, .listen = listen, .listen_count = 1, .models = models, .model_count = 1};
        struct config config;
        struct faults faults = {0}, warnings = {0};
        fail_alloc_at(++n);
        bool loaded = config_load(&flags, environment, &config, &faults, &warnings);
        failed = fail_alloc_happened();
        fail_alloc_at(0);
        if (failed)
            ck_assert_msg((!loaded && faults.out_of_memory) || warnings.out_of_memory,
                          "allocation %zu failed in silence", n);
        else
            ck_assert(loaded == (faults_without_failure == 0) && faults.count == faults_without_failure &&
                      warnings.count == 1);
        config_free(&config);
        faults_free(&faults);
        faults_free(&warnings);
    }
    unlink(file);
    return n - 1;
}

START_TEST(a_right_file)
{
    ck_assert_uint_ge(fail_each(right, 0), 30);
}
END_TEST

START_TEST(a_wrong_file)
{
    /* listen, default_weights, two unknown keys; sede, 8 over 3; path, layout, W_X, no Q, K, V, O, no num_heads, the
     * name twice; level */
    ck_assert_uint_ge(fail_each(wrong, 16), 60);
}
END_TEST

START_TEST(no_file)
{
    static const char *const environment[] = {NULL};
    size_t n = 0;
    for (bool failed = true; failed;) {
        struct config config;
        struct faults faults = {0}, warnings = {0};
        fail_alloc_at(++n);
        bool loaded = config_load(&(struct config_flags){0}, environment, &config, &faults, &warnings);
        failed = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert(loaded == !failed && faults.out_of_memory == failed);
        config_free(&config);
        faults_free(&faults);
    }
    ck_assert_uint_ge(n, 8);
}
END_TEST

START_TEST(the_command_line)
{
    struct command_line line;
    struct error error;
    char *argv[] = {"attnd", "--listen", "a:1", NULL};
    fail_alloc_at(1);
    ck_assert(!command_line_parse(3, argv, &line, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    command_line_free(&line);
}
END_TEST

START_TEST(the_text_of_a_fault)
{
    struct faults faults = {0};
    faults_add(&faults, "f", 1, "/p", "m");
    fail_alloc_at(1);
    ck_assert_ptr_null(fault_text(&faults.items[0]));
    faults_free(&faults);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config allocations");
    TCase *c = tcase_create("allocations");
    tcase_add_test(c, a_right_file);
    tcase_add_test(c, a_wrong_file);
    tcase_add_test(c, no_file);
    tcase_add_test(c, the_command_line);
    tcase_add_test(c, the_text_of_a_fault);
    suite_add_tcase(s, c);
    return s;
}
