/* Clients that stop reading in the middle of a large answer, or read it slowly: the first lose their connection at
 * server.send_timeout_s and give back every byte they held, the second get it all. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIXTEEN_HEADS                          \
    "'default_weights':'sixteen','weights':[{" \
    "'name':'sixteen','source':'identity','d_model':16,'num_heads':16}],"
/* Less than the maps of MOST_TOKENS take, more than those of SOME_TOKENS do with their text. */
#define BUDGET      "24000000"
#define SOME_TOKENS 256
#define MOST_TOKENS 640
/* Beyond what the kernel keeps for a client that does not read, by far less than the answer of SOME_TOKENS. */
#define READ_FIRST 1000000
#define STOPPED    4
/* More than any answer to SOME_TOKENS has. */
#define ANSWER_BYTES 20000000
/* 11 MB in some 3 s. */
#define SLOW_PART     400000
#define SLOW_PAUSE_MS 110

static struct server_process *start(void)
{
    return server_process_start(
        &(struct server_options){.server_members = "'drain_delay_s':0,'send_timeout_s':1",
                                 .members = SIXTEEN_HEADS "'limits':{'memory_budget_bytes':" BUDGET "}",
                                 .own_weights = true});
}

/* Asks for the maps of 16 heads, [16, tokens, tokens]; `members` behind the others. */
static char *maps_request(size_t tokens, const char *members)
{
    float *zeros = calloc(tokens * 16, sizeof *zeros);
    char *base64 = base64_text(zeros, tokens * 16 * sizeof *zeros);
    char *text = quoted("{'input':{'shape':[%zu,16],'dtype':'f32','base64':'%s'},'return':['attention']%s}", tokens,
                        base64, members);
    free(base64);
    free(zeros);
    return text;
}

/* Sends the request for the maps of SOME_TOKENS; 11 MB of text answer it. */
static int ask_for_maps(const struct server_process *server)
{
    char *body = maps_request(SOME_TOKENS, ""), *request;
    int descriptor = raw_connect(server, 4096);
    ck_assert_int_ge(asprintf(&request,
                              "POST " FORWARD
                              " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n\r\n%s",
                              strlen(body), body),
                     0);
    ck_assert(raw_send_text(descriptor, request));
    free(request);
    free(body);
    return descriptor;
}

/* Reads until `length` bytes are there, the peer closes or is silent: how many came. */
static size_t read_up_to(int descriptor, char *to, size_t length)
{
    size_t got = 0;
    while (got < length) {
        struct pollfd polled = {.fd = descriptor, .events = POLLIN};
        if (poll(&polled, 1, PATIENCE_SECONDS * 1000) <= 0)
            break;
        ssize_t part = recv(descriptor, to + got, length - got, 0);
        if (part <= 0)
            break;
        got += (size_t)part;
    }
    return got;
}

/* The last member of an answer is its times. */
static bool is_whole(const char *answer, size_t length)
{
    static const char last[] = "\"timing_us\":{";
    return memmem(answer, length, last, sizeof last - 1) != NULL;
}

/* The request with the most tokens that the budget ever has room for, to within 2 %; it has succeeded once. */
static char *largest_request(const struct server_process *server)
{
    for (size_t tokens = MOST_TOKENS; tokens > SOME_TOKENS; tokens -= tokens / 50) {
        char *body = maps_request(tokens, ",\"decimals\":0");
        struct reply reply = http_post(server, FORWARD, body);
        long status = reply.status;
        if (status != 200)
            expect_problem(&reply, 413, NULL, "memory_budget_bytes", "more than the budget can hold");
        reply_free(&reply);
        if (status == 200) {
            ck_assert_msg(tokens < MOST_TOKENS, "the maps of %zu tokens fit into a budget of " BUDGET " bytes", tokens);
            return body;
        }
        free(body);
    }
    ck_abort_msg("nothing fits into a budget of " BUDGET " bytes");
    return NULL;
}

/* Reads the beginning of an answer: its status, 200 or 429; 0 where its time was over before so much was read. */
static int begin_to_read(int descriptor, char *answer)
{
    size_t got = read_up_to(descriptor, answer, READ_FIRST);
    struct raw_answer begun = {.data = answer, .length = got};
    answer[got] = '\0';
    int status = raw_status(&begun);
    ck_assert_msg(status == 429 || status == 200 || got == 0, "status %d and %zu bytes", status, got);
    return status == 200 && got < READ_FIRST ? 0 : status;
}

/* A reader that holds its answer, which leaves no room for `largest`. The machine may stand still until its time is
 * over: then others are tried. */
static int hold_an_answer(const struct server_process *server, const char *largest, char *answer)
{
    for (size_t try = 0; try < TRIES; try++) {
        const int reader = ask_for_maps(server), begun = begin_to_read(reader, answer);
        struct reply reply = http_post(server, FORWARD, largest);
        const long status = reply.status;
        ck_assert_msg(status == 200 || status == 429, "status %ld: %.300s", status, reply.body);
        if (status == 429)
            expect_problem(&reply, 429, NULL, NULL, "while a reader holds its answer");
        reply_free(&reply);
        if (begun == 200 && status == 429)
            return reader;
        close(reader);
    }
    ck_abort_msg("there was room though a reader held its answer, %d times", TRIES);
    return -1;
}

START_TEST(readers_that_stop_in_the_middle)
{
    struct server_process *server = start();
    char *largest = largest_request(server), *answer = calloc(1, ANSWER_BYTES);
    int stopped[STOPPED];
    stopped[0] = hold_an_answer(server, largest, answer);
    struct reply reply;
    for (size_t i = 1; i < STOPPED; i++)
        stopped[i] = ask_for_maps(server);
    for (size_t i = 1; i < STOPPED; i++) {
        if (begin_to_read(stopped[i], answer) == 429) {
            close(stopped[i]);
            stopped[i] = -1;
        }
    }

    double until = seconds_now() + PATIENCE_SECONDS;
    long status;
    while ((reply = http_post(server, FORWARD, largest), status = reply.status) == 429 && seconds_now() < until) {
        reply_free(&reply);
        sleep_ms(100);
    }
    reply_free(&reply);
    ck_assert_msg(status == 200, "status %ld once the time of those who do not read was over", status);
    for (size_t i = 0; i < STOPPED; i++) {
        if (stopped[i] < 0)
            continue;
        size_t got = read_up_to(stopped[i], answer, ANSWER_BYTES);
        ck_assert_msg(!is_whole(answer, got), "reader %zu got its whole answer after its time was over", i);
        close(stopped[i]);
    }
    /* An answer that broke off is in the log, with why. */
    ck_assert(server_process_logs(server, "\"status\":200,\"error\":\"", PATIENCE_SECONDS, NULL));
    free(answer);
    free(largest);
    server_process_stop(server);
}
END_TEST

/* Three times send_timeout_s, but never so long without taking anything. */
START_TEST(a_reader_that_is_slow)
{
    struct server_process *server = start();
    char *answer = calloc(1, ANSWER_BYTES);
    bool whole = false;
    for (size_t try = 0; try < TRIES / 4 && !whole; try++) { /* the machine may stand still while it reads */
        int descriptor = ask_for_maps(server);
        size_t got = 0, part;
        double begun = seconds_now();
        do {
            part = read_up_to(descriptor, answer + got, SLOW_PART);
            got += part;
            if (seconds_now() - begun < 3)
                sleep_ms(SLOW_PAUSE_MS);
        } while (part == SLOW_PART && got + SLOW_PART <= ANSWER_BYTES && !is_whole(answer + got - part, part));
        const double took = seconds_now() - begun;
        struct raw_answer read = {.data = answer, .length = got}; /* 429: what was cut off before is still held */
        ck_assert_msg(got == 0 || raw_status(&read) == 200 || raw_status(&read) == 429, "%.60s", answer);
        whole = is_whole(answer, got);
        ck_assert_msg(!whole || took > 2, "%zu bytes came in %.1f s: not slow", got, took);
        close(descriptor);
    }
    ck_assert_msg(whole, "it was cut off each time");
    free(answer);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/slow_reader");
    TCase *c = tcase_create("slow_reader");
    tcase_add_test(c, readers_that_stop_in_the_middle);
    tcase_add_test(c, a_reader_that_is_slow);
    suite_add_tcase(s, c);
    return s;
}
