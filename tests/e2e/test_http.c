/* HTTP itself: methods, headers, framing of bodies, connections that are kept. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HOST      "Host: a\r\n"
#define CLOSE     "Connection: close\r\n"
#define JSON_TYPE "Content-Type: application/json\r\n"

static char *wire(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *wire(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    ck_assert_int_ge(vasprintf(&text, format, arguments), 0);
    va_end(arguments);
    return text;
}

/* Header lines without those that differ between any two answers, one long text. */
static char *stable_headers(const char *answer)
{
    static const char *const differing[] = {"date:", "x-request-id:", "server-timing:", "traceresponse:"};
    char *kept = calloc(strlen(answer) + 1, 1);
    const char *end = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(end);
    for (const char *line = answer; line < end; line = strstr(line, "\r\n") + 2) {
        bool differs = false;
        for (size_t i = 0; i < sizeof differing / sizeof *differing; i++)
            differs |= strncasecmp(line, differing[i], strlen(differing[i])) == 0;
        if (!differs)
            strncat(kept, line, strcspn(line, "\r") + 2);
        if (strstr(line, "\r\n") == end)
            break;
    }
    return kept;
}

START_TEST(head_is_get_without_the_body)
{
    static const char *const paths[] = {"/healthz",    "/readyz",          "/openapi.json",
                                        "/v1/weights", "/v1/weights/demo", "/v1/nope"};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *get = wire("GET %s HTTP/1.1\r\n" HOST CLOSE "\r\n", paths[i]),
             *head = wire("HEAD %s HTTP/1.1\r\n" HOST CLOSE "\r\n", paths[i]);
        struct raw_answer full = raw_exchange_text(server, get, PATIENCE_SECONDS),
                          bare = raw_exchange_text(server, head, PATIENCE_SECONDS);
        ck_assert(full.closed && bare.closed);
        ck_assert_msg(raw_count(&bare, "\r\n\r\n") == 1 && strcmp(strstr(bare.data, "\r\n\r\n"), "\r\n\r\n") == 0,
                      "HEAD %s has a body: %s", paths[i], bare.data);
        if (raw_status(&full) == 200) { /* the detail of an error names the method */
            char *a = stable_headers(full.data), *b = stable_headers(bare.data);
            ck_assert_str_eq(a, b);
            free(a);
            free(b);
        }
        ck_assert_int_eq(raw_status(&full), raw_status(&bare));
        raw_answer_free(&full);
        raw_answer_free(&bare);
        free(get);
        free(head);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(every_answer_has_an_id_and_timing)
{
    static const char *const paths[] = {"/healthz", "/v1/weights", "/openapi.json", "/v1/nope", FORWARD};
    struct server_process *server = server_process_start(NULL);
    char last[128] = "";
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char id[128], timing[256];
        struct reply reply = http_get(server, paths[i]);
        ck_assert(reply_header(&reply, "x-request-id", id, sizeof id) && *id);
        ck_assert_str_ne(id, last);
        ck_assert(reply_header(&reply, "server-timing", timing, sizeof timing));
        strcpy(last, id);
        reply_free(&reply);
    }
    char *body = small_request(), timing[256];
    struct reply reply = http_post(server, FORWARD, body);
    ck_assert(reply_header(&reply, "server-timing", timing, sizeof timing));
    static const char *const stages[] = {"parse;dur=", "queue;dur=", "compute;dur=", "encode;dur="};
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(strstr(timing, stages[i]) != NULL, "server-timing: %s", timing);
    reply_free(&reply);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(request_id_is_echoed_when_sane)
{
    struct server_process *server = server_process_start(NULL);
    char long_one[3000] = "x-request-id: ", got[4096], *body = small_request();
    memset(long_one + strlen(long_one), 'a', 2000);
    const struct {
        const char *header;
        bool sane;
    } sent[] = {{"x-request-id: abc-123", true},
                {"X-Request-ID: 0f3c:9/Z_~.", true},
                {long_one, false},
                {"x-request-id: a b\tc", false},
                {"x-request-id: x\"y<z>", false}};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        const char *const headers[] = {sent[i].header, NULL}, *value = strchr(sent[i].header, ' ') + 1;
        const struct http_call calls[] = {
            {.method = "POST", .path = FORWARD, .body = body, .length = strlen(body), .headers = headers},
            {.method = "GET", .path = "/v1/nope", .headers = headers}};
        for (size_t n = 0; n < 2; n++) {
            struct reply reply = http_send(server, calls[n]);
            ck_assert_int_eq(reply.status, n ? 404 : 200);
            ck_assert(reply_header(&reply, "x-request-id", got, sizeof got));
            ck_assert_msg((strcmp(got, value) == 0) == sent[i].sane, "\"%.40s\" was answered with \"%.40s\"",
                          sent[i].header, got);
            ck_assert_uint_lt(strlen(got), 200);
            ck_assert_uint_gt(strlen(got), 0);
            reply_free(&reply);
        }
    }
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(a_connection_serves_a_hundred_requests)
{
    struct server_process *server = server_process_start(NULL);
    struct http_client *client = http_client_open(server);
    char *body = small_request();
    long connections = 0;
    for (size_t i = 0; i < 100; i++) {
        struct http_call call = {.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
        if (i % 10 == 3)
            call.body = "{\"input\":1}", call.length = 11; /* errors do not close it */
        if (i % 10 == 7)
            call = (struct http_call){.method = "GET", .path = i % 20 == 7 ? "/healthz" : FORWARD};
        http_client_perform(client, &call);
        ck_assert_int_eq(call.reply.status, i % 10 == 3 ? 422 : i % 10 == 7 && i % 20 != 7 ? 405 : 200);
        connections += call.reply.new_connections;
        reply_free(&call.reply);
    }
    ck_assert_int_eq(connections, 1);
    http_client_close(client);
    free(body);
    server_process_stop(server);
}
END_TEST

static char *chunked(const char *body, size_t size)
{
    size_t length = strlen(body);
    char *text = calloc(length + 16 * (length / size + 3), 1), *to = text;
    for (size_t i = 0; i < length; i += size)
        to += sprintf(to, "%zx\r\n%.*s\r\n", length - i < size ? length - i : size, (int)size, body + i);
    strcpy(to, "0\r\n\r\n");
    return text;
}

START_TEST(bodies_come_in_chunks)
{
    struct server_process *server = server_process_start(NULL);
    static const size_t sizes[] = {7, 100, 100000};
    char *body = small_request();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *chunks = chunked(body, sizes[i]);
        char *request = wire("POST " FORWARD " HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n%s", chunks);
        struct raw_answer answer = raw_exchange_text(server, request, PATIENCE_SECONDS);
        ck_assert_int_eq(raw_status(&answer), 200);
        ck_assert_ptr_nonnull(strstr(answer.data, "\"output\""));
        ck_assert(answer.closed);
        raw_answer_free(&answer);
        free(request);
        free(chunks);
    }
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(expect_100_continue)
{
    struct server_process *server = server_process_start(NULL);
    char *body = small_request();
    char *head =
        wire("POST " FORWARD " HTTP/1.1\r\n" HOST CLOSE JSON_TYPE "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    int descriptor = raw_connect(server, 0);
    ck_assert(raw_send_text(descriptor, head));
    struct raw_answer interim = raw_receive(descriptor, PATIENCE_SECONDS, "\r\n\r\n");
    ck_assert_int_eq(raw_status(&interim), 100);
    ck_assert(raw_send_text(descriptor, body));
    struct raw_answer answer = raw_receive(descriptor, PATIENCE_SECONDS, NULL);
    ck_assert_int_eq(raw_status(&answer), 200);
    ck_assert_ptr_nonnull(strstr(answer.data, "\"output\""));
    raw_answer_free(&interim);
    raw_answer_free(&answer);
    close(descriptor);
    free(head);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(refused_before_100_continue)
{
    static const struct {
        const char *line, *headers;
        int status;
    } refused[] = {{"POST " FORWARD, "Content-Type: text/csv\r\nExpect: 100-continue\r\n", 415},
                   {"POST " FORWARD, JSON_TYPE "Content-Encoding: br\r\nExpect: 100-continue\r\n", 415},
                   {"POST /v1/nope", JSON_TYPE "Expect: 100-continue\r\n", 404},
                   {"PUT " FORWARD, JSON_TYPE "Expect: 100-continue\r\n", 405},
                   {"POST " FORWARD, JSON_TYPE "Expect: something-else\r\n", 417}};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *head = wire("%s HTTP/1.1\r\n" HOST "%sContent-Length: 1000\r\n\r\n", refused[i].line, refused[i].headers);
        struct raw_answer answer = raw_exchange_text(server, head, PATIENCE_SECONDS);
        ck_assert_msg(raw_status(&answer) == refused[i].status, "%s %s: %.100s", refused[i].line, refused[i].headers,
                      answer.data);
        ck_assert_uint_eq(raw_answers(&answer), 1);
        ck_assert(answer.closed);
        raw_answer_free(&answer);
        free(head);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(pipelined_requests)
{
    struct server_process *server = server_process_start(NULL);
    char *body = small_request();
    char *request = wire("POST " FORWARD " HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: %zu\r\n\r\n%s"
                         "GET /healthz HTTP/1.1\r\n" HOST CLOSE "\r\n",
                         strlen(body), body);
    struct raw_answer answer = raw_exchange_text(server, request, PATIENCE_SECONDS);
    ck_assert_uint_eq(raw_count(&answer, "HTTP/1.1 200"), 2);
    ck_assert(answer.closed);
    const char *first = strstr(answer.data, "\"output\""), *second = strstr(answer.data, "\"status\":\"ok\"");
    ck_assert(first && second && first < second);
    raw_answer_free(&answer);
    free(request);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(request_targets)
{
    static const struct {
        const char *target;
        int status;
    } targets[] = {{"http://example.test/healthz", 200},
                   {"http://example.test:80/v1/weights/demo?x=1", 200},
                   {"http://example.test/nope", 404},
                   {"/healthz?x=1&y=%00", 200},
                   {"/v1/weights/demo?a/b=c", 200},
                   {"/v1/weights/de%6Do", 200},
                   {"/v1/weights%2Fdemo", 404},
                   {"/v1/weights/demo%2F", 404},
                   {"/v1/weights/demo%00", 404},
                   {"/v1/../healthz", 404},
                   {"//healthz", 404},
                   {"/healthz%00", 404},
                   {"/healthz/", 404},
                   {"/v1/weights/", 404},
                   {"/v1/weights/%zz", 404}};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char *request = wire("GET %s HTTP/1.1\r\n" HOST CLOSE "\r\n", targets[i].target);
        struct raw_answer answer = raw_exchange_text(server, request, PATIENCE_SECONDS);
        ck_assert_msg(raw_status(&answer) == targets[i].status, "%s: %.200s", targets[i].target, answer.data);
        raw_answer_free(&answer);
        free(request);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(get_with_a_body)
{
    struct server_process *server = server_process_start(NULL);
    struct raw_answer answer = raw_exchange_text(server,
                                                 "GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                                                 "GET /v1/weights HTTP/1.1\r\n" HOST CLOSE "\r\n",
                                                 PATIENCE_SECONDS);
    ck_assert_msg(raw_count(&answer, "HTTP/1.1 200") == 2 && raw_answers(&answer) == 2, "%s", answer.data);
    raw_answer_free(&answer);
    server_process_stop(server);
}
END_TEST

START_TEST(http_1_0)
{
    struct server_process *server = server_process_start(NULL);
    char *body = small_request();
    char *post = wire("POST " FORWARD " HTTP/1.0\r\n" JSON_TYPE "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    const char *const requests[] = {"GET /healthz HTTP/1.0\r\n\r\n", post};
    for (size_t i = 0; i < 2; i++) {
        struct raw_answer answer = raw_exchange_text(server, requests[i], PATIENCE_SECONDS);
        ck_assert_msg(raw_status(&answer) == 200, "%s", answer.data);
        ck_assert_msg(answer.closed, "an HTTP/1.0 connection stays open");
        raw_answer_free(&answer);
    }
    struct raw_answer answer = raw_exchange_text(
        server, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n",
        PATIENCE_SECONDS);
    ck_assert_uint_eq(raw_count(&answer, " 200 OK"), 2);
    raw_answer_free(&answer);
    free(post);
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/http");
    TCase *c = tcase_create("http");
    tcase_add_test(c, head_is_get_without_the_body);
    tcase_add_test(c, every_answer_has_an_id_and_timing);
    tcase_add_test(c, request_id_is_echoed_when_sane);
    tcase_add_test(c, a_connection_serves_a_hundred_requests);
    tcase_add_test(c, bodies_come_in_chunks);
    tcase_add_test(c, expect_100_continue);
    tcase_add_test(c, refused_before_100_continue);
    tcase_add_test(c, pipelined_requests);
    tcase_add_test(c, request_targets);
    tcase_add_test(c, get_with_a_body);
    tcase_add_test(c, http_1_0);
    suite_add_tcase(s, c);
    return s;
}
