/* What of a configuration that was read again is kept as it runs. */
#include "config/changes.h"
#include "config/keys.h"
#include "config_text.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

START_TEST(every_name_is_a_key)
{
    size_t count, number = 0;
    const struct config_key *keys = config_keys(&count);
    const char *name;
    for (; (name = config_fixed_key(number)); number++) {
        char full[CONFIG_VARIABLE_BYTES];
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            snprintf(full, sizeof full, "%s%s%s", keys[i].section, *keys[i].section ? "." : "", keys[i].name);
            found |= strcmp(full, name) == 0;
        }
        ck_assert_msg(found, "%s is no key", name);
    }
    ck_assert_uint_gt(number, 5);
}
END_TEST

START_TEST(what_cannot_change_is_named_and_kept)
{
    struct loaded running, read;
    const char *names[CONFIG_MAX_FIXED];
    size_t count;
    load_text(&running, "{\"listen\": [\"127.0.0.1:1\", \"127.0.0.1:2\"], \"server\": {\"workers\": 3, \"pin\": true}}",
              NULL);
    load_text(&read,
              "{\"listen\": [\"127.0.0.1:1\"], \"server\": {\"workers\": 4, \"pin\": false, \"idle_timeout_s\": 7}, "
              "\"admin\": {\"listen\": \"127.0.0.1:3\"}, \"log\": {\"format\": \"text\", \"level\": \"debug\"}}",
              NULL);
    ck_assert(config_keep_fixed(&running.config, &read.config, names, &count));
    ck_assert_uint_eq(count, 5);
    static const char *const expected[] = {"listen", "admin.listen", "server.workers", "server.pin", "log.format"};
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(names[i], expected[i]);
    ck_assert_uint_eq(read.config.listen_count, 2);
    ck_assert_str_eq(read.config.listen[1], "127.0.0.1:2");
    ck_assert_ptr_null(read.config.admin.listen);
    ck_assert_int_eq(read.config.server.workers, 3);
    ck_assert(read.config.server.pin);
    ck_assert_str_eq(read.config.log.format, "json");
    /* And the rest changes. */
    ck_assert_str_eq(read.config.log.level, "debug");
    ck_assert_double_eq(read.config.server.idle_timeout_s, 7);

    /* They are the same now. */
    ck_assert(config_keep_fixed(&running.config, &read.config, names, &count));
    ck_assert_uint_eq(count, 0);
    loaded_free(&running);
    loaded_free(&read);
}
END_TEST

START_TEST(tls_is_there_from_the_start_or_not_at_all)
{
    struct loaded plain, one, other;
    const char *names[CONFIG_MAX_FIXED];
    size_t count;
    load_text(&plain, "{}", NULL);
    load_text(&one, "{\"tls\": {\"cert_file\": \"c1\", \"key_file\": \"k1\"}}", NULL);
    load_text(&other, "{\"tls\": {\"cert_file\": \"c2\", \"key_file\": \"k2\", \"client_ca_file\": \"a\"}}", NULL);
    ck_assert(config_keep_fixed(&one.config, &other.config, names, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_str_eq(other.config.tls.cert_file, "c2");
    ck_assert_str_eq(other.config.tls.client_ca_file, "a");

    ck_assert(config_keep_fixed(&plain.config, &other.config, names, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(names[0], "tls.cert_file");
    ck_assert_ptr_null(other.config.tls.cert_file);
    ck_assert_ptr_null(other.config.tls.key_file);
    ck_assert_ptr_null(other.config.tls.client_ca_file);

    ck_assert(config_keep_fixed(&one.config, &plain.config, names, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(plain.config.tls.key_file, "k1");
    loaded_free(&plain);
    loaded_free(&one);
    loaded_free(&other);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("changes");
    TCase *c = tcase_create("changes");
    tcase_add_test(c, every_name_is_a_key);
    tcase_add_test(c, what_cannot_change_is_named_and_kept);
    tcase_add_test(c, tls_is_there_from_the_start_or_not_at_all);
    suite_add_tcase(s, c);
    return s;
}
