#include "config_text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void load_flags(struct loaded *loaded, const struct config_flags *flags, const char *const *environment)
{
    static const char *const empty[] = {NULL};
    *loaded = (struct loaded){0};
    loaded->right =
        config_load(flags, environment ? environment : empty, &loaded->config, &loaded->faults, &loaded->warnings);
}

void load_text(struct loaded *loaded, const char *text, const char *const *environment)
{
    char file[sizeof loaded->file] = "/tmp/attnd-test-XXXXXX.json";
    int descriptor = mkstemps(file, 5);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq((long long)write(descriptor, text, strlen(text)), (long long)strlen(text));
    close(descriptor);
    load_flags(loaded, &(struct config_flags){.file = file}, environment);
    unlink(file);
    memcpy(loaded->file, file, sizeof file);
}

void loaded_free(struct loaded *loaded)
{
    config_free(&loaded->config);
    faults_free(&loaded->faults);
    faults_free(&loaded->warnings);
}

static void print_faults(const struct loaded *loaded)
{
    for (size_t i = 0; i < loaded->faults.count; i++) {
        char *text = fault_text(&loaded->faults.items[i]);
        fprintf(stderr, "fault %zu: %s\n", i, text ? text : "(out of memory)");
        free(text);
    }
}

void expect_right(const struct loaded *loaded)
{
    if (!loaded->right || loaded->faults.count)
        print_faults(loaded);
    ck_assert(loaded->right);
    ck_assert_uint_eq(loaded->faults.count, 0);
}

void expect_faults(const struct loaded *loaded, const struct expected_fault *expected, size_t count)
{
    if (loaded->faults.count != count)
        print_faults(loaded);
    ck_assert(!loaded->right);
    ck_assert(!loaded->faults.out_of_memory);
    ck_assert_uint_eq(loaded->faults.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct fault *fault = &loaded->faults.items[i];
        char where[128];
        snprintf(where, sizeof where, "%s:%zu", loaded->file, expected[i].line);
        ck_assert_str_eq(fault->where, where);
        ck_assert_pstr_eq(fault->pointer, expected[i].pointer);
        for (size_t p = 0; p < 4 && expected[i].parts[p]; p++)
            ck_assert_msg(strstr(fault->message, expected[i].parts[p]), "expected \"%s\" in \"%s\"",
                          expected[i].parts[p], fault->message);
    }
}
