/* The command line, the environment, and what a start that fails says. */
#include "expect.h"
#include "suite.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUN(...) program_run((const char *const[]){__VA_ARGS__, NULL}, NULL)

static void expect_result(struct program_result *result, int code, const char *word)
{
    ck_assert_msg(result->code == code, "exit code %d, expected %d: %s%s", result->code, code, result->out,
                  result->err);
    if (word)
        ck_assert_msg(strstr(code ? result->err : result->out, word) != NULL, "no \"%s\" in: %s%s", word, result->out,
                      result->err);
}

/* A port of ours that nobody else gets; listening or not. */
static int take_port(bool listening, char address[32])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof in;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&in, sizeof in), 0);
    ck_assert(!listening || listen(descriptor, 1) == 0);
    ck_assert_int_eq(getsockname(descriptor, (struct sockaddr *)&in, &length), 0);
    snprintf(address, 32, "127.0.0.1:%u", ntohs(in.sin_port));
    return descriptor;
}

/* --config with this text (' for ") and one more argument. */
static struct program_result run_with_config(const char *text, const char *argument)
{
    char *config = strdup(text), *path;
    for (char *c = config; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *folder = folder_with_file("attnd.json", config, strlen(config));
    ck_assert_int_ge(asprintf(&path, "%s/attnd.json", folder), 0);
    struct program_result result = RUN("--config", path, argument);
    free(path);
    remove_folder(folder);
    free(config);
    return result;
}

START_TEST(version_and_help)
{
    struct program_result result = RUN("--version");
    expect_result(&result, 0, "attnd ");
    ck_assert_ptr_nonnull(strpbrk(result.out, "0123456789"));
    program_result_free(&result);
    result = RUN("--help");
    static const char *const flags[] = {"--config", "--listen", "--check-config", "--health", "--version"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        expect_result(&result, 0, flags[i]);
    program_result_free(&result);
}
END_TEST

START_TEST(unknown_flags)
{
    struct program_result result = RUN("--lissen", "127.0.0.1:0");
    expect_result(&result, 2, "--listen");
    program_result_free(&result);
    result = RUN("--config");
    expect_result(&result, 2, "--config");
    program_result_free(&result);
    result = RUN("attnd.json");
    expect_result(&result, 2, "attnd.json");
    program_result_free(&result);
}
END_TEST

START_TEST(port_in_use)
{
    char address[32];
    int taken = take_port(true, address);
    struct program_result result = RUN("--listen", address);
    expect_result(&result, 2, strchr(address, ':') + 1);
    const char *line = strstr(result.err, "attnd: ");
    ck_assert_ptr_nonnull(line);
    ck_assert_msg(strchr(line, '\n') && strchr(line, '\n')[1] == '\0' && line == result.err, "more than one line: %s",
                  result.err);
    program_result_free(&result);
    close(taken);
}
END_TEST

START_TEST(missing_file)
{
    struct program_result result = RUN("--config", "/nowhere/attnd.json");
    expect_result(&result, 2, "/nowhere/attnd.json");
    program_result_free(&result);
}
END_TEST

START_TEST(check_config)
{
    struct program_result result = run_with_config(
        "{'weights':[{'name':'one','source':'numpy','seed':1,'d_model':32,'num_heads':4}],'default_weights':'one'}",
        "--check-config");
    expect_result(&result, 0, "one");
    program_result_free(&result);
    static const struct {
        const char *config, *place, *word;
    } bad[] = {{"{\n 'weights': [],\n 'servers': {}\n}", "attnd.json:3:", "/servers"},
               {"{\n 'server': {\n  'worker': 1\n }\n}", "attnd.json:3:", "workers"},
               {"{'weights': [\n {'name': 'a', 'source': 'numpy', 'd_model': 64, 'num_heads': 7}\n]}",
                "attnd.json:", "/weights/0"},
               {"{\n 'weights': [,]\n}", "attnd.json:2:", NULL},
               {"{'weights': [{'name': 'a', 'source': 'safetensors', 'path': 'nowhere.safetensors', 'num_heads': 8, "
                "'tensors': {'W_Q': 'q', 'W_K': 'k', 'W_V': 'v', 'W_O': 'o'}}]}",
                "attnd.json:", "nowhere.safetensors"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        result = run_with_config(bad[i].config, "--check-config");
        expect_result(&result, 2, bad[i].place);
        expect_result(&result, 2, bad[i].word);
        program_result_free(&result);
    }
}
END_TEST

/* It waits five seconds for the server, which may pass while the machine stands still. */
static void expect_healthy(const char *address)
{
    struct program_result result = RUN("--listen", address, "--health");
    for (size_t try = 1; try < TRIES && result.code != 0; try++) {
        program_result_free(&result);
        result = RUN("--listen", address, "--health");
    }
    expect_result(&result, 0, NULL);
    program_result_free(&result);
}

START_TEST(health)
{
    struct server_process *server = server_process_start(NULL);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", server_process_port(server));
    expect_healthy(address);
    char everywhere[32];
    snprintf(everywhere, sizeof everywhere, "0.0.0.0:%u", server_process_port(server));
    expect_healthy(everywhere);
    server_process_stop(server);

    int taken = take_port(false, address);
    struct program_result result = RUN("--listen", address, "--health");
    expect_result(&result, 1, strchr(address, ':') + 1);
    program_result_free(&result);
    close(taken);
}
END_TEST

START_TEST(environment_over_file_and_flag_over_both)
{
    struct server_process *server = server_process_start(
        &(struct server_options){.members = "'limits':{'max_body_bytes':1000000}",
                                 .environment = (const char *const[]){"ATTND_LIMITS_MAX_BODY_BYTES=100", NULL}});
    char *body = small_request();
    struct reply reply = http_post(server, FORWARD, body);
    expect_problem(&reply, 413, NULL, "100", "a body over the environment's limit");
    reply_free(&reply);
    free(body);
    server_process_stop(server);

    server = server_process_start(
        &(struct server_options){.environment = (const char *const[]){"ATTND_LISTEN=127.0.0.1:1", NULL},
                                 .arguments = (const char *const[]){"--listen", "127.0.0.1:0", NULL}});
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(instruction_sets)
{
    struct program_result result = program_run((const char *const[]){"--listen", "127.0.0.1:0", NULL},
                                               (const char *const[]){"ATTND_ISA=nonsense", NULL});
    expect_result(&result, 2, "nonsense");
    program_result_free(&result);
    struct server_process *server =
        server_process_start(&(struct server_options){.environment = (const char *const[]){"ATTND_ISA=generic", NULL}});
    char *line;
    ck_assert(server_process_logs(server, "\"listening\"", PATIENCE_SECONDS, &line));
    ck_assert_ptr_nonnull(strstr(line, "generic"));
    free(line);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

#define LAYER(required)                                                                                         \
    "'default_weights':'good','weights':[{'name':'good','source':'numpy','seed':1,'d_model':64,'num_heads':8}," \
    "{'name':'broken','source':'safetensors','path':'nowhere.safetensors','num_heads':8" required ","           \
    "'tensors':{'W_Q':'q','W_K':'k','W_V':'v','W_O':'o'}}]"

START_TEST(weights_that_fail_to_load)
{
    struct program_result result = run_with_config("{'listen':['127.0.0.1:0']," LAYER("") "}", "--listen=127.0.0.1:0");
    expect_result(&result, 2, "nowhere.safetensors");
    program_result_free(&result);

    struct server_process *server =
        server_process_start(&(struct server_options){.own_weights = true, .members = LAYER(",'required':false")});
    expect_served(server);
    char *small = small_request(), *body = quoted("{'weights':'broken',%s", small + 1);
    struct reply reply = http_post(server, FORWARD, body);
    expect_problem(&reply, 503, NULL, "nowhere.safetensors", "a weight set that failed");
    reply_free(&reply);
    reply = http_get(server, "/v1/weights");
    json_t *document = reply_json(&reply), *list = json_object_get(document, "weights");
    ck_assert_uint_eq(json_array_size(list), 2);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "state")), "ready");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "name")), "broken");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "state")), "failed");
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(json_array_get(list, 1), "error")), "nowhere.safetensors"));
    json_decref(document);
    reply_free(&reply);

    /* As rows: one list, and the same members in each. */
    reply = http_get(server, "/v1/weights?format=rows");
    json_t *rows = reply_json(&reply), *ready = json_array_get(rows, 0), *failed = json_array_get(rows, 1);
    ck_assert_uint_eq(json_array_size(rows), 2);
    ck_assert_uint_eq(json_object_size(ready), 18);
    ck_assert_uint_eq(json_object_size(failed), 18);
    const char *name;
    json_t *value;
    json_object_foreach(ready, name, value)
    {
        ck_assert_msg(json_object_get(failed, name), "no %s", name);
        /* Nothing is embedded in the set that is ready, and it takes any number of tokens. */
        ck_assert_int_eq(json_is_null(value), strcmp(name, "error") == 0 || strcmp(name, "vocab_size") == 0 ||
                                                  strcmp(name, "max_positions") == 0);
    }
    ck_assert(json_is_null(json_object_get(failed, "d_model")) && json_is_string(json_object_get(failed, "error")));
    json_decref(rows);
    reply_free(&reply);
    reply = http_get(server, "/v1/weights?formt=rows");
    expect_problem(&reply, 422, NULL, "format", "an unknown parameter");
    reply_free(&reply);

    reply = http_get(server, "/readyz");
    ck_assert_int_eq(reply.status, 200);
    reply_free(&reply);
    free(body);
    free(small);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/cli");
    TCase *c = tcase_create("cli");
    tcase_add_test(c, version_and_help);
    tcase_add_test(c, unknown_flags);
    tcase_add_test(c, port_in_use);
    tcase_add_test(c, missing_file);
    tcase_add_test(c, check_config);
    tcase_add_test(c, health);
    tcase_add_test(c, environment_over_file_and_flag_over_both);
    tcase_add_test(c, instruction_sets);
    tcase_add_test(c, weights_that_fail_to_load);
    suite_add_tcase(s, c);
    return s;
}
