/* The log: JSON lines that say what the contract names and nothing of the tensors, and that never hold up a request. */
#include "expect.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_members(const json_t *line, const char *const *names, const char *text)
{
    for (size_t i = 0; names[i]; i++)
        ck_assert_msg(json_object_get(line, names[i]) != NULL, "no %s in: %s", names[i], text);
}

START_TEST(lines_are_json)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'log':{'level':'debug'}"});
    static const char *const always[] = {"ts", "level", "event", NULL};
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    expect_served(server);
    struct reply reply = http_get(server, "/v1/%22%5C%0A?\"");
    reply_free(&reply);
    reply = http_send(server, (struct http_call){.method = "GET",
                                                 .path = "/healthz",
                                                 .headers = (const char *const[]){"x-request-id: \xC3\xA9\xFF", NULL}});
    reply_free(&reply);
    reply = http_post(server, FORWARD, "{\"input\":[[[\"\xC3\xA9\"]]]}");
    reply_free(&reply);
    server_process_signal(server, 2);
    ck_assert(server_process_logs(server, "\"stopped\"", PATIENCE_SECONDS, NULL));
    ck_assert_int_eq(server_process_wait(server, PATIENCE_SECONDS), 0);
    char *log = server_process_log(server), *rest = log;
    size_t lines = 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest; lines++) {
        json_error_t fault;
        json_t *document = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
        ck_assert_msg(json_is_object(document), "%s: %s", fault.text, line);
        expect_members(document, always, line);
        const char *level = json_string_value(json_object_get(document, "level")),
                   *ts = json_string_value(json_object_get(document, "ts"));
        bool known = false;
        for (size_t i = 0; i < 4; i++)
            known |= strcmp(level, levels[i]) == 0;
        ck_assert_msg(known, "level %s", level);
        int year, month, day, hour, minute, end = 0;
        double second;
        ck_assert_msg(sscanf(ts, "%4d-%2d-%2dT%2d:%2d:%lfZ%n", &year, &month, &day, &hour, &minute, &second, &end) ==
                              6 &&
                          ts[end] == '\0',
                      "ts %s", ts);
        json_decref(document);
    }
    ck_assert_uint_ge(lines, 6);
    free(log);
    server_process_stop(server);
}
END_TEST

START_TEST(a_request_line)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const members[] = {"ts",        "level",    "event",     "request_id", "method",   "route",
                                          "status",    "bytes_in", "bytes_out", "parse_us",   "queue_us", "compute_us",
                                          "batch",    "encode_us", "total_us", "weights",  NULL};
    static const char *const id[] = {"x-request-id: find-me", NULL};
    char *small = small_request(), *body = quoted("{'id':'secret-id',%s", small + 1), *line;
    for (char *at = body; (at = strstr(at, "0.5")) != NULL;)
        memcpy(at, "0.7", 3);
    struct reply reply = http_send(
        server,
        (struct http_call){
            .method = "POST", .path = FORWARD "?token=hidden", .body = body, .length = strlen(body), .headers = id});
    ck_assert_int_eq(reply.status, 200);
    ck_assert(server_process_logs(server, "\"find-me\"", PATIENCE_SECONDS, &line));
    json_t *document = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    expect_members(document, members, line);
    ck_assert_str_eq(json_string_value(json_object_get(document, "event")), "request");
    ck_assert_str_eq(json_string_value(json_object_get(document, "method")), "POST");
    ck_assert_str_eq(json_string_value(json_object_get(document, "route")), FORWARD);
    ck_assert_str_eq(json_string_value(json_object_get(document, "weights")), "demo");
    ck_assert_int_eq(json_integer_value(json_object_get(document, "status")), 200);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "bytes_in")), (json_int_t)strlen(body));
    ck_assert_int_eq(json_integer_value(json_object_get(document, "bytes_out")), (json_int_t)reply.length);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "batch")), 1);
    ck_assert_ptr_null(json_object_get(document, "error"));
    ck_assert_ptr_null(strstr(line, "secret-id"));
    ck_assert_ptr_null(strstr(line, "hidden"));
    ck_assert_ptr_null(strstr(line, "0.7,0.7"));
    ck_assert_uint_lt(strlen(line), 2000);
    json_decref(document);
    free(line);
    reply_free(&reply);

    static const char *const other[] = {"x-request-id: find-this", NULL};
    reply = http_send(server, (struct http_call){.method = "GET", .path = "/no/such/path", .headers = other});
    ck_assert_int_eq(reply.status, 404);
    ck_assert(server_process_logs(server, "\"find-this\"", PATIENCE_SECONDS, &line));
    document = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(document, "route")), "other");
    ck_assert_int_eq(json_integer_value(json_object_get(document, "status")), 404);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(document, "error")));
    ck_assert_ptr_null(strstr(line, "/no/such/path"));
    json_decref(document);
    free(line);
    reply_free(&reply);
    free(body);
    free(small);
    server_process_stop(server);
}
END_TEST

START_TEST(what_happens_is_logged)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const members[] = {"address", "version", "isa", "weights", NULL};
    char *line;
    ck_assert(server_process_logs(server, "\"listening\"", PATIENCE_SECONDS, &line));
    json_t *document = json_loads(line, 0, NULL);
    expect_members(document, members, line);
    ck_assert_uint_eq(json_array_size(json_object_get(document, "weights")), 3);
    json_decref(document);
    free(line);
    server_process_signal(server, 15);
    ck_assert(server_process_logs(server, "\"drain\"", PATIENCE_SECONDS, NULL));
    ck_assert(server_process_logs(server, "\"stopped\"", PATIENCE_SECONDS, NULL));
    server_process_stop(server);
}
END_TEST

START_TEST(as_text)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'log':{'format':'text'}"});
    char *line;
    expect_served(server);
    ck_assert(server_process_logs(server, "route=" FORWARD, PATIENCE_SECONDS, &line));
    ck_assert_msg(strstr(line, "request") && strstr(line, "status=200") && line[0] == '2' && !strchr(line, '{'), "%s",
                  line);
    free(line);
    server_process_stop(server);
}
END_TEST

START_TEST(levels)
{
    struct server_process *server = server_process_start(&(struct server_options){
        .environment = (const char *const[]){"ATTND_LOG_LEVEL=info", "ATTND_NO_SUCH_KEY=1", NULL}});
    ck_assert_msg(server_process_logs(server, "ATTND_NO_SUCH_KEY", PATIENCE_SECONDS, NULL),
                  "no warning for an unknown variable");
    server_process_stop(server);
}
END_TEST

/* Far more than a pipe holds. */
START_TEST(nobody_reads)
{
    struct server_process *server = server_process_start(&(struct server_options){.stop_reading = true});
    struct http_client *client = http_client_open(server);
    for (size_t i = 0; i < 5000; i++) {
        struct http_call call = {.method = "GET", .path = "/healthz"};
        http_client_perform(client, &call);
        ck_assert_msg(call.reply.status == 200, "request %zu: %s", i, curl_easy_strerror(call.reply.failure));
        reply_free(&call.reply);
    }
    http_client_close(client);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/log");
    TCase *c = tcase_create("log");
    tcase_add_test(c, lines_are_json);
    tcase_add_test(c, a_request_line);
    tcase_add_test(c, what_happens_is_logged);
    tcase_add_test(c, as_text);
    tcase_add_test(c, levels);
    tcase_add_test(c, nobody_reads);
    suite_add_tcase(s, c);
    return s;
}
