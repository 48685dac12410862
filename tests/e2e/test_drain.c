/* The ways to stop: nothing that was sent is lost, and the exit code is 0. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ALIVE "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

static struct server_process *start(const char *server_members)
{
    return server_process_start(&(struct server_options){.server_members = server_members});
}

static void expect_end(struct server_process *server)
{
    ck_assert_int_eq(server_process_wait(server, PATIENCE_SECONDS), 0);
    ck_assert_msg(server_process_logs(server, "\"stopped\"", PATIENCE_SECONDS, NULL),
                  "the log does not say that it has stopped");
    server_process_stop(server);
}

/* Waits until /readyz has failed. */
static void expect_unready(struct server_process *server)
{
    double until = seconds_now() + PATIENCE_SECONDS;
    struct reply reply = http_get(server, "/readyz");
    while (reply.status == 200 && seconds_now() < until) {
        reply_free(&reply);
        sleep_ms(10);
        reply = http_get(server, "/readyz");
    }
    char after[16];
    expect_problem(&reply, 503, NULL, NULL, "/readyz");
    ck_assert(reply_header(&reply, "Retry-After", after, sizeof after));
    reply_free(&reply);
}

static void expect_close_header(const struct reply *reply)
{
    char connection[32];
    ck_assert_msg(reply->status == 200, "status %ld: %.200s", reply->status, reply->body);
    ck_assert_msg(reply_header(reply, "Connection", connection, sizeof connection) &&
                      strcasecmp(connection, "close") == 0,
                  "%s", reply->headers);
}

START_TEST(serves_on_during_the_delay)
{
    struct server_process *server = start("'drain_delay_s':3000");
    struct http_client *kept = http_client_open(server);
    struct http_call alive = {.method = "GET", .path = "/healthz"};
    char *body = small_request();
    http_client_perform(kept, &alive);
    reply_free(&alive.reply);
    server_process_signal(server, SIGTERM);
    expect_unready(server);
    struct http_call call = {.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
    http_client_perform(kept, &call);
    expect_close_header(&call.reply);
    reply_free(&call.reply);
    struct reply reply = http_post(server, FORWARD, body);
    expect_close_header(&reply);
    reply_free(&reply);
    reply = http_get(server, "/healthz");
    expect_close_header(&reply);
    reply_free(&reply);
    http_client_close(kept);
    free(body);
    server_process_signal(server, SIGTERM);
    expect_end(server);
}
END_TEST

START_TEST(the_delay_ends_by_itself)
{
    struct server_process *server = start("'drain_delay_s':1.5");
    const double begun = seconds_now();
    server_process_signal(server, SIGTERM);
    ck_assert_int_eq(server_process_wait(server, PATIENCE_SECONDS), 0);
    ck_assert_msg(seconds_now() - begun > 1.4, "it stopped after %.1f s of 1.5", seconds_now() - begun);
    expect_end(server);
}
END_TEST

START_TEST(a_second_signal_ends_the_delay)
{
    struct server_process *server = start("'drain_delay_s':3000");
    server_process_signal(server, SIGTERM);
    expect_unready(server);
    ck_assert_int_eq(server_process_wait(server, 0.2), -1);
    server_process_signal(server, SIGTERM);
    expect_end(server);
}
END_TEST

START_TEST(sigint_has_no_delay)
{
    struct server_process *server = start("'drain_delay_s':3000");
    int idle = raw_connect(server, 0);
    ck_assert(raw_send_text(idle, ALIVE));
    struct raw_answer answer = raw_receive(idle, PATIENCE_SECONDS, "}");
    ck_assert_int_eq(raw_status(&answer), 200);
    raw_answer_free(&answer);
    server_process_signal(server, SIGINT);
    answer = raw_receive(idle, PATIENCE_SECONDS, NULL);
    ck_assert(answer.closed);
    raw_answer_free(&answer);
    close(idle);
    expect_end(server);
}
END_TEST

START_TEST(a_half_sent_request_is_answered)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':300");
        char *body = small_request(), *head;
        ck_assert_int_ge(asprintf(&head,
                                  ALIVE "POST " FORWARD " HTTP/1.1\r\nHost: a\r\n"
                                        "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                                  strlen(body)),
                         0);
        int descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor, head));
        struct raw_answer answer = raw_receive(descriptor, PATIENCE_SECONDS, "HTTP/1.1 100 "); /* the head is read */
        ck_assert_int_eq(raw_status(&answer), 200);
        ck_assert_uint_eq(raw_count(&answer, "HTTP/1.1 100 "), 1);
        raw_answer_free(&answer);
        ck_assert(raw_send(descriptor, body, 100));
        server_process_signal(server, signals[i]);
        ck_assert(server_process_logs(server, "\"drain\"", PATIENCE_SECONDS, NULL));
        ck_assert_int_eq(server_process_wait(server, 0.5), -1);
        ck_assert(raw_send_text(descriptor, body + 100));
        answer = raw_receive(descriptor, PATIENCE_SECONDS, NULL);
        const char *last = strstr(answer.data, "HTTP/1.1 "); /* behind the rest of the 100, where that came in parts */
        struct raw_answer of_it = {.data = last ? strdup(last) : strdup("")};
        ck_assert_msg(raw_status(&of_it) == 200 || raw_status(&of_it) == 503, "status %d: %.200s", raw_status(&of_it),
                      answer.data);
        ck_assert(answer.closed);
        raw_answer_free(&of_it);
        raw_answer_free(&answer);
        close(descriptor);
        free(head);
        free(body);
        expect_end(server);
    }
}
END_TEST

/* The value of a metric without labels. */
static double metric(const struct server_process *server, const char *name)
{
    struct reply reply = http_get(server, "/metrics");
    char *line = quoted("\n%s ", name);
    ck_assert_int_eq(reply.status, 200);
    const char *at = strstr(reply.body, line);
    ck_assert_msg(at != NULL, "no metric %s", name);
    const double value = strtod(at + strlen(line), NULL);
    free(line);
    reply_free(&reply);
    return value;
}

/* Waits until a worker computes, or has computed. */
static void expect_work(const struct server_process *server)
{
    const double end = seconds_now() + PATIENCE_SECONDS;
    while (metric(server, "attnd_workers_busy") == 0 && metric(server, "attnd_compute_seconds_count") == 0 &&
           seconds_now() < end)
        sleep_ms(10);
}

START_TEST(running_work_is_finished)
{
    enum { CLIENTS = 5 };
    struct server_process *server =
        start("'drain_delay_s':0,'workers':1,'request_timeout_s':300,'upload_timeout_s':300");
    char *heavy = heavy_request(LONG_TOKENS), *request;
    int clients[CLIENTS];
    size_t served = 0;
    ck_assert_int_ge(asprintf(&request, "POST " FORWARD " HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                              strlen(heavy), heavy),
                     0);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = raw_connect(server, 0);
        ck_assert(raw_send_text(clients[i], request));
    }
    expect_work(server);
    server_process_signal(server, SIGTERM);
    for (size_t i = 0; i < CLIENTS; i++) {
        struct raw_answer answer = raw_receive(clients[i], 5 * PATIENCE_SECONDS, NULL);
        int status = raw_status(&answer);
        ck_assert_msg(status == 200 || status == 503, "request %zu: \"%.200s\"", i, answer.data);
        ck_assert_msg(status != 200 || strstr(answer.data, "\"timing_us\""), "request %zu: an answer without its end",
                      i);
        ck_assert_msg(answer.closed, "request %zu: the connection stays open", i);
        served += status == 200;
        raw_answer_free(&answer);
        close(clients[i]);
    }
    ck_assert_msg(served > 0, "not even the running one was finished");
    free(request);
    free(heavy);
    expect_end(server);
}
END_TEST

struct posting {
    const struct server_process *server;
    const char *body;
    atomic_bool stop;
    _Atomic unsigned served, lost;
};

static void *post_on(void *argument)
{
    struct posting *posting = argument;
    while (!posting->stop) {
        struct reply reply = http_post(posting->server, FORWARD, posting->body);
        if (reply.failure == CURLE_OK && reply.status == 200 && strstr(reply.body, "timing_us"))
            posting->served++;
        else if (posting->lost++ == 0)
            fprintf(stderr, "lost: %s, status %ld: %.200s\n", curl_easy_strerror(reply.failure), reply.status,
                    reply.body);
        reply_free(&reply);
    }
    return NULL;
}

/* Waits until a hundred more are answered. */
static void expect_more_served(struct posting *posting)
{
    const unsigned before = posting->served;
    const double end = seconds_now() + PATIENCE_SECONDS;
    while (posting->served < before + 100 && posting->lost == 0 && seconds_now() < end)
        sleep_ms(10);
    ck_assert_uint_eq(posting->lost, 0);
    ck_assert_uint_ge(posting->served, before + 100);
}

START_TEST(no_request_is_lost_during_the_delay)
{
    struct server_process *server = start("'drain_delay_s':3000");
    char *body = small_request();
    struct posting posting = {.server = server, .body = body};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_on, &posting), 0);
    expect_more_served(&posting);
    server_process_signal(server, SIGTERM);
    expect_unready(server);
    expect_more_served(&posting);
    posting.stop = true;
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(posting.lost, 0);
    free(body);
    server_process_signal(server, SIGTERM); /* the end of the delay */
    expect_end(server);
}
END_TEST

START_TEST(sighup_is_not_the_end)
{
    struct server_process *server = start("'drain_delay_s':0");
    server_process_signal(server, SIGHUP);
    ck_assert(server_process_logs(server, "SIGHUP", PATIENCE_SECONDS, NULL));
    expect_served(server);
    struct reply reply = http_get(server, "/readyz");
    ck_assert_int_eq(reply.status, 200);
    reply_free(&reply);
    server_process_stop(server);
}
END_TEST

START_TEST(what_waits_in_the_backlog_is_served)
{
    enum { WAITING = 900 }; /* more than one round of accepting takes */
    struct server_process *server = start("'drain_delay_s':0");
    int waiting[WAITING];
    expect_served(server);
    server_process_signal(server, SIGSTOP); /* the kernel still completes connections */
    for (size_t i = 0; i < WAITING; i++) {
        waiting[i] = raw_connect(server, 0);
        ck_assert(raw_send_text(waiting[i], ALIVE));
    }
    server_process_signal(server, SIGINT);
    server_process_signal(server, SIGCONT);
    for (size_t i = 0; i < WAITING; i++) {
        struct raw_answer answer = raw_receive(waiting[i], PATIENCE_SECONDS, NULL);
        ck_assert_msg(raw_status(&answer) == 200, "connection %zu: \"%s\"", i, answer.data);
        ck_assert(answer.closed);
        raw_answer_free(&answer);
        close(waiting[i]);
    }
    expect_end(server);
}
END_TEST

START_TEST(stops_again_and_again)
{
    for (size_t i = 0; i < 10; i++) {
        struct server_process *server = start("'drain_delay_s':0");
        if (i % 2)
            expect_served(server);
        server_process_signal(server, i % 3 ? SIGTERM : SIGINT);
        expect_end(server);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/drain");
    TCase *c = tcase_create("drain");
    tcase_add_test(c, serves_on_during_the_delay);
    tcase_add_test(c, the_delay_ends_by_itself);
    tcase_add_test(c, a_second_signal_ends_the_delay);
    tcase_add_test(c, sigint_has_no_delay);
    tcase_add_test(c, a_half_sent_request_is_answered);
    tcase_add_test(c, running_work_is_finished);
    tcase_add_test(c, no_request_is_lost_during_the_delay);
    tcase_add_test(c, sighup_is_not_the_end);
    tcase_add_test(c, what_waits_in_the_backlog_is_served);
    tcase_add_test(c, stops_again_and_again);
    suite_add_tcase(s, c);
    return s;
}
