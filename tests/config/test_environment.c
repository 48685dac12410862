/* Variables: every type of value, what is wrong, and what is only warned of. */
#include "config/environment.h"
#include "config_text.h"
#include "suite.h"

#include <string.h>

static void load(struct loaded *loaded, const char *const *environment)
{
    load_flags(loaded, &(struct config_flags){0}, environment);
}

START_TEST(each_type)
{
    static const char *const environment[] = {"PATH=/bin",
                                              "ATTND_SERVER_WORKERS=8",
                                              "ATTND_SERVER_PIN=false",
                                              "ATTND_SERVER_IDLE_TIMEOUT_S=1.5e1",
                                              "ATTND_LOG_LEVEL=error",
                                              "ATTND_LISTEN= 127.0.0.1:1 ,[::1]:2",
                                              "ATTND_ISA=generic",
                                              "ATTND_DEFAULT_WEIGHTS=",
                                              "ATTND_TLS_KEY_FILE=",
                                              "ATTND_CORS_ALLOWED_ORIGINS=",
                                              "attnd_log_level=x",
                                              "ATTND_",
                                              NULL};
    struct loaded loaded;
    load(&loaded, environment);
    expect_right(&loaded);
    ck_assert_uint_eq(loaded.warnings.count, 0);
    ck_assert_int_eq(loaded.config.server.workers, 8);
    ck_assert(!loaded.config.server.pin);
    ck_assert_double_eq(loaded.config.server.idle_timeout_s, 15);
    ck_assert_str_eq(loaded.config.log.level, "error");
    ck_assert_uint_eq(loaded.config.listen_count, 2);
    ck_assert_str_eq(loaded.config.listen[0], "127.0.0.1:1");
    ck_assert_str_eq(loaded.config.listen[1], "[::1]:2");
    ck_assert_ptr_null(loaded.config.default_weights);
    loaded_free(&loaded);
}
END_TEST

START_TEST(wrong_values)
{
    static const struct {
        const char *variable, *where, *part;
    } cases[] = {
        {"ATTND_SERVER_WORKERS=many", "ATTND_SERVER_WORKERS", "an integer from 0 to 1024, got many"},
        {"ATTND_SERVER_WORKERS=", "ATTND_SERVER_WORKERS", "got nothing"},
        {"ATTND_SERVER_WORKERS= 1", "ATTND_SERVER_WORKERS", "got  1"},
        {"ATTND_SERVER_WORKERS=-1", "ATTND_SERVER_WORKERS", "got -1"},
        {"ATTND_SERVER_WORKERS=1\n", "ATTND_SERVER_WORKERS", "got 1?"},
        {"ATTND_SERVER_PIN=yes", "ATTND_SERVER_PIN", "true or false, got yes"},
        {"ATTND_LIVE_SAMPLE_RATE=nan", "ATTND_LIVE_SAMPLE_RATE", "a number from 0 to 1, got nan"},
        {"ATTND_LOG_FORMAT=jason", "ATTND_LOG_FORMAT", "did you mean \"json\"?"},
        {"ATTND_LISTEN=", "ATTND_LISTEN", "from 1 to 64"},
        {"ATTND_LISTEN=a:1,", "ATTND_LISTEN", "ADDRESS:PORT"},
        {"ATTND_LISTEN=a:1, a:1", "ATTND_LISTEN", "twice"},
        {"ATTND_ADMIN_LISTEN=0.0.0.0:9", "ATTND_ADMIN_LISTEN", "set admin.token_file or tls.client_ca_file"},
        {"ATTND_CORS_ALLOWED_ORIGINS=*,http://a", "ATTND_CORS_ALLOWED_ORIGINS", "leave the others out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        load(&loaded, (const char *const[]){cases[i].variable, NULL});
        ck_assert_msg(!loaded.right && loaded.faults.count == 1, "%s: %zu faults", cases[i].variable,
                      loaded.faults.count);
        ck_assert_str_eq(loaded.faults.items[0].where, cases[i].where);
        ck_assert_ptr_null(loaded.faults.items[0].pointer);
        ck_assert_msg(strstr(loaded.faults.items[0].message, cases[i].part), "\"%s\" lacks \"%s\"",
                      loaded.faults.items[0].message, cases[i].part);
        loaded_free(&loaded);
    }
}
END_TEST

START_TEST(unknown_variables_are_warnings)
{
    static const char *const environment[] = {"ATTND_SERVER_WORKER=1",        "ATTND_SERVICE_HOST=10.0.0.1",
                                              "ATTND_PORT=tcp://10.0.0.1:80", "ATTND_PORT_80_TCP_ADDR=10.0.0.1",
                                              "ATTND_ZZZZZZZZZZZZZZ=1",       NULL};
    static const char *const parts[] = {"did you mean ATTND_SERVER_WORKERS?", "Kubernetes", "Kubernetes", "Kubernetes",
                                        "ignored"};
    struct loaded loaded;
    load(&loaded, environment);
    expect_right(&loaded);
    ck_assert_uint_eq(loaded.warnings.count, 5);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(strlen(loaded.warnings.items[i].where), strcspn(environment[i], "="));
        ck_assert_int_eq(strncmp(loaded.warnings.items[i].where, environment[i], strcspn(environment[i], "=")), 0);
        ck_assert_ptr_nonnull(strstr(loaded.warnings.items[i].message, parts[i]));
    }
    ck_assert_ptr_null(strstr(loaded.warnings.items[4].message, "mean"));
    loaded_free(&loaded);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("environment");
    TCase *c = tcase_create("environment");
    tcase_add_test(c, each_type);
    tcase_add_test(c, wrong_values);
    tcase_add_test(c, unknown_variables_are_warnings);
    suite_add_tcase(s, c);
    return s;
}
