/* Answers of some megabytes: written while they are sent, with the same numbers as in any other form, to clients that
 * are quick, slow, many, or gone. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKENS 320 /* maps of 4 x 320 x 320 numbers: over a mebibyte of text at their shortest */

/* Tokens that differ, so that the maps do; with more members behind. */
static char *large_request(const char *members)
{
    const size_t count = (size_t)TOKENS * 64;
    float *input = malloc(count * sizeof *input);
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        input[i] = (float)(int32_t)state / 1e9f;
    }
    char *base64 = base64_text(input, count * sizeof *input);
    char *body = quoted("{'weights':'plain64','input':{'shape':[1,%d,64],'dtype':'f32','base64':'%s'}%s}", TOKENS,
                        base64, members);
    free(base64);
    free(input);
    return body;
}

/* The tensor of a document in base64 is bit for bit that of one in JSON. */
static void expect_same_numbers(const json_t *text, const json_t *base64, const char *name)
{
    size_t count, length;
    double *numbers = flat_numbers(json_object_get(text, name), &count);
    unsigned char *bytes =
        base64_bytes(json_string_value(json_object_get(json_object_get(base64, name), "base64")), &length);
    ck_assert_uint_eq(length, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const float number = (float)numbers[i];
        ck_assert_msg(memcmp(&number, bytes + i * sizeof number, sizeof number) == 0, "%s, number %zu", name, i);
    }
    free(numbers);
    free(bytes);
}

static json_t *parse(const char *body, size_t length)
{
    json_error_t fault;
    json_t *document = json_loadb(body, length, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(document, "%s at %d of %zu", fault.text, fault.position, length);
    return document;
}

START_TEST(same_numbers_in_every_form)
{
    struct server_process *server = server_process_start(NULL);
    char *text_body = large_request(""), *base64_body = large_request(",\"encoding\":\"base64\""), value[64];
    struct reply text = http_post(server, FORWARD, text_body), base64 = http_post(server, FORWARD, base64_body);
    ck_assert_int_eq(text.failure, CURLE_OK);
    ck_assert_int_eq(text.status, 200);
    ck_assert(reply_header(&text, "Transfer-Encoding", value, sizeof value));
    ck_assert_str_eq(value, "chunked");
    ck_assert(!reply_header(&text, "Content-Length", value, sizeof value));
    ck_assert(reply_header(&text, "server-timing", value, sizeof value));
    ck_assert_ptr_null(strstr(value, "encode"));
    ck_assert_int_eq(base64.status, 200);
    ck_assert(reply_header(&base64, "Content-Length", value, sizeof value));
    ck_assert_uint_eq(strtoul(value, NULL, 10), base64.length);
    json_t *document = reply_json(&text), *words = reply_json(&base64);
    expect_same_numbers(document, words, "output");
    expect_same_numbers(document, words, "attention");
    const json_t *timing = json_object_get(document, "timing_us");
    ck_assert(json_number_value(json_object_get(timing, "encode")) > 0);
    char *line;
    ck_assert(server_process_logs(server, "\"request\"", PATIENCE_SECONDS, &line));
    json_t *logged = parse(line, strlen(line));
    ck_assert_uint_eq((size_t)json_integer_value(json_object_get(logged, "bytes_out")), text.length);
    ck_assert(json_number_value(json_object_get(logged, "encode_us")) > 0);
    json_decref(logged);
    free(line);

    /* HTTP/1.0 knows no chunks: a length, or the client could take a part for the whole. */
    char *old = quoted("POST " FORWARD " HTTP/1.0\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", strlen(text_body), "");
    int descriptor = raw_connect(server, 0);
    ck_assert(raw_send_text(descriptor, old) && raw_send_text(descriptor, text_body));
    struct raw_answer raw = raw_receive(descriptor, PATIENCE_SECONDS, NULL);
    ck_assert_int_eq(raw_status(&raw), 200);
    ck_assert(raw.closed);
    const char *head_end = strstr(raw.data, "\r\n\r\n"), *length = strstr(raw.data, "Content-Length: ");
    ck_assert(length && length < head_end);
    ck_assert_uint_eq(strtoul(length + 16, NULL, 10), raw.length - (size_t)(head_end + 4 - raw.data));
    json_t *whole = parse(head_end + 4, raw.length - (size_t)(head_end + 4 - raw.data));
    expect_same_numbers(whole, words, "attention");
    raw_answer_free(&raw);
    close(descriptor);

    json_decref(whole);
    json_decref(document);
    json_decref(words);
    reply_free(&text);
    reply_free(&base64);
    free(old);
    free(text_body);
    free(base64_body);
    server_process_stop(server);
}
END_TEST

/* The first `length` bytes of each are the same: all but the times. */
static void expect_same_text(const struct reply *reply, const struct reply *first)
{
    const char *times = memmem(first->body, first->length, "\"timing_us\"", 11);
    ck_assert_int_eq(reply->failure, CURLE_OK);
    ck_assert_int_eq(reply->status, 200);
    ck_assert_uint_gt(reply->length, (size_t)(times - first->body));
    ck_assert(memcmp(reply->body, first->body, (size_t)(times - first->body)) == 0);
}

/* More clients than workers and polling threads, with one worker and with three. */
START_TEST(many_at_once)
{
    enum { CLIENTS = 12 };
    struct server_process *server = server_process_start(&(struct server_options){
        .server_members = _i ? "'workers':3,'drain_delay_s':0" : "'workers':1,'drain_delay_s':0"});
    char *body = large_request("");
    struct reply first = http_post(server, FORWARD, body);
    struct http_call calls[CLIENTS];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < CLIENTS; i++)
            calls[i] = (struct http_call){.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
        http_perform_all(server, calls, CLIENTS);
        for (size_t i = 0; i < CLIENTS; i++) {
            expect_same_text(&calls[i].reply, &first);
            reply_free(&calls[i].reply);
        }
    }
    reply_free(&first);
    free(body);
    server_process_stop(server);
}
END_TEST

static int ask(const struct server_process *server, const char *body, int receive_buffer)
{
    char *head = quoted("POST " FORWARD " HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    int descriptor = raw_connect(server, receive_buffer);
    ck_assert(raw_send_text(descriptor, head) && raw_send_text(descriptor, body));
    free(head);
    return descriptor;
}

/* Asks until there is room for the answer, which is begun then: those who left hold theirs until the server sees it. */
static int ask_with_patience(const struct server_process *server, const char *body, int receive_buffer)
{
    for (double until = seconds_now() + PATIENCE_SECONDS; seconds_now() < until; sleep_ms(20)) {
        const int descriptor = ask(server, body, receive_buffer);
        char begin[13] = "";
        ck_assert_int_eq(recv(descriptor, begin, 12, MSG_WAITALL | MSG_PEEK), 12);
        if (strcmp(begin, "HTTP/1.1 429") != 0)
            return descriptor;
        close(descriptor);
    }
    ck_abort_msg("there never was room for an answer");
    return -1;
}

/* Reads at least `length` bytes. */
static size_t read_some(int descriptor, size_t length)
{
    static char buffer[1 << 16];
    size_t done = 0;
    while (done < length) {
        ssize_t got = recv(descriptor, buffer, sizeof buffer, 0);
        ck_assert_int_gt(got, 0);
        done += (size_t)got;
    }
    return done;
}

/* The rest of a chunked answer, of which some was read: its end is there. */
static void expect_rest(int descriptor)
{
    static char buffer[1 << 16];
    size_t kept = 0;
    for (ssize_t got; kept < 7 || memcmp(buffer + kept - 7, "\r\n0\r\n\r\n", 7) != 0; kept += (size_t)got) {
        if (kept > sizeof buffer / 2) { /* its last bytes are enough */
            memmove(buffer, buffer + kept - 1024, 1024);
            kept = 1024;
        }
        got = recv(descriptor, buffer + kept, sizeof buffer - kept, 0);
        ck_assert_msg(got > 0, "the answer ends without its last chunk");
    }
    ck_assert_ptr_nonnull(memmem(buffer, kept, "\"timing_us\"", 11));
}

/* Clients that leave in the middle, at once or after a while, hold nothing: what they held is needed by the request
 * that follows. */
START_TEST(clients_that_leave)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'limits':{'memory_budget_bytes':50000000}"});
    char *body = large_request("");
    for (int round = 0; round < 30; round++) {
        int descriptor = ask_with_patience(server, body, 1 << 16);
        read_some(descriptor, (size_t)(round % 5) * 100000 + 1);
        if (round % 3 == 0)
            sleep_ms(5);
        if (round % 2) { /* with a reset */
            const struct linger hard = {.l_onoff = 1, .l_linger = 0};
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        close(descriptor);
    }
    /* About 40 MB: maps of 4 x 1500 x 1500 numbers, and what they are made of. */
    char *data = malloc(2 * 1500 * 64 + 200), *at = data;
    at += sprintf(at, "{\"weights\":\"plain64\",\"input\":{\"shape\":[1,1500,64],\"data\":[0");
    for (size_t i = 1; i < 1500 * 64; i++)
        at = stpcpy(at, ",0");
    stpcpy(at, "]},\"return\":[\"attention\"],\"top_k\":1}");
    struct reply reply = {0};
    for (double until = seconds_now() + PATIENCE_SECONDS; seconds_now() < until; sleep_ms(20)) {
        reply_free(&reply);
        reply = http_post(server, FORWARD, data);
        if (reply.status != 429)
            break;
    }
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    reply_free(&reply);
    free(data);
    free(body);
    server_process_stop(server);
}
END_TEST

/* A client that takes its time gets it all. */
START_TEST(slow_client)
{
    struct server_process *server = server_process_start(NULL);
    char *body = large_request("");
    int descriptor = ask(server, body, 1 << 16);
    for (int i = 0; i < 10; i++) {
        read_some(descriptor, 20000);
        sleep_ms(30);
    }
    expect_served(server); /* which waits for no slow client */
    expect_rest(descriptor);
    /* The connection is as good as new. */
    ck_assert(raw_send_text(descriptor, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    struct raw_answer alive = raw_receive(descriptor, PATIENCE_SECONDS, NULL);
    ck_assert_int_eq(raw_status(&alive), 200);
    raw_answer_free(&alive);
    close(descriptor);
    free(body);
    server_process_stop(server);
}
END_TEST

/* The server stops while answers are on their way, with nothing read of them yet or in the middle: they are whole. */
START_TEST(stopping)
{
    enum { CLIENTS = 4 };
    struct server_process *server =
        server_process_start(&(struct server_options){.server_members = "'drain_delay_s':0"});
    char *body = large_request("");
    int descriptors[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) {
        descriptors[i] = ask(server, body, 1 << 16);
        read_some(descriptors[i], i * 400000 + 1);
    }
    server_process_signal(server, SIGTERM);
    sleep_ms(100);
    for (size_t i = 0; i < CLIENTS; i++) {
        expect_rest(descriptors[i]);
        close(descriptors[i]);
    }
    ck_assert_int_eq(server_process_wait(server, PATIENCE_SECONDS), 0);
    free(body);
    server_process_stop(server);
}
END_TEST

/* One number in a million that JSON does not have: a problem, and no byte of an answer before it. */
START_TEST(not_finite)
{
    struct server_process *server = server_process_start(NULL);
    char *data = malloc(4 * 600 * 512 + 200), *at = data;
    at += sprintf(
        at,
        "{\"weights\":\"plain512\",\"return\":[\"output\",\"attention\"],\"input\":{\"shape\":[600,512],\"data\":[");
    for (size_t i = 0; i < 600 * 512; i++)
        at += sprintf(at, "%s%s", i ? "," : "", i / 512 == 599 ? "3e38" : "0");
    stpcpy(at, "]}}");
    struct reply reply = http_post(server, FORWARD, data);
    expect_problem(&reply, 422, NULL, "output[599][0]", "not finite");
    reply_free(&reply);
    free(data);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("stream");
    TCase *c = tcase_create("stream");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, same_numbers_in_every_form);
    tcase_add_loop_test(c, many_at_once, 0, 2);
    tcase_add_test(c, clients_that_leave);
    tcase_add_test(c, slow_client);
    tcase_add_test(c, stopping);
    tcase_add_test(c, not_finite);
    suite_add_tcase(s, c);
    return s;
}
