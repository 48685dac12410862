/* Requests that are computed together: their answers are what each would get alone, to the last digit. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Deterministic numbers as the text of [rows, 64]. */
static char *rows_text(size_t rows, unsigned seed, float scale)
{
    float numbers[64];
    char *text = calloc(rows * 64 * 20 + 16, 1), *to = text;
    *to++ = '[';
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < 64; j++) {
            seed = seed * 1664525u + 1013904223u;
            numbers[j] = scale * ((float)(seed >> 8) / 8388608.0f - 1);
        }
        char *row = numbers_text(numbers, 64);
        to += sprintf(to, "%s%s", i ? "," : "", row);
        free(row);
    }
    strcpy(to, "]");
    return text;
}

/* What they differ in: length, masks, causal order, what is returned. */
static char *request_text(size_t n)
{
    char *one = rows_text(1, 1, 1), *four = rows_text(4, 2, 2), *three = rows_text(3, 3, 1), *five = rows_text(5, 4, 1),
         *huge = rows_text(2, 5, 3e38f), *text = NULL;
    switch (n) {
    case 0:
        text = quoted("{'input':[%s]}", one);
        break;
    case 1:
        text = quoted("{'input':%s,'causal':true,'return':['output','attention','heads','key']}", four);
        break;
    case 2:
        text = quoted("{'input':[%s,%s],'attention_mask':[[1,1,0],[0,1,1]],'include_heads':[5,1]}", three, three);
        break;
    case 3:
        text = quoted("{'query':%s,'key':%s,'head_mask':[1,0,1,0.5,1,1,1,1],'return':['output']}", four, five);
        break;
    case 4:
        text = quoted("{'input':%s}", huge); /* overflows inside: its own fault, and nobody else's */
        break;
    case 5:
        text = quoted("{'input':%s,'weights':'plain64'}", five); /* another set */
        break;
    default:
        ck_abort_msg("no request %zu", n);
    }
    free(one), free(four), free(three), free(five), free(huge);
    return text;
}

enum { REQUESTS = 6, TOGETHER = 5 };

/* The body without its timings and its id, which differ from answer to answer. */
static void cut_varying(char *body)
{
    static const char *const varying[] = {"\"timing_us\"", "\"instance\""};
    for (size_t i = 0; i < 2; i++) {
        char *at = strstr(body, varying[i]);
        if (at)
            *at = '\0';
    }
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        n++;
    return n;
}

/* Once the log has told of that many requests: in how many lines `word` is. Lines come a little after their answers. */
static size_t lines_with(struct server_process *server, const char *word, size_t requests)
{
    size_t told = 0, got = 0;
    for (const double end = seconds_now() + PATIENCE_SECONDS; told < requests && seconds_now() < end; sleep_ms(10)) {
        char *log = server_process_log(server);
        told = count(log, "\"event\":\"request\"");
        got = count(log, word);
        free(log);
    }
    ck_assert_msg(told == requests, "the log tells of %zu requests, not %zu", told, requests);
    return got;
}

/* Whether requests meet is up to the machine, which may stand still between any two of them for longer than the longest
 * delay that can be set: they are sent until they do, and each of their answers is compared. */
START_TEST(the_same_answers_together_and_alone)
{
    struct server_process *together = server_process_start(&(struct server_options){
                              .server_members = "'workers':2,'drain_delay_s':0,'request_timeout_s':300",
                              .members = "'limits':{'max_batch_delay_us':1000000}"}),
                          *alone = server_process_start(
                              &(struct server_options){.server_members = "'drain_delay_s':0,'request_timeout_s':300",
                                                       .members = "'limits':{'max_batch_tokens':1}"});
    struct http_call calls[REQUESTS];
    struct reply wanted[REQUESTS];
    char *bodies[REQUESTS];
    size_t five = 0, five_so_far = 0, one_so_far = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        bodies[i] = request_text(i);
        wanted[i] = http_post(alone, FORWARD, bodies[i]);
        ck_assert_int_eq(wanted[i].status, i == 4 ? 422 : 200);
        cut_varying(wanted[i].body);
    }
    server_process_stop(alone);

    for (size_t try = 1; try <= TRIES && five < TOGETHER; try++) {
        for (size_t i = 0; i < REQUESTS; i++)
            calls[i] =
                (struct http_call){.method = "POST", .path = FORWARD, .body = bodies[i], .length = strlen(bodies[i])};
        http_perform_all(together, calls, REQUESTS);
        for (size_t i = 0; i < REQUESTS; i++) {
            struct reply *got = &calls[i].reply;
            cut_varying(got->body);
            ck_assert_int_eq(got->status, wanted[i].status);
            ck_assert_msg(strcmp(got->body, wanted[i].body) == 0, "request %zu:\n%s\n%s", i, got->body, wanted[i].body);
            reply_free(got);
        }
        const size_t five_before = five_so_far, one_before = one_so_far;
        five_so_far = lines_with(together, "\"batch\":5,", try * REQUESTS);
        one_so_far = lines_with(together, "\"batch\":1,", try * REQUESTS);
        const size_t one = one_so_far - one_before;
        five = five_so_far - five_before;
        ck_assert_msg(five == 0 || (five == TOGETHER && one == REQUESTS - TOGETHER), "%zu in fives and %zu alone", five,
                      one); /* the one of another set is alone, whoever meets */
        ck_assert_uint_ge(one, REQUESTS - TOGETHER);
    }
    ck_assert_msg(five == TOGETHER, "%d tries, and the five never met", TRIES);
    for (size_t i = 0; i < REQUESTS; i++) {
        reply_free(&wanted[i]);
        free(bodies[i]);
    }
    server_process_stop(together);
}
END_TEST

/* How many requests waited in the queue for so long, as the log says. */
static size_t waited(struct server_process *server, double least_us)
{
    static const char name[] = "\"queue_us\":";
    char *log = server_process_log(server);
    size_t n = 0;
    for (const char *at = log; (at = strstr(at, name)) != NULL; at += strlen(name))
        n += strtod(at + strlen(name), NULL) >= least_us;
    free(log);
    return n;
}

/* A full batch does not wait for the delay to end: of two that fill one, the first does not wait for so long. */
START_TEST(a_full_batch_waits_no_longer)
{
    struct server_process *server = server_process_start(
        &(struct server_options){.server_members = "'drain_delay_s':0,'request_timeout_s':300",
                                 .members = "'limits':{'max_batch_delay_us':1000000,'max_batch_tokens':8}"});
    struct http_call calls[4];
    char *four = rows_text(4, 7, 1), *body = quoted("{'input':%s}", four);
    size_t met = 0, before = 0, late = 1, late_before = 0;
    for (size_t try = 1; try <= TRIES && !(met == 4 && late == 0); try++) {
        for (size_t i = 0; i < 4; i++)
            calls[i] = (struct http_call){.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
        http_perform_all(server, calls, 4);
        for (size_t i = 0; i < 4; i++) {
            ck_assert_int_eq(calls[i].reply.status, 200);
            reply_free(&calls[i].reply);
        }
        const size_t pairs = lines_with(server, "\"batch\":2,", 4 * try),
                     alone = lines_with(server, "\"batch\":1,", 4 * try);
        ck_assert_uint_eq(pairs + alone, 4 * try); /* there is no room for three */
        met = pairs - before;
        before = pairs;
        const size_t late_so_far = waited(server, 1e6);
        late = late_so_far - late_before;
        late_before = late_so_far;
    }
    ck_assert_msg(met == 4 && late == 0, "%d tries; of the last %zu were in pairs, and %zu waited for a second", TRIES,
                  met, late);
    free(four), free(body);
    server_process_stop(server);
}
END_TEST

static void send_small(int descriptor, const char *body, const char *header)
{
    char head[512];
    snprintf(head, sizeof head,
             "POST " FORWARD " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
             header, strlen(body));
    ck_assert(raw_send_text(descriptor, head) && raw_send_text(descriptor, body));
}

/* The deadline of the first one passes when the batch begins, so that only the second one is left of it. */
START_TEST(one_that_is_too_late_ends_only_itself)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.server_members = "'drain_delay_s':0,'request_timeout_s':300",
                                                      .members = "'limits':{'max_batch_delay_us':100000}"});
    char *row = rows_text(1, 8, 1), *body = quoted("{'input':%s}", row);
    for (size_t i = 0; i < 10; i++) {
        int first = raw_connect(server, 0), second = raw_connect(server, 0);
        send_small(first, body, "x-envoy-expected-rq-timeout-ms: 100\r\n");
        sleep_ms(5);
        send_small(second, body, "");
        struct raw_answer answer = raw_receive(second, PATIENCE_SECONDS, "timing_us");
        ck_assert_msg(raw_status(&answer) == 200, "pair %zu: \"%.200s\"", i, answer.data);
        raw_answer_free(&answer);
        close(first), close(second);
    }
    free(row), free(body);
    server_process_stop(server);
}
END_TEST

/* A budget of twice what one of them needs: those that were let in are computed, if not together then one by one. */
START_TEST(where_memory_is_short_for_a_batch)
{
    struct server_process *server = server_process_start(
        &(struct server_options){.server_members = "'drain_delay_s':0,'request_timeout_s':300",
                                 .members = "'limits':{'max_batch_delay_us':20000,'memory_budget_bytes':30000}"});
    struct http_call calls[12];
    char *two = rows_text(2, 9, 1), *body = quoted("{'input':%s,'encoding':'base64'}", two);
    for (size_t i = 0; i < 12; i++)
        calls[i] = (struct http_call){.method = "POST", .path = FORWARD, .body = body, .length = strlen(body)};
    http_perform_all(server, calls, 12);
    size_t answered = 0;
    for (size_t i = 0; i < 12; i++) {
        answered += calls[i].reply.status == 200;
        ck_assert_msg(calls[i].reply.status == 200 || calls[i].reply.status == 429, "%s", calls[i].reply.body);
        reply_free(&calls[i].reply);
    }
    ck_assert_uint_ge(answered, 1);
    long status = 429;
    for (const double end = seconds_now() + PATIENCE_SECONDS; status == 429 && seconds_now() < end; sleep_ms(5)) {
        struct reply reply =
            http_post(server, FORWARD, body); /* what the others held comes back behind their answers */
        status = reply.status;
        reply_free(&reply);
    }
    ck_assert_int_eq(status, 200);
    free(two), free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("batching");
    TCase *c = tcase_create("batching");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, the_same_answers_together_and_alone);
    tcase_add_test(c, a_full_batch_waits_no_longer);
    tcase_add_test(c, one_that_is_too_late_ends_only_itself);
    tcase_add_test(c, where_memory_is_short_for_a_batch);
    suite_add_tcase(s, c);
    return s;
}
