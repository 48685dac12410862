/* Framing that two parsers could read differently: one 400, the connection closed, and nothing behind it is executed.
 */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <microhttpd.h> /* its version */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five bytes, and a chunked body without a chunk: whole either way, so that a server that takes the request answers the
 * tail too. */
#define EMPTY "0\r\n\r\n"
#define TAIL  "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST  "POST " FORWARD " HTTP/1.1\r\nHost: a\r\n"

struct trick {
    const char *name, *request;
    bool of_the_library; /* libmicrohttpd refuses it by itself: a page of its own, with the header block twice */
};

static const struct trick TRICKS[] = {
    {"two Content-Lengths", POST "Content-Length: 5\r\nContent-Length: 0\r\n\r\n" EMPTY TAIL, false},
    {"the same Content-Length twice", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n" EMPTY TAIL, false},
    {"Content-Length, then Transfer-Encoding",
     POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding, then Content-Length",
     POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding chunked, chunked", POST "Transfer-Encoding: chunked, chunked\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding identity", POST "Transfer-Encoding: identity\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding twice", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" EMPTY TAIL,
     false},
    {"Transfer-Encoding, empty", POST "Transfer-Encoding:\r\n\r\n" EMPTY TAIL, false},
    {"a space before the colon", POST "Content-Length : 5\r\n\r\n" EMPTY TAIL, false},
    {"a tab before the colon", POST "Transfer-Encoding\t: chunked\r\n\r\n" EMPTY TAIL, false},
    {"a space in a name", POST "Transfer Encoding: chunked\r\n\r\n" EMPTY TAIL, false},
    {"a control character in a name", POST "Transfer-Encoding\x01: chunked\r\n\r\n" EMPTY TAIL, false},
    {"chunks in HTTP/1.0", "POST " FORWARD " HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" EMPTY TAIL,
     false},
    {"no Host", "GET /v1/weights HTTP/1.1\r\n\r\n" TAIL, false},
    {"two Hosts", "GET /v1/weights HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" TAIL, false},
    {"the same Host twice", "GET /v1/weights HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n" TAIL, false},
    {"a POST without a length", POST "\r\n" TAIL, false},
#if MHD_VERSION < 0x01000000 /* 1.0 unfolds as it should */
    {"Content-Length on a further line", POST "Content-Length:\r\n 5\r\n\r\n" EMPTY TAIL, false},
    {"Content-Length on a further line, by a tab", POST "Content-Length: \r\n\t5\r\n\r\n" EMPTY TAIL, false},
    {"Content-Length that goes on", POST "Content-Length: 5\r\n 0\r\n\r\n" EMPTY TAIL, false},
    {"Transfer-Encoding on a further line", POST "Transfer-Encoding:\r\n chunked\r\n\r\n" EMPTY TAIL, false},
    {"a GET with Content-Length on a further line",
     "GET /v1/weights HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 5\r\n\r\n" EMPTY TAIL, false},
#endif
    {"Content-Length -1", POST "Content-Length: -1\r\n\r\n" EMPTY TAIL, true},
    {"Content-Length +5", POST "Content-Length: +5\r\n\r\n" EMPTY TAIL, true},
    {"Content-Length 5x", POST "Content-Length: 5x\r\n\r\n" EMPTY TAIL, true},
    {"Content-Length 5, 5", POST "Content-Length: 5, 5\r\n\r\n" EMPTY TAIL, true},
    {"Content-Length, empty", POST "Content-Length:\r\n\r\n" EMPTY TAIL, true},
    {"Content-Length over 64 bits", POST "Content-Length: 18446744073709551621\r\n\r\n" EMPTY TAIL, true},
};

START_TEST(tricks)
{
    const struct trick *trick = &TRICKS[_i];
    struct server_process *server = server_process_start(NULL);
    struct raw_answer answer = raw_exchange_text(server, trick->request, PATIENCE_SECONDS);
    int status = raw_status(&answer);
    ck_assert_msg(status == 400 || (trick->of_the_library && status == 413), "%s: %.200s", trick->name, answer.data);
    if (trick->of_the_library)
        ck_assert_msg(raw_answers(&answer) == raw_count(&answer, "HTTP/1.1 4"), "%s: more than refusals: %s",
                      trick->name, answer.data);
    else
        ck_assert_msg(raw_answers(&answer) == 1, "%s: more than one answer: %s", trick->name, answer.data);
    ck_assert_msg(raw_count(&answer, "\"status\":\"ok\"") == 0, "%s: what follows was executed: %s", trick->name,
                  answer.data);
    ck_assert_msg(answer.closed, "%s: the connection stays open", trick->name);
    /* libmicrohttpd 1.0 refuses more of them before it calls us, with a page of its own. */
    if (!trick->of_the_library && MHD_VERSION < 0x01000000)
        ck_assert_msg(strstr(answer.data, "application/problem+json") != NULL, "%s: %s", trick->name, answer.data);
    raw_answer_free(&answer);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(chunks_that_are_none)
{
    static const char *const chunks[] = {"zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n0\r\n\r\n", "2;\r\n{}x\r\n0\r\n\r\n",
                                         "FFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n"};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        char request[1024];
        snprintf(request, sizeof request, POST "Transfer-Encoding: chunked\r\n\r\n%s" TAIL, chunks[i]);
        struct raw_answer answer = raw_exchange_text(server, request, PATIENCE_SECONDS);
        ck_assert_msg(raw_count(&answer, " 200 ") == 0, "%s: %s", chunks[i], answer.data);
        ck_assert_msg(answer.closed, "%s: the connection stays open", chunks[i]);
        raw_answer_free(&answer);
    }
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(a_huge_header)
{
    struct server_process *server = server_process_start(NULL);
    size_t length = 200000;
    char *request = malloc(length + 256), *to = stpcpy(request, "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ");
    memset(to, 'a', length);
    strcpy(to + length, "\r\n\r\n");
    struct raw_answer answer = raw_exchange_text(server, request, PATIENCE_SECONDS);
    int status = raw_status(&answer);
    ck_assert_msg((status == 0 && answer.length == 0) || (status >= 400 && status < 500), "%.200s", answer.data);
    ck_assert(answer.closed);
    raw_answer_free(&answer);
    free(request);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(bytes_that_are_not_http)
{
    static const char *const sent[] = {"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\r\n\r\n", "hello\r\n\r\n",
                                       "GET /healthz\r\n\r\n", "GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
                                       "\r\n\r\n\r\n"};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        struct raw_answer answer = raw_exchange_text(server, sent[i], 1);
        ck_assert_msg(raw_count(&answer, "\"status\":\"ok\"") == 0, "bytes %zu: %s", i, answer.data);
        raw_answer_free(&answer);
    }
    expect_served(server);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/guard");
    TCase *c = tcase_create("guard");
    tcase_add_loop_test(c, tricks, 0, sizeof TRICKS / sizeof *TRICKS);
    tcase_add_test(c, chunks_that_are_none);
    tcase_add_test(c, a_huge_header);
    tcase_add_test(c, bytes_that_are_not_http);
    suite_add_tcase(s, c);
    return s;
}
