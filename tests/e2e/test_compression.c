/* Compressed bodies in and compressed answers out, by zlib on this side. */
#include "expect.h"
#include "raw_socket.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define GZIP    31
#define DEFLATE 15
#define BARE    (-15)

struct bytes {
    char *data;
    size_t length;
};

static const char *const as_gzip[] = {"Content-Encoding: gzip", NULL};
static const char *const as_deflate[] = {"Content-Encoding: deflate", NULL};
static const char *const accept_gzip[] = {"Accept-Encoding: gzip", NULL};

/* zlib's windowBits say which format. */
static struct bytes packed(const char *text, size_t length, int window, int level)
{
    z_stream z = {.next_in = (Bytef *)text, .avail_in = (uInt)length};
    const size_t room = length + length / 100 + 1000;
    struct bytes result = {.data = malloc(room)};
    z.next_out = (Bytef *)result.data;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflateInit2(&z, level, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    result.length = z.total_out;
    deflateEnd(&z);
    return result;
}

/* `count` MiB of spaces, compressed. */
static struct bytes spaces(size_t count, int window)
{
    static char text[1 << 20];
    z_stream z = {0};
    struct bytes result = {.data = malloc(8000 * count + 1000)};
    memset(text, ' ', sizeof text);
    z.next_out = (Bytef *)result.data;
    z.avail_out = (uInt)(8000 * count + 1000);
    ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (; count > 0; count--) {
        z.next_in = (Bytef *)text;
        z.avail_in = sizeof text;
        ck_assert_int_eq(deflate(&z, count == 1 ? Z_FINISH : Z_NO_FLUSH), count == 1 ? Z_STREAM_END : Z_OK);
        ck_assert_uint_eq(z.avail_in, 0);
    }
    result.length = z.total_out;
    deflateEnd(&z);
    return result;
}

/* Replaces a body in gzip by what it stands for; it must be one member and nothing behind it. */
static void unpack(struct reply *reply)
{
    const size_t room = 64 << 20;
    z_stream z = {.next_in = (Bytef *)reply->body, .avail_in = (uInt)reply->length};
    char *text = malloc(room);
    z.next_out = (Bytef *)text;
    z.avail_out = room - 1;
    ck_assert_int_eq(inflateInit2(&z, GZIP), Z_OK);
    ck_assert_int_eq(inflate(&z, Z_FINISH), Z_STREAM_END);
    ck_assert_uint_eq(z.avail_in, 0);
    text[z.total_out] = '\0';
    free(reply->body);
    reply->body = text;
    reply->length = z.total_out;
    inflateEnd(&z);
}

static bool is_packed(const struct reply *reply)
{
    char coding[32];
    if (!reply_header(reply, "Content-Encoding", coding, sizeof coding))
        return false;
    ck_assert_str_eq(coding, "gzip");
    return true;
}

static struct reply post(const struct server_process *server, struct bytes body, const char *const *headers)
{
    return http_send(
        server, (struct http_call){
                    .method = "POST", .path = FORWARD, .body = body.data, .length = body.length, .headers = headers});
}

static struct bytes text_of(char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* The document but for what differs from run to run. */
static json_t *lasting(const struct reply *reply)
{
    json_t *document = reply_json(reply);
    json_object_del(document, "timing_us");
    return document;
}

static void expect_same(const struct reply *got, const struct reply *wanted, const char *name)
{
    ck_assert_msg(got->status == 200, "%s: status %ld: %.300s", name, got->status, got->body);
    json_t *a = lasting(got), *b = lasting(wanted);
    ck_assert_msg(json_equal(a, b), "%s: another answer", name);
    json_decref(a);
    json_decref(b);
}

static struct server_process *start(const char *members)
{
    return server_process_start(&(struct server_options){.members = members});
}

/* {"input": [[...64 different numbers...] x tokens], "return": ["output"]}: text that does not shrink much. */
static char *noisy_request(size_t tokens)
{
    char *text = malloc(tokens * 64 * 12 + 100);
    unsigned random = 7;
    ck_assert_ptr_nonnull(text);
    size_t length = (size_t)sprintf(text, "{\"return\":[\"output\"],\"input\":[");
    for (size_t i = 0; i < tokens * 64; i++) {
        random = random * 1664525 + 1013904223;
        length += (size_t)sprintf(text + length, "%s0.%u", i % 64 ? "," : i ? "],[" : "[", random >> 4);
    }
    sprintf(text + length, "]]}");
    return text;
}

/* ---- in */

START_TEST(bodies_in_every_coding)
{
    static const struct {
        const char *headers[3];
        int window;
    } codings[] = {
        {{"Content-Encoding: gzip"}, GZIP},
        {{"Content-Encoding: x-gzip"}, GZIP},
        {{"Content-Encoding: GZip"}, GZIP},
        {{"Content-Encoding: \t gzip \t"}, GZIP},
        {{"Content-Encoding: deflate"}, DEFLATE},
        {{"Content-Encoding: gzip", "Transfer-Encoding: chunked"}, GZIP},
        {{"Content-Encoding: deflate", "Transfer-Encoding: chunked"}, DEFLATE},
    };
    static const char *const identity[] = {"Content-Encoding: Identity", NULL};
    struct server_process *server = start(NULL);
    /* By the polling thread that reads it; by a worker, because of what it becomes, and of what it is. */
    char *texts[] = {small_request(), heavy_request(1500), noisy_request(200)};
    for (size_t i = 0; i < 3; i++) {
        struct reply plain = post(server, text_of(texts[i]), NULL), again = post(server, text_of(texts[i]), identity);
        ck_assert_int_eq(plain.status, 200);
        expect_same(&again, &plain, "identity");
        reply_free(&again);
        for (size_t j = 0; j < sizeof codings / sizeof *codings; j++) {
            struct bytes body = packed(texts[i], strlen(texts[i]), codings[j].window, i ? 1 : 9);
            struct reply reply = post(server, body, codings[j].headers);
            expect_same(&reply, &plain, codings[j].headers[0]);
            reply_free(&reply);
            free(body.data);
        }
        reply_free(&plain);
        free(texts[i]);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(codings_that_are_not_supported)
{
    static const char *const codings[][3] = {{"Content-Encoding: br"},
                                             {"Content-Encoding: gzip, gzip"},
                                             {"Content-Encoding: identity, gzip"},
                                             {"Content-Encoding: deflate", "Content-Encoding: gzip"},
                                             {"Content-Encoding: gzipped"}};
    static const char *const csv[] = {"Content-Type: text/csv", NULL};
    struct server_process *server = start(NULL);
    char *text = small_request(), value[64];
    struct bytes body = packed(text, strlen(text), GZIP, 6);
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        struct reply reply = post(server, body, codings[i]);
        expect_problem(&reply, 415, NULL, "gzip, deflate and identity", codings[i][0]);
        ck_assert(reply_header(&reply, "Accept-Encoding", value, sizeof value));
        ck_assert_str_eq(value, "gzip, deflate");
        reply_free(&reply);
    }
    struct reply reply = post(server, body, csv);
    expect_problem(&reply, 415, NULL, "text/csv", "a type");
    ck_assert(!reply_header(&reply, "Accept-Encoding", value, sizeof value));
    reply_free(&reply);
    free(body.data);
    free(text);
    server_process_stop(server);
}
END_TEST

static void expect_refused(const struct server_process *server, struct bytes body, const char *const *headers,
                           long status, const char *word)
{
    struct reply reply = post(server, body, headers);
    expect_problem(&reply, status, NULL, word, word);
    reply_free(&reply);
}

START_TEST(broken_bodies)
{
    struct server_process *server = start(NULL);
    char *texts[] = {small_request(), noisy_request(200)};
    for (size_t i = 0; i < 2; i++) {
        struct bytes gzip = packed(texts[i], strlen(texts[i]), GZIP, 6),
                     bare = packed(texts[i], strlen(texts[i]), BARE, 6);
        struct bytes longer = {malloc(2 * gzip.length), 2 * gzip.length};
        memcpy(longer.data, gzip.data, gzip.length);
        memcpy(longer.data + gzip.length, gzip.data, gzip.length);
        expect_refused(server, text_of(texts[i]), as_gzip, 400, "not gzip");
        expect_refused(server, gzip, as_deflate, 400, "not deflate");
        expect_refused(server, bare, as_deflate, 400, "not deflate");
        expect_refused(server, (struct bytes){gzip.data, gzip.length - 12}, as_gzip, 400, "cut short");
        expect_refused(server, (struct bytes){gzip.data, 5}, as_gzip, 400, "cut short");
        expect_refused(server, longer, as_gzip, 400, "second gzip member");
        expect_refused(server, (struct bytes){longer.data, gzip.length + 1}, as_gzip, 400, "1 bytes follow");
        gzip.data[gzip.length - 4] ^= 1;
        expect_refused(server, gzip, as_gzip, 400, "says that it stands for");
        gzip.data[gzip.length - 4] ^= 1;
        gzip.data[gzip.length - 8] ^= 1;
        expect_refused(server, gzip, as_gzip, 400, "checksum");
        gzip.data[gzip.length - 8] ^= 1;
        struct reply reply = post(server, gzip, as_gzip);
        ck_assert_int_eq(reply.status, 200);
        reply_free(&reply);
        free(longer.data);
        free(bare.data);
        free(gzip.data);
        free(texts[i]);
    }
    struct bytes nothing = packed("", 0, GZIP, 6);
    expect_refused(server, (struct bytes){"", 0}, as_gzip, 400, "cut short");
    expect_refused(server, nothing, as_gzip, 400, NULL);
    free(nothing.data);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(bombs)
{
    struct server_process *server = start(NULL);
    expect_served(server);
    const long before = server_process_rss(server);
    struct bytes small = spaces(80, GZIP), large = spaces(400, GZIP), deflate = spaces(80, DEFLATE);
    expect_refused(server, small, as_gzip, 413, "max_body_bytes");
    expect_refused(server, large, as_gzip, 413, "67108864");
    expect_refused(server, deflate, as_deflate, 413, "max_body_bytes");
    memset(small.data + small.length - 4, 0, 4); /* "of no length" */
    small.data[small.length - 4] = 1;
    expect_refused(server, small, as_gzip, 413, "max_body_bytes");
    struct bytes twice = packed(large.data, large.length, GZIP, 9); /* its text is 400 MiB in gzip */
    expect_refused(server, twice, as_gzip, 400, NULL);
    free(twice.data);
    free(small.data);
    free(large.data);
    free(deflate.data);
    /* What is spare is kept for a while: two of the largest bodies and somewhat more. */
#ifndef __SANITIZE_THREAD__ /* it keeps four bytes about each that is copied */
    ck_assert_int_lt(server_process_rss(server) - before, 200 << 10);
#else
    ck_assert_int_lt(server_process_rss(server) - before, 5 * 200 << 10);
#endif
    expect_served(server);
    server_process_stop(server);
}
END_TEST

/* The limit, to the byte, for what a polling thread decompresses and what a worker does. */
START_TEST(the_edge_of_the_limit)
{
    const size_t limit = _i ? 1000000 : 30000;
    char *members = quoted("'limits':{'max_body_bytes':%zu}", limit);
    struct server_process *server = start(members);
    char *small = small_request(), *padded = malloc(limit + 1);
    memset(padded, ' ', limit + 1);
    memcpy(padded, small, strlen(small));
    for (int window = DEFLATE; window <= GZIP; window += GZIP - DEFLATE) {
        const char *const *headers = window == GZIP ? as_gzip : as_deflate;
        struct bytes just = packed(padded, limit, window, 6), over = packed(padded, limit + 1, window, 6);
        struct reply reply = post(server, just, headers);
        ck_assert_msg(reply.status == 200, "%zu bytes: %ld: %.300s", limit, reply.status, reply.body);
        reply_free(&reply);
        expect_refused(server, over, headers, 413, "decompressed");
        free(just.data);
        free(over.data);
    }
    free(padded);
    free(small);
    free(members);
    server_process_stop(server);
}
END_TEST

START_TEST(the_budget_is_asked)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.server_members = "'drain_delay_s':0,'upload_timeout_s':300",
                                                      .members = "'limits':{'memory_budget_bytes':60000000}"});
    struct bytes body = spaces(10, GZIP), too_much = spaces(60, GZIP);
    expect_refused(server, too_much, as_gzip, 413, "memory_budget_bytes");
    int holder = raw_connect(server, 0);
    ck_assert(raw_send_text(
        holder, "POST " FORWARD " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 55000000\r\n\r\n"));
    struct raw_answer answer = raw_receive(holder, PATIENCE_SECONDS, "\r\n\r\n");
    ck_assert_int_eq(raw_status(&answer), 100);
    raw_answer_free(&answer);
    struct reply reply = post(server, body, as_gzip);
    char after[16];
    expect_problem(&reply, 429, NULL, "memory_budget_bytes", "a full budget");
    ck_assert(reply_header(&reply, "Retry-After", after, sizeof after));
    reply_free(&reply);
    close(holder);
    const double until = seconds_now() + PATIENCE_SECONDS;
    while ((reply = post(server, body, as_gzip)).status == 429 && seconds_now() < until) {
        reply_free(&reply);
        sleep_ms(50); /* the server notices that the first has gone */
    }
    expect_problem(&reply, 400, NULL, NULL, "spaces are not JSON");
    reply_free(&reply);
    free(body.data);
    free(too_much.data);
    server_process_stop(server);
}
END_TEST

/* A gzip body of about `length` bytes that stands for nothing and takes as long as can be: empty blocks, each with its
 * own code. The last block never comes, so that a server that reads to the end says 400. */
static struct bytes empty_blocks(size_t length)
{
    /* In the order of the stream: not the last; a code for code lengths in which 18 is 0, 0 is 10 and 1 is 11; with it
     * one literal and the end of the block, and one distance, of one bit each; the end. */
    static const char block[] = "00100000000000111000000100010"
                                "000000000000000000000000000000000000000010"
                                "11011111110010101111111";
    enum { BITS = sizeof block - 1, UNIT = BITS / 2 };
    _Static_assert(BITS % 2 == 0, "four blocks are whole bytes: a unit");
    static const char header[10] = {0x1F, (char)0x8B, 8};
    unsigned char unit[UNIT] = {0};
    for (size_t i = 0; i < 4 * (size_t)BITS; i++)
        unit[i / 8] |= (unsigned char)((block[i % BITS] == '1') << i % 8);
    struct bytes body = {malloc(length), sizeof header};
    ck_assert_ptr_nonnull(body.data);
    memcpy(body.data, header, sizeof header);
    for (; body.length + UNIT <= length; body.length += UNIT)
        memcpy(body.data + body.length, unit, UNIT);
    return body;
}

/* 40 MB take some seconds in all. */
#define LONG_BODY ((size_t)40 << 20)

START_TEST(the_deadline_comes_first)
{
    struct server_process *server = server_process_start(
        &(struct server_options){.server_members = "'drain_delay_s':0,'workers':1,'request_timeout_s':0.2"});
    struct bytes body = empty_blocks(LONG_BODY), little = {body.data, 100000};
    long status = 504;
    for (size_t try = 0; try < TRIES && status == 504; try++) { /* too late only where the machine stands still */
        struct reply reply = post(server, little, as_gzip);
        status = reply.status;
        if (status != 504)
            expect_problem(&reply, 400, NULL, "cut short", "a little of it");
        reply_free(&reply);
    }
    ck_assert_int_eq(status, 400);
    expect_refused(server, body, as_gzip, 504, "request_timeout_s"); /* at once, or in time */
    free(body.data);
    server_process_stop(server);
}
END_TEST

START_TEST(others_are_served_meanwhile)
{
    struct server_process *server = server_process_start(&(struct server_options){
        .server_members = "'drain_delay_s':0,'workers':1,'upload_timeout_s':300,'request_timeout_s':300"});
    char *text = noisy_request(15); /* for the worker, but light */
    struct bytes body = empty_blocks(LONG_BODY), light = packed(text, strlen(text), GZIP, 1);
    ck_assert_uint_gt(light.length, 4096);
    char *head = quoted("POST " FORWARD " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                        "Content-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n",
                        body.length);
    bool first = false; /* the long one is last, unless the machine stands still */
    for (size_t try = 0; try < TRIES && !first; try++) {
        int descriptor = raw_connect(server, 0);
        ck_assert(raw_send_text(descriptor, head) && raw_send(descriptor, body.data, body.length));
        for (int i = 0; i < 10; i++) {
            struct reply reply = post(server, light, as_gzip);
            ck_assert_int_eq(reply.status, 200);
            reply_free(&reply);
        }
        struct raw_answer answer = raw_receive(descriptor, 0.001, NULL);
        first = answer.length == 0 && !answer.closed;
        raw_answer_free(&answer);
        close(descriptor);
    }
    ck_assert_msg(first, "the long one was first each time");
    ck_assert_msg(server_process_logs(server, "\"client-gone\"", PATIENCE_SECONDS, NULL),
                  "it went on when its client had gone");
    free(head);
    free(light.data);
    free(body.data);
    free(text);
    server_process_stop(server);
}
END_TEST

/* ---- out */

static void expect_varies(const struct reply *reply, const char *name)
{
    char vary[64];
    ck_assert_msg(reply_header(reply, "Vary", vary, sizeof vary), "%s: no Vary", name);
    ck_assert_str_eq(vary, "Accept, Accept-Encoding");
}

START_TEST(answers)
{
    static const struct {
        const char *headers[3];
        bool zipped;
    } cases[] = {
        {{"Accept-Encoding: gzip"}, true},
        {{"Accept-Encoding: x-gzip"}, true},
        {{"Accept-Encoding: br;q=1.0, gzip;q=0.5"}, true},
        {{"Accept-Encoding: br", "Accept-Encoding: gzip;q=0.1"}, true},
        {{"Accept-Encoding: *"}, true},
        {{"Accept-Encoding: identity;q=0, gzip"}, true},
        {{"Accept-Encoding: gzip;q=0"}, false},
        {{"Accept-Encoding: identity"}, false},
        {{"Accept-Encoding: gzip;q=0.5, identity"}, false},
        {{"Accept-Encoding: deflate, br"}, false},
        {{"Accept-Encoding;"}, false}, /* libcurl's word for a header without a value */
        {{"Accept-Encoding: identity;q=0"}, false},
        {{NULL}, false},
    };
    struct server_process *server = start(NULL);
    /* By the polling thread and by a worker; in base64, whose length is known before it is written. */
    char *heavy = heavy_request(2000), *texts[] = {small_request(), noisy_request(400), heavy};
    for (size_t i = 0; i < 3; i++) {
        struct reply plain = post(server, text_of(texts[i]), NULL);
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
            struct reply reply = post(server, text_of(texts[i]), cases[j].headers);
            const char *name = cases[j].headers[0] ? cases[j].headers[0] : "no Accept-Encoding";
            ck_assert_msg(is_packed(&reply) == cases[j].zipped, "%s: %s", name, reply.headers);
            expect_varies(&reply, name);
            if (cases[j].zipped) {
                ck_assert_uint_lt(reply.length, plain.length);
                unpack(&reply);
            }
            expect_same(&reply, &plain, name);
            reply_free(&reply);
        }
        reply_free(&plain);
        free(texts[i]);
    }
    server_process_stop(server);
}
END_TEST

/* What a client does that knows the coding by itself. */
START_TEST(libcurl_understands_it)
{
    struct server_process *server = start(NULL);
    struct http_call call = {.method = "GET", .path = "/openapi.json"};
    CURL *easy = http_prepare(server_process_port(server), &call, true);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    http_release(easy, &call, curl_easy_perform(easy));
    ck_assert_int_eq(call.reply.failure, CURLE_OK);
    ck_assert(is_packed(&call.reply));
    struct reply plain = http_get(server, "/openapi.json");
    ck_assert(!is_packed(&plain));
    ck_assert_uint_eq(call.reply.length, plain.length);
    ck_assert(memcmp(call.reply.body, plain.body, plain.length) == 0);
    reply_free(&call.reply);
    reply_free(&plain);
    server_process_stop(server);
}
END_TEST

static struct reply get(const struct server_process *server, const char *method, const char *path,
                        const char *const *headers)
{
    return http_send(server, (struct http_call){.method = method, .path = path, .headers = headers});
}

START_TEST(sizes_and_routes)
{
    static const char *const only_gzip[] = {"Accept-Encoding: gzip, identity;q=0", NULL};
    struct server_process *server = start("'compression':{'min_bytes':600,'max_bytes':20000}");
    char *small = small_request(), *noisy = noisy_request(60);
    struct reply reply = post(server, text_of(noisy), accept_gzip);
    ck_assert_msg(!is_packed(&reply) && reply.length > 20000, "%zu bytes", reply.length);
    expect_varies(&reply, "a long answer");
    reply_free(&reply);
    reply = post(server, text_of(noisy), only_gzip);
    ck_assert(!is_packed(&reply));
    reply_free(&reply);
    reply = post(server, text_of(small), accept_gzip);
    ck_assert(is_packed(&reply));
    reply_free(&reply);

    /* Short ones, where gzip is all that is left. */
    reply = get(server, "GET", "/v1/weights/demo", accept_gzip);
    ck_assert_msg(!is_packed(&reply) && reply.length < 600, "%zu bytes", reply.length);
    expect_varies(&reply, "a short answer");
    struct reply forced = get(server, "GET", "/v1/weights/demo", only_gzip);
    ck_assert(is_packed(&forced));
    unpack(&forced);
    ck_assert_str_eq(forced.body, reply.body);
    reply_free(&forced);
    reply_free(&reply);

    /* Errors, by whoever finds them. */
    reply = get(server, "GET", "/none", only_gzip);
    ck_assert_int_eq(reply.status, 404);
    ck_assert(is_packed(&reply));
    expect_varies(&reply, "404");
    unpack(&reply);
    expect_problem(&reply, 404, NULL, "/none", "404 in gzip");
    reply_free(&reply);
    reply = post(server, (struct bytes){"{}", 2}, only_gzip);
    ck_assert(is_packed(&reply));
    unpack(&reply);
    expect_problem(&reply, 422, NULL, NULL, "422 in gzip");
    reply_free(&reply);
    reply = post(server, (struct bytes){"{}", 2}, accept_gzip);
    expect_problem(&reply, 422, NULL, NULL, "422");
    expect_varies(&reply, "422");
    reply_free(&reply);

    static const char *const probes[] = {"/healthz", "/readyz"};
    for (size_t i = 0; i < 2; i++) {
        char vary[64];
        reply = get(server, "GET", probes[i], only_gzip);
        ck_assert(reply.status == 200 && !is_packed(&reply) && !reply_header(&reply, "Vary", vary, sizeof vary));
        reply_free(&reply);
    }
    free(noisy);
    free(small);
    server_process_stop(server);
}
END_TEST

/* At the level that takes longest a worker does it, for GET and HEAD. */
START_TEST(long_documents_at_every_level)
{
    static const int levels[] = {1, 6, 9, 12};
    char members[8192];
    size_t length =
        (size_t)sprintf(members, "'compression':{'level':%d},'default_weights':'w0','weights':[", levels[_i]);
    for (int i = 0; i < 60; i++)
        length += (size_t)sprintf(members + length, "%s{'name':'w%d','source':'identity','d_model':64,'num_heads':8}",
                                  i ? "," : "", i);
    sprintf(members + length, "]");
    struct server_process *server =
        server_process_start(&(struct server_options){.members = members, .own_weights = true});
    static const char *const paths[] = {"/v1/weights", "/openapi.json"};
    for (size_t i = 0; i < 2; i++) {
        struct reply plain = get(server, "GET", paths[i], NULL), reply = get(server, "GET", paths[i], accept_gzip);
        struct reply head = get(server, "HEAD", paths[i], accept_gzip);
        char got[64], wanted[64];
        ck_assert(is_packed(&reply) && is_packed(&head) && !is_packed(&plain));
        ck_assert(reply_header(&head, "Content-Length", got, sizeof got) &&
                  reply_header(&reply, "Content-Length", wanted, sizeof wanted));
        ck_assert_str_eq(got, wanted);
        unpack(&reply);
        ck_assert_uint_eq(reply.length, plain.length);
        ck_assert(memcmp(reply.body, plain.body, plain.length) == 0);
        reply_free(&plain);
        reply_free(&reply);
        reply_free(&head);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(the_log_counts_what_was_sent)
{
    static const char *const both[] = {"Content-Encoding: gzip", "Accept-Encoding: gzip", "x-request-id: the-one",
                                       NULL};
    struct server_process *server = start(NULL);
    char *text = noisy_request(100), expected[128], *line;
    struct bytes body = packed(text, strlen(text), GZIP, 6);
    struct reply reply = post(server, body, both);
    ck_assert(reply.status == 200 && is_packed(&reply));
    ck_assert(server_process_logs(server, "\"request_id\":\"the-one\"", PATIENCE_SECONDS, &line));
    snprintf(expected, sizeof expected, "\"bytes_in\":%zu,\"bytes_out\":%zu,", body.length, reply.length);
    ck_assert_msg(strstr(line, expected) != NULL, "%s: %s", expected, line);
    free(line);
    reply_free(&reply);
    free(body.data);
    free(text);
    server_process_stop(server);
}
END_TEST

/* Many at once, of every kind; and one after the other on one connection. */
START_TEST(side_by_side)
{
    static const char *const ways[][3] = {{NULL},
                                          {"Content-Encoding: gzip"},
                                          {"Accept-Encoding: gzip"},
                                          {"Content-Encoding: gzip", "Accept-Encoding: gzip"}};
    struct server_process *server = start("'limits':{'queue_depth':256}");
    char *texts[] = {small_request(), noisy_request(100), heavy_request(1000)};
    struct bytes zipped[3];
    struct reply plain[3];
    struct http_call calls[48];
    for (size_t i = 0; i < 3; i++) {
        zipped[i] = packed(texts[i], strlen(texts[i]), GZIP, 1);
        plain[i] = post(server, text_of(texts[i]), NULL);
    }
    for (size_t i = 0; i < 48; i++) {
        const struct bytes body = i / 3 % 4 % 2 ? zipped[i % 3] : text_of(texts[i % 3]);
        calls[i] = (struct http_call){
            .method = "POST", .path = FORWARD, .body = body.data, .length = body.length, .headers = ways[i / 3 % 4]};
    }
    struct http_client *client = http_client_open(server);
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            http_perform_all(server, calls, 48);
        for (size_t i = 0; i < 48; i++) {
            if (round == 1)
                http_client_perform(client, &calls[i]);
            if (is_packed(&calls[i].reply))
                unpack(&calls[i].reply);
            else
                ck_assert(i / 3 % 4 < 2);
            expect_same(&calls[i].reply, &plain[i % 3], ways[i / 3 % 4][0] ? ways[i / 3 % 4][0] : "plain");
            ck_assert(round == 0 || i == 0 || calls[i].reply.new_connections == 0);
            reply_free(&calls[i].reply);
        }
    }
    http_client_close(client);
    for (size_t i = 0; i < 3; i++) {
        reply_free(&plain[i]);
        free(zipped[i].data);
        free(texts[i]);
    }
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/compression");
    TCase *c = tcase_create("compression");
    tcase_add_test(c, bodies_in_every_coding);
    tcase_add_test(c, codings_that_are_not_supported);
    tcase_add_test(c, broken_bodies);
    tcase_add_test(c, bombs);
    tcase_add_loop_test(c, the_edge_of_the_limit, 0, 2);
    tcase_add_test(c, the_budget_is_asked);
    tcase_add_test(c, the_deadline_comes_first);
    tcase_add_test(c, others_are_served_meanwhile);
    tcase_add_test(c, answers);
    tcase_add_test(c, libcurl_understands_it);
    tcase_add_test(c, sizes_and_routes);
    tcase_add_loop_test(c, long_documents_at_every_level, 0, 4);
    tcase_add_test(c, the_log_counts_what_was_sent);
    tcase_add_test(c, side_by_side);
    suite_add_tcase(s, c);
    return s;
}
