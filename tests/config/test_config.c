/* The whole of config_load: defaults, files right and wrong, precedence, and the files that are shipped. */
#include "config/config.h"
#include "config_text.h"
#include "suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE_SET \
    "\"weights\": [{\"name\": \"one\", \"source\": \"numpy\", \"seed\": 1, \"d_model\": 32, \"num_heads\": 4}]"

/* The contract's values, written out. */
static void expect_defaults(const struct config *c)
{
    ck_assert_uint_eq(c->listen_count, 1);
    ck_assert_str_eq(c->listen[0], "127.0.0.1:8080");
    ck_assert_str_eq(c->default_weights, "demo");
    ck_assert_int_eq(c->server.io_threads, 2);
    ck_assert_int_eq(c->server.workers, 0);
    ck_assert(c->server.pin);
    ck_assert_int_eq(c->server.max_connections, 1000);
    ck_assert_double_eq(c->server.idle_timeout_s, 75);
    ck_assert_double_eq(c->server.upload_timeout_s, 30);
    ck_assert_double_eq(c->server.request_timeout_s, 30);
    ck_assert_double_eq(c->server.send_timeout_s, 30);
    ck_assert_double_eq(c->server.drain_delay_s, 5);
    ck_assert_double_eq(c->limits.max_request_gflop, 10000);
    ck_assert_int_eq(c->limits.max_body_bytes, 67108864);
    ck_assert_int_eq(c->limits.max_response_bytes, 268435456);
    ck_assert_int_eq(c->limits.memory_budget_bytes, 0);
    ck_assert_int_eq(c->limits.queue_depth, 256);
    ck_assert_int_eq(c->limits.max_batch_tokens, 8192);
    ck_assert_int_eq(c->limits.max_batch_delay_us, 0);
    ck_assert_int_eq(c->compression.min_bytes, 1024);
    ck_assert_int_eq(c->compression.max_bytes, 1048576);
    ck_assert_int_eq(c->compression.level, 1);
    ck_assert_double_eq(c->live.sample_rate, 1);
    ck_assert_double_eq(c->live.window_s, 300);
    ck_assert_str_eq(c->live.access, "public");
    ck_assert_int_eq(c->live.max_heads, 1024);
    ck_assert_str_eq(c->metrics.heads, "auto");
    ck_assert_str_eq(c->log.level, "info");
    ck_assert_str_eq(c->log.format, "json");
    ck_assert_ptr_null(c->admin.listen);
    ck_assert_ptr_null(c->admin.token_file);
    ck_assert_ptr_null(c->tls.cert_file);
    ck_assert_ptr_null(c->tls.key_file);
    ck_assert_ptr_null(c->tls.client_ca_file);
    ck_assert_uint_eq(c->cors.allowed_origins_count, 0);
    ck_assert_ptr_null(c->tracing.endpoint);
    ck_assert_double_eq(c->tracing.sample_rate, 0.01);
}

static void expect_built_in_set(const struct config *c)
{
    ck_assert_uint_eq(c->weights_count, 1);
    const struct weights_config *w = &c->weights[0];
    ck_assert_str_eq(w->name, "demo");
    ck_assert_int_eq(w->source, WEIGHTS_NUMPY);
    ck_assert(w->required);
    ck_assert_uint_eq(w->seed, 42);
    ck_assert_double_eq(w->scale, 0.1);
    ck_assert_uint_eq(w->d_model, 64);
    ck_assert_uint_eq(w->num_heads, 8);
    ck_assert_uint_eq(w->num_kv_heads, 0);
    ck_assert_uint_eq(w->d_k, 0);
    ck_assert_uint_eq(w->d_v, 0);
    ck_assert_ptr_null(w->path);
}

START_TEST(no_file_is_the_built_in_configuration)
{
    struct loaded loaded;
    load_flags(&loaded, &(struct config_flags){0}, NULL);
    expect_right(&loaded);
    expect_defaults(&loaded.config);
    expect_built_in_set(&loaded.config);
    ck_assert_ptr_null(loaded.config.file);
    ck_assert_uint_eq(loaded.config.weights[0].line, 0);
    ck_assert_uint_eq(loaded.warnings.count, 0);
    loaded_free(&loaded);
}
END_TEST

START_TEST(the_default_file_says_the_same)
{
    char file[512];
    struct loaded loaded;
    snprintf(file, sizeof file, "%s/attnd.json", getenv("ATTND_CONFIG_FOLDER"));
    load_flags(&loaded, &(struct config_flags){.file = file}, NULL);
    expect_right(&loaded);
    expect_defaults(&loaded.config);
    expect_built_in_set(&loaded.config);
    ck_assert_str_eq(loaded.config.file, file);
    ck_assert_uint_eq(loaded.config.weights[0].line, 5);
    loaded_free(&loaded);
}
END_TEST

START_TEST(every_example_loads)
{
    char folder[512], file[1024];
    size_t count = 0;
    struct dirent *entry;
    snprintf(folder, sizeof folder, "%s/examples", getenv("ATTND_CONFIG_FOLDER"));
    DIR *directory = opendir(folder);
    ck_assert_ptr_nonnull(directory);
    while ((entry = readdir(directory))) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        struct loaded loaded;
        snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        load_flags(&loaded, &(struct config_flags){.file = file}, NULL);
        expect_right(&loaded);
        loaded_free(&loaded);
        count++;
    }
    closedir(directory);
    ck_assert_uint_ge(count, 7);
}
END_TEST

START_TEST(every_key_is_read)
{
    struct loaded loaded;
    load_text(
        &loaded,
        "{\"listen\": [\"[::1]:80\", \"localhost:0\", \"10.0.0.1:65535\"], \"default_weights\": \"one\", " ONE_SET ",\n"
        "\"server\": {\"io_threads\": 3, \"workers\": 7, \"pin\": false, \"max_connections\": 10, \"idle_timeout_s\": "
        "0.5,\n"
        " \"upload_timeout_s\": 1.5, \"request_timeout_s\": 2.5, \"send_timeout_s\": 3.5, \"drain_delay_s\": 0},\n"
        "\"limits\": {\"max_request_gflop\": 0.25, \"max_body_bytes\": 1e3, \"max_response_bytes\": 2, "
        "\"memory_budget_bytes\": 3.0,\n"
        " \"queue_depth\": 4, \"max_batch_tokens\": 5, \"max_batch_delay_us\": 6},\n"
        "\"compression\": {\"min_bytes\": 7, \"max_bytes\": 8, \"level\": 9},\n"
        "\"live\": {\"sample_rate\": 0.5, \"window_s\": 10, \"access\": \"admin\", \"max_heads\": 11},\n"
        "\"metrics\": {\"heads\": \"off\"}, \"log\": {\"level\": \"debug\", \"format\": \"te\\u0078t\"},\n"
        "\"admin\": {\"listen\": null, \"token_file\": null}, \"tls\": {\"cert_file\": null, \"key_file\": null, "
        "\"client_ca_file\": null},\n"
        "\"cors\": {\"allowed_origins\": []}, \"tracing\": {\"endpoint\": \"https://c.example:4318/otlp\", "
        "\"sample_rate\": 1}}",
        NULL);
    expect_right(&loaded);
    const struct config *c = &loaded.config;
    ck_assert_uint_eq(c->listen_count, 3);
    ck_assert_str_eq(c->listen[0], "[::1]:80");
    ck_assert_str_eq(c->listen[1], "localhost:0");
    ck_assert_str_eq(c->listen[2], "10.0.0.1:65535");
    ck_assert_str_eq(c->default_weights, "one");
    ck_assert_int_eq(c->server.io_threads, 3);
    ck_assert_int_eq(c->server.workers, 7);
    ck_assert(!c->server.pin);
    ck_assert_int_eq(c->server.max_connections, 10);
    ck_assert_double_eq(c->server.idle_timeout_s, 0.5);
    ck_assert_double_eq(c->server.upload_timeout_s, 1.5);
    ck_assert_double_eq(c->server.request_timeout_s, 2.5);
    ck_assert_double_eq(c->server.send_timeout_s, 3.5);
    ck_assert_double_eq(c->server.drain_delay_s, 0);
    ck_assert_double_eq(c->limits.max_request_gflop, 0.25);
    ck_assert_int_eq(c->limits.max_body_bytes, 1000);
    ck_assert_int_eq(c->limits.max_response_bytes, 2);
    ck_assert_int_eq(c->limits.memory_budget_bytes, 3);
    ck_assert_int_eq(c->limits.queue_depth, 4);
    ck_assert_int_eq(c->limits.max_batch_tokens, 5);
    ck_assert_int_eq(c->limits.max_batch_delay_us, 6);
    ck_assert_int_eq(c->compression.min_bytes, 7);
    ck_assert_int_eq(c->compression.max_bytes, 8);
    ck_assert_int_eq(c->compression.level, 9);
    ck_assert_double_eq(c->live.sample_rate, 0.5);
    ck_assert_double_eq(c->live.window_s, 10);
    ck_assert_str_eq(c->live.access, "admin");
    ck_assert_int_eq(c->live.max_heads, 11);
    ck_assert_str_eq(c->metrics.heads, "off");
    ck_assert_str_eq(c->log.level, "debug");
    ck_assert_str_eq(c->log.format, "text");
    ck_assert_str_eq(c->tracing.endpoint, "https://c.example:4318/otlp");
    ck_assert_double_eq(c->tracing.sample_rate, 1);
    loaded_free(&loaded);
}
END_TEST

START_TEST(default_weights_has_to_be_there)
{
    struct loaded loaded;
    load_text(&loaded, "{" ONE_SET "}", NULL);
    expect_right(&loaded);
    ck_assert_ptr_null(loaded.config.default_weights);
    loaded_free(&loaded);

    load_text(&loaded, "{\"default_weights\": null}", NULL);
    expect_right(&loaded);
    ck_assert_ptr_null(loaded.config.default_weights);
    ck_assert_str_eq(loaded.config.weights[0].name, "demo");
    loaded_free(&loaded);

    load_text(&loaded, "{\"weights\": []}", NULL);
    expect_right(&loaded);
    ck_assert_uint_eq(loaded.config.weights_count, 0);
    ck_assert_ptr_null(loaded.config.default_weights);
    loaded_free(&loaded);

    /* Before what comes behind it in the file, though it is only known at the end. */
    load_text(&loaded, "{\n\"default_weights\": \"two\",\n" ONE_SET ",\n\"sever\": {}}", NULL);
    EXPECT_FAULTS(&loaded, {2, "/default_weights", {"\"two\"", "\"one\""}}, {4, "/sever", {"\"server\""}});
    loaded_free(&loaded);

    /* A set without a name may be the one that is meant. */
    load_text(&loaded,
              "{\"default_weights\": \"one\", \"weights\": [\n7,\n{\"name\": 1, \"source\": \"identity\", \"d_model\": "
              "4, \"num_heads\": 2}]}",
              NULL);
    EXPECT_FAULTS(&loaded, {2, "/weights/0", {"an object", "7"}}, {3, "/weights/1/name", {"a string", "1"}});
    loaded_free(&loaded);
    load_text(&loaded, "{\"default_weights\": \"one\", \"weights\": {}}", NULL);
    EXPECT_FAULTS(&loaded, {1, "/weights", {"an array", "an object"}});
    loaded_free(&loaded);

    load_text(&loaded, "{\"default_weights\": \"one\"}", NULL);
    EXPECT_FAULTS(&loaded, {1, "/default_weights", {"\"one\"", "\"demo\""}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(all_faults_in_the_order_of_the_file)
{
    struct loaded loaded;
    load_text(&loaded,
              "{\n"
              "\"listen\": [\"127.0.0.1:8080\",\n  \"8080\",\n  7],\n"
              "\"servers\": {\"workers\": [1, {\"a\": 2}]},\n"
              "\"server\": {\n  \"worker\": 1,\n  \"workers\": 1.5,\n  \"pin\": 1,\n  \"io_threads\": \"2\",\n  "
              "\"max_connections\": 0},\n"
              "\"limits\": [],\n"
              "\"log\": {\"level\": \"warn\",\n \"format\": null},\n"
              "\"compression\": {\"level\": 1e400},\n"
              "\"cors\": {\"allowed_origins\": \"*\"}\n"
              "}",
              NULL);
    EXPECT_FAULTS(
        &loaded, {3, "/listen/1", {"ADDRESS:PORT", "\"8080\""}}, {4, "/listen/2", {"a string", "7"}},
        {5, "/servers", {"unknown", "\"server\""}}, {7, "/server/worker", {"unknown", "\"workers\""}},
        {8, "/server/workers", {"an integer from 0 to 1024, got 1.5"}}, {9, "/server/pin", {"true or false, got 1"}},
        {10, "/server/io_threads", {"an integer from 1 to 256, got \"2\""}},
        {11, "/server/max_connections", {"from 1 to 1000000, got 0"}}, {12, "/limits", {"an object", "an array"}},
        {13, "/log/level", {"\"warn\"", "\"warning\"", "\"debug\""}},
        {14, "/log/format", {"\"json\", \"text\"", "null"}},
        {15, "/compression/level", {"an integer from 1 to 12, got 1e400"}},
        {16, "/cors/allowed_origins", {"an array", "\"*\""}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(an_unknown_key_without_a_near_one_lists_all)
{
    struct loaded loaded;
    load_text(&loaded, "{\"metrics\": {\"zzzzzzzzz\": 1}, \"q/~\": 1}", NULL);
    EXPECT_FAULTS(&loaded, {1, "/metrics/zzzzzzzzz", {"unknown", "heads"}},
                  {1, "/q~1~0", {"unknown", "listen, default_weights, server, ", "tracing, weights"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(keys_that_need_each_other)
{
    static const struct {
        const char *text, *pointer, *part;
    } cases[] = {
        {"{\"tls\": {\n\"cert_file\": \"c\"}}", "/tls/cert_file", "set tls.key_file too"},
        {"{\"tls\": {\n\"key_file\": \"k\"}}", "/tls/key_file", "set tls.cert_file too"},
        {"{\"tls\": {\n\"client_ca_file\": \"a\"}}", "/tls/client_ca_file", "set tls.cert_file"},
        {"{\"admin\": {\n\"listen\": \"0.0.0.0:9\"}}", "/admin/listen", "set admin.token_file"},
        {"{\"admin\": {\n\"listen\": \"[::]:9\"}}", "/admin/listen", "set admin.token_file"},
        {"{\"admin\": {\n\"listen\": \"attnd.example:9\"}}", "/admin/listen", "set admin.token_file"},
        {"{\"cors\": {\n\"allowed_origins\": [\"*\", \"http://a\"]}}", "/cors/allowed_origins", "leave the others out"},
    };
    static const char *const right[] = {
        "{\"admin\": {\"listen\": \"127.1.2.3:9\"}}",
        "{\"admin\": {\"listen\": \"[::1]:9\"}}",
        "{\"admin\": {\"listen\": \"localhost:9\"}}",
        "{\"admin\": {\"listen\": \"0.0.0.0:9\", \"token_file\": \"t\"}}",
        ("{\"admin\": {\"listen\": \"0.0.0.0:9\"}, \"tls\": {\"cert_file\": \"c\", \"key_file\": \"k\", "
         "\"client_ca_file\": \"a\"}}"),
        "{\"cors\": {\"allowed_origins\": [\"*\"]}}",
    };
    struct loaded loaded;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load_text(&loaded, cases[i].text, NULL);
        EXPECT_FAULTS(&loaded, {2, cases[i].pointer, {cases[i].part}});
        loaded_free(&loaded);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        load_text(&loaded, right[i], NULL);
        ck_assert_msg(loaded.right, "%s is refused", right[i]);
        loaded_free(&loaded);
    }
}
END_TEST

START_TEST(addresses_of_others_are_checked)
{
    struct loaded loaded;
    load_text(&loaded,
              "{\n\"admin\": {\"listen\": \"127.0.0.1\",\n\"token_file\": 5},\n"
              "\"cors\": {\"allowed_origins\": [\"https://a.example/\"]},\n\"tracing\": {\"endpoint\": "
              "\"c:4318\",\n\"sample_rate\": 2}}",
              NULL);
    EXPECT_FAULTS(&loaded, {2, "/admin/listen", {"ADDRESS:PORT"}},
                  {3, "/admin/token_file", {"a string or null, got 5"}},
                  {4, "/cors/allowed_origins/0", {"without a path"}},
                  {5, "/tracing/endpoint", {"\"c:4318\"", "http://HOST:PORT"}},
                  {6, "/tracing/sample_rate", {"from 0 to 1, got 2"}});
    loaded_free(&loaded);

    load_text(&loaded, "{\"admin\": {\"listen\": 5}}", NULL);
    EXPECT_FAULTS(&loaded, {1, "/admin/listen", {"a string or null, got 5"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(lists_have_bounds)
{
    struct loaded loaded;
    load_text(&loaded, "{\"listen\": []}", NULL);
    EXPECT_FAULTS(&loaded, {1, "/listen", {"from 1 to 64", "got 0"}});
    loaded_free(&loaded);
    load_text(&loaded, "{\"listen\": [\"a:1\", \"b:0\", \"b:0\",\n \"a:1\"]}", NULL);
    EXPECT_FAULTS(&loaded, {2, "/listen/3", {"\"a:1\"", "twice"}});
    loaded_free(&loaded);
}
END_TEST

/* One fault, on the line where the text stops being JSON, whatever was wrong before. */
START_TEST(bad_syntax_ends_the_reading)
{
    static const struct {
        const char *text;
        size_t line;
    } cases[] = {
        {"{\n \"weights\": [,]\n}", 2},
        {"{\n \"weights\": []\n \"log\": {}\n}", 3},
        {"{\n\n \"log\": {\"level\": \"in\nfo\"}}", 3},
        {"{\"log\": {\n\"level\": infos}}", 2},
        {"", 1},
        {"{\n\n", 3},
        {"{\"default_weights\": \"later\",\n\"weights\": [{\"name\": \"a\", \"source\": \"numpy\",\n\"d_model\": }", 3},
        {"{\"default_weights\": \"later\",\n\"weights\": [{\"source\": \"numpy\", !", 2},
        {"{\"default_weights\": \"later\" \n\"weights\": []}", 2},
        {"{}\n\nx", 3},
        {"{\"server\": {\"workers\": 01}}", 1},
        {"{\"weights\": [{\"name\": \"a\",\n\"source\": \"numpy\",\n\"seed\": 1,}]}", 3},
        {"{\"weights\": [{\"name\": \"a\",\n\"source\": \"numpy\n\"", 2},
        {"{\"weights\": [{\"name\": \"a\", \"tensors\": {\n\"W_Q\": tru}}]}", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        char where[128];
        load_text(&loaded, cases[i].text, NULL);
        ck_assert(!loaded.right);
        ck_assert_msg(loaded.faults.count == 1, "%zu faults of text %zu", loaded.faults.count, i);
        snprintf(where, sizeof where, "%s:%zu", loaded.file, cases[i].line);
        ck_assert_str_eq(loaded.faults.items[0].where, where);
        loaded_free(&loaded);
    }
}
END_TEST

START_TEST(a_key_given_twice)
{
    struct loaded loaded;
    load_text(&loaded,
              "{\"log\": {},\n\"log\": {\"level\": 1},\n\"server\": {\"pin\": true,\n\"p\\u0069n\": true, \"x\": 1}}",
              NULL);
    EXPECT_FAULTS(&loaded, {2, "/log", {"log"}}, {4, "/server/pin", {"pin"}}, {4, "/server/x", {"unknown"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    struct loaded loaded;
    load_flags(&loaded, &(struct config_flags){.file = "/nowhere/nope.json"}, NULL);
    ck_assert(!loaded.right);
    ck_assert_uint_eq(loaded.faults.count, 1);
    ck_assert_str_eq(loaded.faults.items[0].where, "/nowhere/nope.json");
    ck_assert_ptr_null(loaded.faults.items[0].pointer);
    ck_assert_ptr_nonnull(strstr(loaded.faults.items[0].message, "No such file"));
    loaded_free(&loaded);

    load_flags(&loaded, &(struct config_flags){.file = "/"}, NULL);
    ck_assert(!loaded.right);
    ck_assert_uint_eq(loaded.faults.count, 1);
    ck_assert_ptr_nonnull(strstr(loaded.faults.items[0].message, "directory"));
    loaded_free(&loaded);

    const size_t length = ((size_t)4 << 20) + 1;
    char *text = malloc(length + 1);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', length);
    memcpy(text, "{}", 2);
    text[length] = '\0';
    load_text(&loaded, text, NULL);
    ck_assert(!loaded.right);
    ck_assert_uint_eq(loaded.faults.count, 1);
    ck_assert_ptr_nonnull(strstr(loaded.faults.items[0].message, "4194304"));
    loaded_free(&loaded);
    text[length - 1] = '\0';
    load_text(&loaded, text, NULL);
    expect_right(&loaded);
    loaded_free(&loaded);
    free(text);

    load_text(&loaded, "[1, 2]", NULL);
    EXPECT_FAULTS(&loaded, {1, NULL, {"an object", "an array"}});
    loaded_free(&loaded);
}
END_TEST

START_TEST(the_order_is_default_file_environment_flag)
{
    static const char *const environment[] = {"ATTND_SERVER_WORKERS=5", "ATTND_LISTEN=127.0.0.1:2",
                                              "ATTND_DEFAULT_WEIGHTS=one", NULL};
    static const char text[] = "{\"listen\": [\"127.0.0.1:1\"], \"default_weights\": \"gone\", \"server\": "
                               "{\"workers\": 4, \"io_threads\": 4}, " ONE_SET "}";
    struct loaded loaded;
    load_text(&loaded, text, environment);
    expect_right(&loaded);
    ck_assert_int_eq(loaded.config.server.workers, 5);
    ck_assert_int_eq(loaded.config.server.io_threads, 4);
    ck_assert_double_eq(loaded.config.server.send_timeout_s, 30);
    ck_assert_str_eq(loaded.config.listen[0], "127.0.0.1:2");
    ck_assert_str_eq(loaded.config.default_weights, "one");
    loaded_free(&loaded);

    static const char *const listen[] = {"127.0.0.1:3", "[::]:4"};
    load_flags(&loaded, &(struct config_flags){.listen = listen, .listen_count = 2},
               (const char *const[]){"ATTND_LISTEN=a:1", NULL});
    expect_right(&loaded);
    ck_assert_uint_eq(loaded.config.listen_count, 2);
    ck_assert_str_eq(loaded.config.listen[0], "127.0.0.1:3");
    ck_assert_str_eq(loaded.config.listen[1], "[::]:4");
    loaded_free(&loaded);

    load_flags(&loaded, &(struct config_flags){0}, (const char *const[]){"ATTND_DEFAULT_WEIGHTS=two", NULL});
    ck_assert(!loaded.right);
    ck_assert_uint_eq(loaded.faults.count, 1);
    ck_assert_str_eq(loaded.faults.items[0].where, "ATTND_DEFAULT_WEIGHTS");
    ck_assert_ptr_null(loaded.faults.items[0].pointer);
    loaded_free(&loaded);
}
END_TEST

START_TEST(a_wrong_flag)
{
    static const char *const listen[] = {"127.0.0.1:99999", "::1:80"};
    struct loaded loaded;
    load_flags(&loaded, &(struct config_flags){.listen = listen, .listen_count = 2}, NULL);
    ck_assert(!loaded.right);
    ck_assert_uint_eq(loaded.faults.count, 2);
    ck_assert_str_eq(loaded.faults.items[0].where, "--listen");
    ck_assert_ptr_nonnull(strstr(loaded.faults.items[0].message, "65535"));
    ck_assert_ptr_nonnull(strstr(loaded.faults.items[1].message, "[::1]:8080"));
    loaded_free(&loaded);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config");
    TCase *c = tcase_create("config");
    tcase_add_test(c, no_file_is_the_built_in_configuration);
    tcase_add_test(c, the_default_file_says_the_same);
    tcase_add_test(c, every_example_loads);
    tcase_add_test(c, every_key_is_read);
    tcase_add_test(c, default_weights_has_to_be_there);
    tcase_add_test(c, all_faults_in_the_order_of_the_file);
    tcase_add_test(c, an_unknown_key_without_a_near_one_lists_all);
    tcase_add_test(c, keys_that_need_each_other);
    tcase_add_test(c, addresses_of_others_are_checked);
    tcase_add_test(c, lists_have_bounds);
    tcase_add_test(c, bad_syntax_ends_the_reading);
    tcase_add_test(c, a_key_given_twice);
    tcase_add_test(c, files_that_cannot_be_read);
    tcase_add_test(c, the_order_is_default_file_environment_flag);
    tcase_add_test(c, a_wrong_flag);
    suite_add_tcase(s, c);
    return s;
}
