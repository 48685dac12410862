/* Many connections, too many, and clients that leave. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_TYPE "Content-Type: application/json\r\n"
#define ALIVE     "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

#define LIMIT   20
#define LIMITED "'drain_delay_s':0,'max_connections':20,'upload_timeout_s':300,'idle_timeout_s':300"

static struct server_process *start(const char *server_members)
{
    return server_process_start(
        &(struct server_options){.server_members = server_members, .members = "'limits':{'queue_depth':1024}"});
}

/* Head of a small request, and its body. */
static char *small_head(const char *body)
{
    char *head;
    ck_assert_int_ge(asprintf(&head, "POST " FORWARD " HTTP/1.1\r\nHost: a\r\n" JSON_TYPE "Content-Length: %zu\r\n\r\n",
                              strlen(body)),
                     0);
    return head;
}

static void expect_answer(int descriptor, int status)
{
    struct raw_answer answer = raw_receive(descriptor, PATIENCE_SECONDS, "}");
    ck_assert_msg(raw_status(&answer) == status, "expected %d: %.200s", status, answer.data);
    raw_answer_free(&answer);
}

/* A connection is idle a little after its client has the answer, so that the first of several may be idle last where
 * the machine stands still between the two. Whichever goes, it is one. */
START_TEST(the_longest_idle_gives_way)
{
    bool longest_went = false;
    for (size_t try = 0; try < TRIES && !longest_went; try++) {
        struct server_process *server = start(LIMITED);
        int idle[LIMIT];
        for (size_t i = 0; i < LIMIT; i++) {
            idle[i] = raw_connect(server, 0);
            ck_assert(raw_send_text(idle[i], ALIVE));
            expect_answer(idle[i], 200);
            sleep_ms(2);
        }
        expect_served(server);
        struct pollfd polled[LIMIT];
        for (size_t i = 0; i < LIMIT; i++)
            polled[i] = (struct pollfd){.fd = idle[i], .events = POLLIN};
        ck_assert_msg(poll(polled, LIMIT, PATIENCE_SECONDS * 1000) == 1, "no idle connection gives way, or several do");
        longest_went = polled[0].revents != 0;
        for (size_t i = 0; i < LIMIT; i++)
            if (polled[i].revents) {
                struct raw_answer gone = raw_receive(idle[i], PATIENCE_SECONDS, NULL);
                ck_assert_msg(gone.closed && gone.length == 0, "the one that gives way hears %s", gone.data);
                raw_answer_free(&gone);
            }
        if (longest_went) {
            ck_assert(raw_send_text(idle[LIMIT - 1], ALIVE));
            expect_answer(idle[LIMIT - 1], 200);
        }
        for (size_t i = 0; i < LIMIT; i++)
            close(idle[i]);
        server_process_stop(server);
    }
    ck_assert_msg(longest_went, "the longest idle connection stays open");
}
END_TEST

START_TEST(a_newcomer_among_the_busy_is_refused)
{
    struct server_process *server = start(LIMITED);
    char *body = small_request(), *head;
    int busy[LIMIT];
    ck_assert_int_ge(asprintf(&head,
                              "POST " FORWARD " HTTP/1.1\r\nHost: a\r\n" JSON_TYPE
                              "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                              strlen(body)),
                     0);
    for (size_t i = 0; i < LIMIT; i++) {
        busy[i] = raw_connect(server, 0);
        ck_assert(raw_send_text(busy[i], head));
        struct raw_answer seen = raw_receive(busy[i], PATIENCE_SECONDS, "\r\n\r\n");
        ck_assert_int_eq(raw_status(&seen), 100);
        raw_answer_free(&seen);
    }
    struct raw_answer refused = raw_exchange_text(server, ALIVE, PATIENCE_SECONDS);
    ck_assert_msg(raw_status(&refused) == 503 && refused.closed && strstr(refused.data, "max_connections"), "%s",
                  refused.data);
    ck_assert_ptr_nonnull(strstr(refused.data, "Retry-After: "));
    ck_assert_ptr_nonnull(strstr(refused.data, "application/problem+json"));
    raw_answer_free(&refused);
    for (size_t i = 0; i < LIMIT; i++) {
        ck_assert(raw_send_text(busy[i], body));
        expect_answer(busy[i], 200);
    }
    expect_served(server); /* one of them is idle now, and gives way */
    for (size_t i = 0; i < LIMIT; i++)
        close(busy[i]);
    free(head);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(three_hundred_at_once)
{
    struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':300,'request_timeout_s':300");
    enum { MANY = 300 };
    static struct http_call calls[MANY];
    char *body = small_request(), *first = NULL;
    for (size_t i = 0; i < MANY; i++)
        calls[i] = (struct http_call){.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
    http_perform_all(server, calls, MANY);
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_msg(calls[i].reply.status == 200, "request %zu: %s, status %ld: %.200s", i,
                      curl_easy_strerror(calls[i].reply.failure), calls[i].reply.status, calls[i].reply.body);
        char *end = strstr(calls[i].reply.body, "\"timing_us\"");
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        if (!first)
            first = strdup(calls[i].reply.body);
        ck_assert_str_eq(calls[i].reply.body, first);
        reply_free(&calls[i].reply);
    }
    free(first);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(clients_that_leave)
{
    struct server_process *server = start("'drain_delay_s':0");
    char *small = small_request(), *small_first = small_head(small);
    char *heavy = heavy_request(1000), *end = strstr(heavy, ",\"return\"");
    *end = '\0';
    char *maps = quoted("%s,'return':['attention']}", heavy), *maps_head = small_head(maps);
    for (size_t i = 0; i < 5; i++) {
        /* with the headers sent; in the middle of the body; without waiting; in the middle of the answer */
        int descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor, small_first));
        close(descriptor);
        descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor, small_first) && raw_send(descriptor, small, 100));
        close(descriptor);
        descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor, maps_head) && raw_send_text(descriptor, maps));
        close(descriptor);
        descriptor = raw_connect(server, 4096);
        ck_assert(raw_send_text(descriptor, maps_head) && raw_send_text(descriptor, maps));
        struct raw_answer begun = raw_receive(descriptor, PATIENCE_SECONDS, "\r\n\r\n");
        ck_assert_int_eq(raw_status(&begun), 200);
        raw_answer_free(&begun);
        close(descriptor);
    }
    expect_served(server);
    ck_assert_msg(server_process_logs(server, "\"client-gone\"", PATIENCE_SECONDS, NULL),
                  "the log says nothing of clients that left");
    free(maps_head);
    free(maps);
    free(heavy);
    free(small_first);
    free(small);
    server_process_stop(server);
}
END_TEST

START_TEST(a_body_byte_by_byte)
{
    struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':300");
    char *body = small_request(), *head = small_head(body);
    int descriptor = raw_connect(server, 0);
    for (const char *byte = head; *byte; byte++)
        ck_assert(raw_send(descriptor, byte, 1));
    for (const char *byte = body; *byte; byte++) {
        ck_assert(raw_send(descriptor, byte, 1));
        if ((byte - body) % 10 == 0)
            sleep_ms(1);
    }
    struct raw_answer answer = raw_receive(descriptor, PATIENCE_SECONDS, "timing_us");
    ck_assert_msg(raw_status(&answer) == 200 && strstr(answer.data, "\"output\""), "%.200s", answer.data);
    raw_answer_free(&answer);
    close(descriptor);
    free(head);
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/connections");
    TCase *c = tcase_create("connections");
    tcase_add_test(c, the_longest_idle_gives_way);
    tcase_add_test(c, a_newcomer_among_the_busy_is_refused);
    tcase_add_test(c, three_hundred_at_once);
    tcase_add_test(c, clients_that_leave);
    tcase_add_test(c, a_body_byte_by_byte);
    suite_add_tcase(s, c);
    return s;
}
