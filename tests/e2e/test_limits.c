/* Every limit and every deadline: what is over it is refused with its name, what was held comes back, and the rest is
 * served. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POST      "POST " FORWARD " HTTP/1.1\r\nHost: a\r\n"
#define JSON_TYPE "Content-Type: application/json\r\n"

static struct server_process *start(const char *server_members, const char *limits)
{
    char members[512];
    snprintf(members, sizeof members, "'limits':{%s}", limits);
    return server_process_start(&(struct server_options){.server_members = server_members, .members = members});
}

static struct http_call forward_call(const char *body, const char *const *headers)
{
    return (struct http_call){
        .method = "POST", .path = FORWARD, .body = body, .length = strlen(body), .headers = headers};
}

/* ---- 413 and 429 */

START_TEST(body_over_max_body_bytes)
{
    struct server_process *server = start(NULL, "'max_body_bytes':100000");
    char *body = calloc(200001, 1);
    memset(body, ' ', 200000);
    struct reply reply = http_post(server, FORWARD, body);
    expect_problem(&reply, 413, NULL, "max_body_bytes", "a body of 200000 bytes");
    ck_assert_ptr_nonnull(strstr(reply.body, "100000"));
    reply_free(&reply);
    free(body);

    /* At once, before the body. */
    static const char *const heads[] = {POST JSON_TYPE "Content-Length: 99999999999\r\n\r\n",
                                        POST JSON_TYPE "Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct raw_answer answer = raw_exchange_text(server, heads[i], PATIENCE_SECONDS);
        ck_assert_msg(raw_status(&answer) == 413 && strstr(answer.data, "max_body_bytes"), "%s: %s", heads[i],
                      answer.data);
        ck_assert_uint_eq(raw_answers(&answer), 1);
        ck_assert(answer.closed);
        raw_answer_free(&answer);
    }

    /* Chunks: the answer comes where the limit is passed, though the end never does. */
    int descriptor = raw_connect(server, 0);
    char *chunk = malloc(0x4000 + 16), *to = chunk + sprintf(chunk, "4000\r\n");
    memset(to, ' ', 0x4000);
    strcpy(to + 0x4000, "\r\n");
    ck_assert(raw_send_text(descriptor, POST JSON_TYPE "Transfer-Encoding: chunked\r\n\r\n"));
    for (size_t i = 0; i < 7; i++)
        (void)raw_send_text(descriptor, chunk);
    struct raw_answer answer = raw_receive(descriptor, PATIENCE_SECONDS, NULL);
    ck_assert_msg(raw_status(&answer) == 413, "%s", answer.data);
    ck_assert(answer.closed);
    raw_answer_free(&answer);
    close(descriptor);
    free(chunk);

    char *small = small_request(), *padded = calloc(100001, 1);
    memset(padded, ' ', 100000);
    memcpy(padded, small, strlen(small));
    reply = http_post(server, FORWARD, padded);
    ck_assert_int_eq(reply.status, 200);
    reply_free(&reply);
    free(padded);
    free(small);
    server_process_stop(server);
}
END_TEST

START_TEST(answer_over_max_response_bytes)
{
    struct server_process *server = start(NULL, "'max_response_bytes':100000");
    char *heavy = heavy_request(400), *end = strstr(heavy, ",\"return\"");
    *end = '\0';
    char *maps = quoted("%s}", heavy);
    struct reply reply = http_post(server, FORWARD, maps);
    expect_problem(&reply, 413, NULL, "max_response_bytes", "400 x 400 maps");
    ck_assert_ptr_nonnull(strstr(reply.body, "100000"));
    reply_free(&reply);
    free(maps);
    char *less = quoted("%s,'return':['attention'],'include_heads':[0],'top_k':1,'encoding':'base64'}", heavy);
    reply = http_post(server, FORWARD, less);
    ck_assert_msg(reply.status == 200, "status %ld: %.200s", reply.status, reply.body);
    reply_free(&reply);
    free(less);
    free(heavy);
    server_process_stop(server);
}
END_TEST

START_TEST(work_over_max_request_gflop)
{
    struct server_process *server = start(NULL, "'max_request_gflop':0.01");
    char *heavy = heavy_request(1000);
    struct reply reply = http_post(server, FORWARD, heavy);
    expect_problem(&reply, 413, NULL, "max_request_gflop", "1000 tokens");
    reply_free(&reply);
    free(heavy);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(more_than_the_budget_can_ever_hold)
{
    struct server_process *server = start(NULL, "'memory_budget_bytes':4000000");
    char *heavy = heavy_request(2000), *end = strstr(heavy, ",\"return\"");
    *end = '\0';
    char *maps = quoted("%s,'encoding':'base64'}", heavy);
    struct reply reply = http_post(server, FORWARD, maps);
    expect_problem(&reply, 413, NULL, "memory_budget_bytes", "2000 x 2000 maps in 4 MB");
    reply_free(&reply);
    free(maps);
    free(heavy);
    struct raw_answer answer =
        raw_exchange_text(server, POST JSON_TYPE "Content-Length: 20000000\r\n\r\n", PATIENCE_SECONDS);
    ck_assert_msg(raw_status(&answer) == 413 && strstr(answer.data, "memory_budget_bytes"), "%s", answer.data);
    raw_answer_free(&answer);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(a_full_budget)
{
    struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':300", "'memory_budget_bytes':60000000");
    static const char head[] = POST JSON_TYPE "Expect: 100-continue\r\nContent-Length: 40000000\r\n\r\n";
    int first = raw_connect(server, 0);
    ck_assert(raw_send_text(first, head));
    struct raw_answer answer = raw_receive(first, PATIENCE_SECONDS, "\r\n\r\n");
    ck_assert_int_eq(raw_status(&answer), 100);
    raw_answer_free(&answer);
    answer = raw_exchange_text(server, head, PATIENCE_SECONDS);
    ck_assert_msg(raw_status(&answer) == 429 && strstr(answer.data, "memory budget") &&
                      strstr(answer.data, "Retry-After: "),
                  "%s", answer.data);
    raw_answer_free(&answer);
    expect_served(server);
    close(first);
    double until = seconds_now() + PATIENCE_SECONDS;
    int status;
    do { /* the server notices that the first has gone */
        int next = raw_connect(server, 0);
        ck_assert(raw_send_text(next, head));
        answer = raw_receive(next, PATIENCE_SECONDS, "\r\n\r\n");
        status = raw_status(&answer);
        raw_answer_free(&answer);
        close(next);
        sleep_ms(5);
    } while (status != 100 && seconds_now() < until);
    ck_assert_int_eq(status, 100);
    server_process_stop(server);
}
END_TEST

START_TEST(a_full_queue)
{
    struct server_process *server = start("'drain_delay_s':0,'workers':1,'request_timeout_s':300", "'queue_depth':1");
    char *heavy = heavy_request(3000);
    struct http_call calls[12];
    size_t served = 0, refused = 0;
    for (size_t try = 0; try < TRIES && refused == 0; try++) { /* they come at once, unless the machine stands still */
        for (size_t i = 0; i < 12; i++)
            calls[i] = forward_call(heavy, NULL);
        http_perform_all(server, calls, 12);
        for (size_t i = 0; i < 12; i++) {
            char after[16];
            if (calls[i].reply.status == 200) {
                served++;
            } else {
                expect_problem(&calls[i].reply, 429, NULL, "queue_depth", "a full queue");
                ck_assert(reply_header(&calls[i].reply, "Retry-After", after, sizeof after) && atoi(after) > 0);
                refused++;
            }
            reply_free(&calls[i].reply);
        }
    }
    ck_assert_uint_gt(served, 0);
    ck_assert_uint_gt(refused, 0);
    free(heavy);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

/* ---- deadlines */

START_TEST(deadline_of_the_request)
{
    struct server_process *server =
        start("'drain_delay_s':0,'workers':1,'request_timeout_s':0.05", "'max_request_gflop':100000");
    char *heavy = heavy_request(LONG_TOKENS);
    struct reply reply = http_post(server, FORWARD, heavy);
    expect_problem(&reply, 504, NULL, "request_timeout_s", "much work in 50 ms");
    reply_free(&reply);
    reply = http_get(server, "/healthz");
    ck_assert_int_eq(reply.status, 200);
    reply_free(&reply);
    free(heavy);
    server_process_stop(server);
}
END_TEST

/* Whether the upload, the wait or the work was too long, which is the machine's choice. */
static bool is_too_late(long status)
{
    return status == 408 || status == 429 || status == 504;
}

/* Where the machine stands still for long, a connection may be closed in mid-upload, or before it was taken up. */
static bool was_closed(const struct reply *reply)
{
    return reply->status == 0 && (reply->failure == CURLE_SEND_ERROR || reply->failure == CURLE_RECV_ERROR ||
                                  reply->failure == CURLE_GOT_NOTHING);
}

START_TEST(deadline_of_the_proxy)
{
    struct server_process *server =
        start("'drain_delay_s':0,'workers':1,'request_timeout_s':300,'upload_timeout_s':300", "'queue_depth':16");
    static const char *const soon[] = {"x-envoy-expected-rq-timeout-ms: 20", NULL};
    static const char *const ignored[][2] = {{"x-envoy-expected-rq-timeout-ms: 0", NULL},
                                             {"x-envoy-expected-rq-timeout-ms: soon", NULL},
                                             {"x-envoy-expected-rq-timeout-ms: 300000", NULL}};
    char *heavy = heavy_request(LONG_TOKENS), *small = small_request();
    struct reply reply = http_send(server, forward_call(heavy, soon));
    for (size_t try = 1; try < TRIES && was_closed(&reply); try++) {
        reply_free(&reply);
        reply = http_send(server, forward_call(heavy, soon));
    }
    ck_assert_msg(is_too_late(reply.status), "much work in 20 ms: %ld", reply.status);
    expect_problem(&reply, reply.status, NULL, "x-envoy-expected-rq-timeout-ms", "much work in 20 ms");
    reply_free(&reply);
    for (size_t i = 0; i < 3; i++) {
        reply = http_send(server, forward_call(small, ignored[i]));
        ck_assert_msg(reply.status == 200, "%s: %ld", ignored[i][0], reply.status);
        reply_free(&reply);
    }
    /* Those that wait behind a long one do not wait for its end. */
    struct http_call calls[5];
    size_t heard = 0;
    for (size_t try = 0; try < TRIES && heard < 5; try++) {
        heard = 0;
        for (size_t i = 0; i < 5; i++)
            calls[i] = forward_call(heavy, i ? soon : NULL);
        http_perform_all(server, calls, 5);
        for (size_t i = 0; i < 5; i++) {
            const struct reply *got = &calls[i].reply;
            ck_assert_msg(i ? is_too_late(got->status) || was_closed(got) : got->status == 200,
                          "request %zu: status %ld, %s", i, got->status, curl_easy_strerror(got->failure));
            heard += !was_closed(got);
            reply_free(&calls[i].reply);
        }
    }
    ck_assert_msg(heard == 5, "in each try some connections were closed without an answer");
    free(small);
    free(heavy);
    server_process_stop(server);
}
END_TEST

START_TEST(deadline_of_the_proxy_for_the_upload)
{
    struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':300", "'queue_depth':16");
    struct raw_answer answer = raw_exchange_text(
        server, POST JSON_TYPE "x-envoy-expected-rq-timeout-ms: 300\r\nContent-Length: 1000\r\n\r\n{\"input",
        PATIENCE_SECONDS);
    ck_assert_int_eq(raw_status(&answer), 408);
    ck_assert_ptr_nonnull(strstr(answer.data, "x-envoy-expected-rq-timeout-ms"));
    ck_assert(answer.closed);
    raw_answer_free(&answer);
    /* It is the request's, and not the next one's on that connection. */
    int descriptor = -1, status = 0;
    for (size_t try = 0; try < TRIES && status != 200; try++) {
        if (descriptor >= 0)
            close(descriptor);
        descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor,
                                "GET /v1/weights HTTP/1.1\r\nHost: a\r\nx-envoy-expected-rq-timeout-ms: 300\r\n\r\n"));
        answer = raw_receive(descriptor, PATIENCE_SECONDS, "]}");
        status = raw_status(&answer);
        ck_assert_msg(status == 200 || status == 408, "%.200s", answer.data);
        raw_answer_free(&answer);
    }
    ck_assert_int_eq(status, 200);
    answer = raw_receive(descriptor, 1, NULL);
    ck_assert_msg(answer.length == 0 && !answer.closed, "an idle connection hears \"%s\"", answer.data);
    raw_answer_free(&answer);
    ck_assert(raw_send_text(descriptor, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"));
    answer = raw_receive(descriptor, PATIENCE_SECONDS, "}");
    ck_assert_int_eq(raw_status(&answer), 200);
    raw_answer_free(&answer);
    close(descriptor);
    server_process_stop(server);
}
END_TEST

static int send_heavy(struct server_process *server, const char *body)
{
    char *request;
    ck_assert_int_ge(asprintf(&request, POST JSON_TYPE "Content-Length: %zu\r\n\r\n%s", strlen(body), body), 0);
    int descriptor = raw_connect(server, 0);
    ck_assert(raw_send_text(descriptor, request));
    free(request);
    return descriptor;
}

/* The status of an answer to `body`, whose Retry-After is checked where it is 429. */
static long status_of(struct server_process *server, const char *body)
{
    struct reply reply = http_post(server, FORWARD, body);
    const long status = reply.status;
    char after[16];
    ck_assert_msg(status == 200 || status == 429, "status %ld: %.200s", status, reply.body);
    if (status == 429) {
        ck_assert(reply_header(&reply, "retry-after", after, sizeof after));
        ck_assert_msg(atoi(after) >= 1 && atoi(after) <= 60, "Retry-After: %s", after);
    }
    reply_free(&reply);
    return status;
}

enum { WAITING = 2, REFUSALS = 20 };

/* Sends what the only worker is busy with for long, then what waits, until the queue stays full. The descriptors of
 * both. */
static int fill_queue(struct server_process *server, const char *endless, const char *heavy, const char *light,
                      int waiting[WAITING])
{
    const int running = send_heavy(server, endless);
    const double end = seconds_now() + PATIENCE_SECONDS;
    size_t refusals = 0;
    for (size_t i = 0; i < WAITING; i++)
        waiting[i] = -1;
    /* They are done soon, until the long one was taken. Then the queue is full for good. */
    while (refusals < REFUSALS && seconds_now() < end) {
        const bool full = status_of(server, light) == 429;
        refusals = full ? refusals + 1 : 0;
        for (size_t i = 0; !full && i < WAITING; i++) {
            if (waiting[i] >= 0)
                close(waiting[i]);
            waiting[i] = send_heavy(server, heavy);
        }
        sleep_ms(50);
    }
    ck_assert_msg(refusals == REFUSALS, "the queue is never full");
    return running;
}

/* While one job runs on and on, those that wait for it leave, and their places go to others. It does end, where the
 * machine stands still for so long that nothing can be shown. */
START_TEST(who_left_the_queue_makes_room)
{
    struct server_process *server = start("'drain_delay_s':0,'workers':1,'request_timeout_s':300",
                                          "'queue_depth':2,'memory_budget_bytes':2000000000,'max_request_gflop':1e9");
    char *endless = heavy_request(60000), *heavy = heavy_request(1000), *output = heavy_request(180);
    *strstr(output, ",\"return\"") = '\0';
    char *light = quoted("%s,'encoding':'base64'}", output); /* with maps: too much for where it is read */
    bool shown = false;
    for (size_t try = 0; try < 10 && !shown; try++) {
        int waiting[WAITING];
        const int running = fill_queue(server, endless, heavy, light, waiting);
        for (size_t i = 0; i < WAITING; i++)
            close(waiting[i]);
        const double end = seconds_now() + PATIENCE_SECONDS;
        long status;
        do
            status = status_of(server, light);
        while (status == 429 && seconds_now() < end);
        ck_assert_msg(status == 200, "status %ld", status);
        struct raw_answer answer = raw_receive(running, 0.01, NULL);
        shown = answer.length == 0 && !answer.closed;
        raw_answer_free(&answer);
        close(running);
    }
    ck_assert_msg(shown, "the job that ran had ended each time: nothing was shown");
    free(endless);
    free(heavy);
    free(light);
    free(output);
    server_process_stop(server);
}
END_TEST

START_TEST(a_slow_upload)
{
    struct server_process *server = start("'drain_delay_s':0,'upload_timeout_s':1", "'queue_depth':16");
    int slow = raw_connect(server, 0);
    ck_assert(raw_send_text(slow, POST JSON_TYPE "Content-Length: 1000\r\n\r\n"));
    const double end = seconds_now() + PATIENCE_SECONDS;
    bool answered = false;
    while (!answered && seconds_now() < end) { /* each byte is progress, and still the time is over */
        (void)raw_send(slow, " ", 1);
        struct raw_answer early = raw_receive(slow, 0.2, "\r\n\r\n");
        answered = early.length > 0 || early.closed;
        if (answered)
            ck_assert_msg(raw_status(&early) == 408 && strstr(early.data, "upload_timeout_s"), "%s", early.data);
        raw_answer_free(&early);
    }
    ck_assert_msg(answered, "a body of a byte every 0.2 s was taken for %d s", PATIENCE_SECONDS);
    struct raw_answer rest = raw_receive(slow, PATIENCE_SECONDS, NULL);
    ck_assert_msg(rest.closed, "the connection stays open after 408");
    raw_answer_free(&rest);
    close(slow);

    struct raw_answer answer =
        raw_exchange_text(server, "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Unfinished: ", PATIENCE_SECONDS);
    ck_assert_msg(answer.closed && (answer.length == 0 || raw_status(&answer) == 408), "headers that never end: %s",
                  answer.data);
    raw_answer_free(&answer);
    expect_served_in_time(server);
    server_process_stop(server);
}
END_TEST

START_TEST(an_idle_connection)
{
    struct server_process *server = start("'drain_delay_s':0,'idle_timeout_s':1", "'queue_depth':16");
    struct raw_answer answer = raw_exchange_text(server, "", PATIENCE_SECONDS);
    ck_assert_msg(answer.closed && answer.length == 0, "a connection without a request: %s", answer.data);
    raw_answer_free(&answer);
    int status = 0;
    for (size_t try = 0; try < TRIES && status == 0; try++) { /* nothing, where it was idle before its request came */
        answer = raw_exchange_text(server, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", PATIENCE_SECONDS);
        status = raw_status(&answer);
        ck_assert_msg(answer.closed, "a connection after its request stays open");
        raw_answer_free(&answer);
    }
    ck_assert_int_eq(status, 200);
    server_process_stop(server);
}
END_TEST

/* Long enough that three answers are begun meanwhile: with ThreadSanitizer each takes a second. */
#ifdef __SANITIZE_THREAD__
#define SEND_TIMEOUT_S "15"
#else
#define SEND_TIMEOUT_S "2"
#endif

/* Readers that stop hold the budget until it is full; then their time is over and it is free again. Where the machine
 * stands still, the time of the first is over before the budget is full, and more are needed. */
START_TEST(a_reader_that_stops)
{
    struct server_process *server =
        start("'drain_delay_s':0,'send_timeout_s':" SEND_TIMEOUT_S, "'memory_budget_bytes':60000000");
    char *heavy = heavy_request(700), *end = strstr(heavy, ",\"return\"");
    *end = '\0';
    char *maps = quoted("%s,'return':['attention']}", heavy), *request;
    ck_assert_int_ge(asprintf(&request, POST JSON_TYPE "Content-Length: %zu\r\n\r\n%s", strlen(maps), maps), 0);
    int stopped[8 * TRIES], status = 0;
    size_t count = 0;
    while (count < 8 * TRIES && status != 429) {
        stopped[count] = raw_connect(server, 4096);
        ck_assert(raw_send_text(stopped[count], request));
        struct raw_answer answer = raw_receive(stopped[count], PATIENCE_SECONDS, "HTTP/1.1 ");
        status = raw_status(&answer);
        ck_assert_msg(status == 200 || status == 429, "%.200s", answer.data);
        raw_answer_free(&answer);
        count++;
    }
    ck_assert_msg(status == 429, "%zu answers of some 20 MB fit into a budget of 60 MB", count);
    ck_assert_msg(count > 1, "not even one fits");
    double until = seconds_now() + PATIENCE_SECONDS;
    long now;
    do {
        struct reply reply = http_post(server, FORWARD, maps);
        now = reply.status;
        reply_free(&reply);
        if (now == 429)
            sleep_ms(100);
    } while (now == 429 && seconds_now() < until);
    ck_assert_msg(now == 200, "status %ld once the readers' time was over", now);
    for (size_t i = 0; i < count; i++)
        close(stopped[i]);
    free(request);
    free(maps);
    free(heavy);
    server_process_stop(server);
}
END_TEST

/* ---- bodies that nobody reads */

START_TEST(a_refused_body_is_read_away)
{
    struct server_process *server = server_process_start(NULL);
    struct http_client *client = http_client_open(server);
    static const char *const csv[] = {"Content-Type: text/csv", NULL};
    size_t length = 5 << 20;
    char *body = malloc(length);
    memset(body, '1', length);
    struct http_call call = {.method = "POST", .path = FORWARD, .body = body, .length = length, .headers = csv};
    http_client_perform(client, &call);
    expect_problem(&call.reply, 415, NULL, NULL, "5 MiB of text/csv");
    reply_free(&call.reply);
    call = (struct http_call){.method = "GET", .path = "/healthz"};
    http_client_perform(client, &call);
    ck_assert_int_eq(call.reply.status, 200);
    ck_assert_msg(call.reply.new_connections == 0, "the connection did not go on");
    reply_free(&call.reply);
    http_client_close(client);
    free(body);

    struct raw_answer answer =
        raw_exchange_text(server, POST "Content-Type: text/csv\r\nContent-Length: 9000000\r\n\r\n", PATIENCE_SECONDS);
    ck_assert_int_eq(raw_status(&answer), 415);
    ck_assert_msg(answer.closed, "9 MB are waited for");
    raw_answer_free(&answer);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/limits");
    TCase *c = tcase_create("limits");
    tcase_add_test(c, body_over_max_body_bytes);
    tcase_add_test(c, answer_over_max_response_bytes);
    tcase_add_test(c, work_over_max_request_gflop);
    tcase_add_test(c, more_than_the_budget_can_ever_hold);
    tcase_add_test(c, a_full_budget);
    tcase_add_test(c, a_full_queue);
    tcase_add_test(c, deadline_of_the_request);
    tcase_add_test(c, deadline_of_the_proxy);
    tcase_add_test(c, deadline_of_the_proxy_for_the_upload);
    tcase_add_test(c, who_left_the_queue_makes_room);
    tcase_add_test(c, a_slow_upload);
    tcase_add_test(c, an_idle_connection);
    tcase_add_test(c, a_reader_that_stops);
    tcase_add_test(c, a_refused_body_is_read_away);
    suite_add_tcase(s, c);
    return s;
}
