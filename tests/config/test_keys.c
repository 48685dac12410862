/* The table of keys: that it is sound, and that each row sets its own member and no other. */
#include "config/keys.h"
#include "suite.h"

#include <string.h>

static const struct config_key *key(const char *section, const char *name)
{
    size_t count;
    const struct config_key *keys = config_keys(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    ck_abort_msg("no key %s.%s", section, name);
}

START_TEST(rows_are_sound)
{
    size_t count;
    const struct config_key *keys = config_keys(&count);
    char variable[CONFIG_VARIABLE_BYTES], other[CONFIG_VARIABLE_BYTES];
    ck_assert_uint_eq(count, 37);
    for (size_t i = 0; i < count; i++) {
        config_key_variable(&keys[i], variable);
        ck_assert_uint_lt(strlen(variable), CONFIG_VARIABLE_BYTES - 1);
        for (size_t j = 0; j < i; j++) {
            config_key_variable(&keys[j], other);
            ck_assert_str_ne(variable, other);
            ck_assert_uint_ne(keys[i].offset, keys[j].offset);
            /* Sections stand together. */
            if (strcmp(keys[i].section, keys[j].section) == 0)
                ck_assert_str_eq(keys[i - 1].section, keys[i].section);
        }
    }
}
END_TEST

START_TEST(variables)
{
    char variable[CONFIG_VARIABLE_BYTES];
    config_key_variable(key("server", "workers"), variable);
    ck_assert_str_eq(variable, "ATTND_SERVER_WORKERS");
    config_key_variable(key("", "default_weights"), variable);
    ck_assert_str_eq(variable, "ATTND_DEFAULT_WEIGHTS");
    config_key_variable(key("", "listen"), variable);
    ck_assert_str_eq(variable, "ATTND_LISTEN");
}
END_TEST

/* A refused value leaves the configuration as it was. */
START_TEST(outputs_are_untouched_on_failure)
{
    struct config config = {0};
    struct error error;
    ck_assert(config_set_defaults(&config));
    ck_assert(!config_key_set(key("server", "workers"), &config, "1025", 4, "1025", &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_int_eq(config.server.workers, 0);
    ck_assert(!config_key_set(key("log", "level"), &config, "loud", 4, "\"loud\"", &error));
    ck_assert_str_eq(config.log.level, "info");
    ck_assert(!config_key_set(key("server", "pin"), &config, "no", 2, "no", &error));
    ck_assert(config.server.pin);
    struct string_list items = {0};
    ck_assert(!config_list_set(key("", "listen"), &config, &items, &error));
    ck_assert_str_eq(config.listen[0], "127.0.0.1:8080");
    ck_assert(config_key_set(key("server", "workers"), &config, "1024", 4, "1024", &error));
    ck_assert_int_eq(config.server.workers, 1024);
    config_free(&config);
}
END_TEST

START_TEST(lists_take_their_most_and_no_more)
{
    struct config config = {0};
    struct error error;
    struct string_list items = {0};
    ck_assert(config_set_defaults(&config));
    for (int i = 0; i < 65; i++)
        ck_assert(config_list_add(key("", "listen"), &items, "a:0", 3, &error));
    ck_assert(!config_list_set(key("", "listen"), &config, &items, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "65"));
    string_list_free(&items);
    for (int i = 0; i < 64; i++)
        ck_assert(config_list_add(key("", "listen"), &items, "a:0", 3, &error));
    ck_assert(config_list_set(key("", "listen"), &config, &items, &error));
    ck_assert_uint_eq(config.listen_count, 64);
    ck_assert_uint_eq(items.count, 0);
    config_free(&config);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("keys");
    TCase *c = tcase_create("keys");
    tcase_add_test(c, rows_are_sound);
    tcase_add_test(c, variables);
    tcase_add_test(c, outputs_are_untouched_on_failure);
    tcase_add_test(c, lists_take_their_most_and_no_more);
    suite_add_tcase(s, c);
    return s;
}
