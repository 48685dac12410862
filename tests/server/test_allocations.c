/* The server survives, at every n, the failure of its n-th allocation: at start, and while it answers. */
#include "analysis/live_sums.h"
#include "codec/live_state.h"
#include "config/config.h"
#include "engine/attention.h"
#include "fail_alloc.h"
#include "runtime/budget.h"
#include "runtime/pool.h"
#include "server/context.h"
#include "server/server.h"
#include "suite.h"
#include "telemetry/log.h"
#include "weights/registry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libdeflate.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

/* More allocations than any of these paths makes: a test that runs into it has found a loop. */
#define MOST 2000

static struct config config;
static struct weights_registry registry;
static struct memory_budget budget;
static struct arena_store *arenas;
static struct pool *pool;

/* Where the token of the admin routes stands. */
static char token_file[] = "/tmp/attnd-token-XXXXXX";

#define TOKEN "a-token"

static void write_token(void)
{
    int file = mkstemp(strcpy(token_file, "/tmp/attnd-token-XXXXXX"));
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, TOKEN "\n", sizeof TOKEN), sizeof TOKEN);
    close(file);
}

static void set_up(void)
{
    char variable[64];
    write_token();
    snprintf(variable, sizeof variable, "ATTND_ADMIN_TOKEN_FILE=%s", token_file);
    const char *const listen[] = {"127.0.0.1:0"}, *const environment[] = {variable, NULL};
    const struct config_flags flags = {.listen = listen, .listen_count = 1};
    struct faults faults = {0}, warnings = {0};
    struct error error;
    ck_assert(engine_init(NULL, &error));
    ck_assert(config_load(&flags, environment, &config, &faults, &warnings));
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert(log_start(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_INFO, LOG_JSON, &error));
    budget_init(&budget, 0);
    /* The linker puts those that fail in their place. */
    libdeflate_set_memory_allocator(malloc, free);
    json_set_alloc_funcs(malloc, free);
}

static void tear_down(void)
{
    log_stop();
    registry_free(&registry);
    config_free(&config);
    unlink(token_file);
}

/* Workers without any memory yet. */
static void start_workers(void)
{
    struct error error;
    arenas = arena_store_create(SIZE_MAX, &error);
    ck_assert_ptr_nonnull(arenas);
    const struct pool_options options = {.workers = 2, .queue_depth = 8, .arenas = arenas, .batch_rows = 8};
    pool = pool_create(&options, &error);
    ck_assert_ptr_nonnull(pool);
}

static void stop_workers(void)
{
    pool_free(pool);
    arena_store_free(arenas);
}

static struct server *start(struct error *error)
{
    static const struct config_flags flags; /* what is read again is built in */
    const struct server_parts parts = {
        .config = &config, .flags = &flags, .registry = &registry, .budget = &budget, .arenas = arenas, .pool = pool};
    return server_start(&parts, error);
}

static struct sockaddr_in place_of(const struct server *server)
{
    int port;
    ck_assert_int_eq(sscanf(server_address(server, 0), "127.0.0.1:%d", &port), 1);
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* As recv: a socket with a time limit is interrupted where the process is stopped and goes on. */
static ssize_t receive(int client, char *to, size_t size)
{
    ssize_t got;
    do
        got = recv(client, to, size, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Sends `request` on a connection of its own and reads all that comes back, NUL-terminated. Allocates nothing, and
 * asserts nothing: check allocates when it does. */
static size_t exchange(const struct sockaddr_in *to, const char *request, size_t length, char *answer, size_t size)
{
    const struct timeval timeout = {.tv_sec = 60};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    size_t got = 0;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(client, (const struct sockaddr *)to, sizeof *to) == 0) {
        (void)!send(client, request, length, MSG_NOSIGNAL);
        for (ssize_t more; got < size - 1 && (more = receive(client, answer + got, size - 1 - got)) > 0;)
            got += (size_t)more;
    }
    close(client);
    answer[got] = '\0';
    return got;
}

/* Reads one answer of a connection that stays open: whether it is a whole 200. Allocates nothing. */
static bool read_answer(int client, char *answer, size_t size)
{
    size_t got = 0, wanted = size - 1;
    for (ssize_t more; got < wanted && (more = receive(client, answer + got, wanted - got)) > 0;) {
        got += (size_t)more;
        answer[got] = '\0';
        const char *end = strstr(answer, "\r\n\r\n"), *header = strcasestr(answer, "\r\nContent-Length: ");
        if (end && header)
            wanted = (size_t)(end + 4 - answer) + strtoull(header + strlen("\r\nContent-Length: "), NULL, 10);
    }
    return got == wanted && strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

#define HEAD(line) line " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

/* Builds the requests that are tried. `good` decides whether its body is right. */
static size_t forward_request(char *to, size_t size, bool good, bool chunked)
{
    char body[2048] = "{\"input\":[[";
    for (int i = 0; i < (good ? 64 : 63); i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), "%s0.5", i ? "," : "");
    strcat(body, "]],\"id\":\"an id\",\"head_mask\":[1,1,1,1,1,1,1,0.5],\"attention_mask\":[true]}");
    size_t length = strlen(body);
    if (chunked)
        return (size_t)snprintf(to, size,
                                HEAD("POST /v1/forward") "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                                length, body);
    return (size_t)snprintf(to, size, HEAD("POST /v1/forward") "Content-Length: %zu\r\n\r\n%s", length, body);
}

/* The same with its body in gzip, and an answer in gzip asked for. */
static size_t gzip_request(char *to, size_t size)
{
    static char plain[4096];
    forward_request(plain, sizeof plain, true, false);
    char *body = strstr(plain, "\r\n\r\n") + 4;
    char zipped[2048];
    z_stream z = {.next_in = (Bytef *)body,
                  .avail_in = (uInt)strlen(body),
                  .next_out = (Bytef *)zipped,
                  .avail_out = sizeof zipped};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t head = (size_t)snprintf(to, size,
                                   HEAD("POST /v1/forward") "Content-Encoding: gzip\r\nAccept-Encoding: gzip, "
                                                            "identity;q=0\r\nContent-Length: %lu\r\n\r\n",
                                   z.total_out);
    memcpy(to + head, zipped, z.total_out);
    deflateEnd(&z);
    return head + z.total_out;
}

static size_t infer_request(char *to, size_t size, bool good)
{
    char body[2048] = "{\"id\":\"7\",\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,64],\"data\":[";
    for (int i = 0; i < (good ? 64 : 63); i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), "%s0.5", i ? "," : "");
    strcat(body,
           "]}],\"outputs\":[{\"name\":\"output\"},{\"name\":\"attention\",\"parameters\":{\"binary_data\":true}}]}");
    return (size_t)snprintf(to, size, HEAD("POST /v2/models/demo/infer") "Content-Length: %zu\r\n\r\n%s", strlen(body),
                            body);
}

static size_t importance_request(char *to, size_t size)
{
    char body[2048] = "{\"input\":[[";
    for (int i = 0; i < 64; i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), "%s0.5", i ? "," : "");
    strcat(body, "]],\"id\":7,\"method\":\"zero\",\"prune_plan\":true,\"tolerance\":0.5}");
    return (size_t)snprintf(to, size, HEAD("POST /v1/heads/importance") "Content-Length: %zu\r\n\r\n%s", strlen(body),
                            body);
}

static size_t post_request(char *to, size_t size, const char *path, const char *body)
{
    return (size_t)snprintf(to, size,
                            "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer " TOKEN
                            "\r\nContent-Length: %zu\r\n\r\n%s",
                            path, strlen(body), body);
}

static void append_sums(struct text *text, const char *name)
{
    text_append_format(text,
                       "\"%s\":{\"sequences\":2,\"n\":8,\"nn\":34,\"offset\":[0.5],\"z\":[1],\"zz\":[1],"
                       "\"zn\":[4]}",
                       name);
}

/* Two documents of a set with one head. */
static size_t merge_request(char *to, size_t size)
{
    struct text text = {0};
    text_append_string(&text, "{\"states\":[");
    for (int document = 0; document < 2; document++) {
        text_append_string(&text, document ? "," : "");
        text_append_string(&text, "{\"format\":\"" LIVE_STATE_FORMAT "\",\"instance\":\"a\",\"weights\":\"any\","
                                  "\"digest\":\"0\",\"num_layers\":1,\"num_heads\":1,\"sample_rate\":1,"
                                  "\"since\":\"2026-01-01T00:00:00.000Z\",\"n_sequences\":2,\"n_rows\":8,"
                                  "\"n_excluded\":0,\"n_skipped\":0,\"n_allowed\":32,\"even\":2,\"statistics\":{");
        for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
            append_sums(&text, head_statistic_kinds[live_statistics[i]].name);
            text_append_string(&text, ",");
        }
        for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++) {
            text_append_string(&text, i ? "," : "");
            append_sums(&text, head_statistic_kinds[live_baselines[i]].name);
        }
        text_append_string(&text, "},\"products\":[3]}");
    }
    text_append_string(&text, "],\"metric\":\"pearson\"}");
    const size_t length = post_request(to, size, "/v1/heads/merge", text_terminate(&text));
    text_free(&text);
    return length;
}

/* Zeros as safetensors, answered in the same form. */
static size_t tensors_request(char *to, size_t size)
{
    static const char header[] = "{\"__metadata__\":{\"id\":\"7\"},\"input\":{\"dtype\":\"F32\",\"shape\":[1,64],"
                                 "\"data_offsets\":[0,256]}}";
    char body[8 + sizeof header - 1 + 256] = {sizeof header - 1};
    memcpy(body + 8, header, sizeof header - 1);
    size_t length =
        (size_t)snprintf(to, size,
                         HEAD("POST /v1/forward") "Content-Type: application/x-safetensors\r\nAccept: "
                                                  "application/x-safetensors\r\nContent-Length: %zu\r\n\r\n",
                         sizeof body);
    memcpy(to + length, body, sizeof body);
    return length + sizeof body;
}

static size_t right_forward(char *to, size_t size)
{
    return forward_request(to, size, true, false);
}

static size_t wrong_forward(char *to, size_t size)
{
    return forward_request(to, size, false, false);
}

static size_t chunked_forward(char *to, size_t size)
{
    return forward_request(to, size, true, true);
}

static size_t right_infer(char *to, size_t size)
{
    return infer_request(to, size, true);
}

static size_t wrong_infer(char *to, size_t size)
{
    return infer_request(to, size, false);
}

#define MAPS "{\"attention\":[[[1,0],[0.5,0.5]],[[1,0],[0.25,0.75]]]"
#define SIMILARITY(metric, more)                                                                       \
    {                                                                                                  \
        NULL, "/v1/heads/similarity", MAPS ",\"metric\":\"" metric "\"" more "}", NULL, "HTTP/1.1 200" \
    }

/* What is tried: a request as it stands, a body that is posted, or what a function builds. */
static const struct {
    const char *text, *path, *body;
    size_t (*build)(char *to, size_t size);
    const char *wanted;
} TRIES[] = {
    {HEAD("GET /v1/weights") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/weights/demo") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/weights/none") "\r\n", NULL, NULL, NULL, "HTTP/1.1 404"},
    {HEAD("GET /openapi.json") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /none") "\r\n", NULL, NULL, NULL, "HTTP/1.1 404"},
    {HEAD("GET /v2") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v2/models") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v2/models/demo") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v2/models/demo/versions/1/config") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v2/models/demo/stats") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v2/models/demo/ready") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("POST /v2/repository/index") "Content-Length: 14\r\n\r\n{\"ready\":true}", NULL, NULL, NULL, "HTTP/1.1 200"},
    {NULL, NULL, NULL, right_forward, "HTTP/1.1 200"},
    {NULL, NULL, NULL, wrong_forward, "HTTP/1.1 422"},
    {NULL, NULL, NULL, chunked_forward, "HTTP/1.1 200"},
    {NULL, NULL, NULL, gzip_request, "HTTP/1.1 200"},
    {NULL, NULL, NULL, tensors_request, "HTTP/1.1 200"},
    {NULL, NULL, NULL, right_infer, "HTTP/1.1 200"},
    {NULL, NULL, NULL, wrong_infer, "HTTP/1.1 400"},
    {NULL, NULL, NULL, importance_request, "HTTP/1.1 200"},
    SIMILARITY("cosine", ",\"reduce\":\"mean\""),
    SIMILARITY("pearson", ",\"words\":[[[0],[1]]]"),
    SIMILARITY("centered", ""),
    SIMILARITY("js", ",\"exclude\":[1]"),
    SIMILARITY("hellinger", ""),
    SIMILARITY("cka", ",\"exclude\":[1]"),
    {NULL, "/v1/heads/stats", MAPS ",\"per_position\":true,\"stderr\":true,\"words\":[[[0,1]]]}", NULL, "HTTP/1.1 200"},
    {NULL, "/v1/heads/links", MAPS ",\"tokens\":[[\"a\",\"b\"]],\"exclude\":[0]}", NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/heads/similarity?metric=centered") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/heads/stats?include_heads=1,0") "Accept-Encoding: gzip\r\n\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/heads/drift") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/heads/state") "\r\n", NULL, NULL, NULL, "HTTP/1.1 200"},
    {HEAD("GET /v1/heads/stats?weights=none") "\r\n", NULL, NULL, NULL, "HTTP/1.1 404"},
    {NULL, NULL, NULL, merge_request, "HTTP/1.1 200"},
    {NULL, "/v1/heads/merge", "{\"states\":[{}]}", NULL, "HTTP/1.1 422"},
    {NULL, "/v1/heads/reset", "", NULL, "HTTP/1.1 200"},
};

enum { N_TRIES = sizeof TRIES / sizeof *TRIES };

/* A right answer, one that says that memory ran out, or none: the connection's own memory was not to be had. */
static void expect_survived(size_t n, bool happened, const char *answer, size_t got, const char *wanted)
{
    const bool right = strncmp(answer, wanted, strlen(wanted)) == 0;
    const bool legible = strstr(answer, "Content-Encoding: gzip") == NULL;
    const bool refused = strncmp(answer, "HTTP/1.1 503", 12) == 0 && (!legible || strstr(answer, "memory ran out"));
    ck_assert_msg(right || refused || got == 0, "failure %zu: %.700s", n, answer);
    ck_assert_msg(happened || right, "without a failure: %.200s", answer);
}

/* A server with workers that have no memory yet. */
static struct server *start_fresh(struct sockaddr_in *to)
{
    struct error error;
    start_workers();
    struct server *server = start(&error);
    ck_assert_ptr_nonnull(server);
    *to = place_of(server);
    return server;
}

static void stop_all(struct server *server)
{
    server_drain(server);
    server_stop(server);
    stop_workers();
    ck_assert_uint_eq(budget.used, 0);
}

/* One exchange in which the n-th allocation fails: whether it came to that. *got: the bytes of the answer. */
static bool exchange_failing(size_t n, const struct sockaddr_in *to, const char *request, size_t length, char *answer,
                             size_t size, const char *wanted, size_t *got)
{
    fail_alloc_at(n);
    *got = exchange(to, request, length, answer, size);
    const bool happened = fail_alloc_happened();
    fail_alloc_at(0);
    expect_survived(n, happened, answer, *got, wanted);
    return happened;
}

START_TEST(answers)
{
    static char request[16384], control[4096], answer[1 << 20];
    size_t control_length = forward_request(control, sizeof control, true, false), length;
    if (TRIES[_i].build)
        length = TRIES[_i].build(request, sizeof request);
    else if (TRIES[_i].body)
        length = post_request(request, sizeof request, TRIES[_i].path, TRIES[_i].body);
    else
        length = (size_t)snprintf(request, sizeof request, "%s", TRIES[_i].text);
    ck_assert_uint_lt(length, sizeof request);

    size_t failures = 0;
    for (size_t n = 1; n < MOST; n++) {
        struct sockaddr_in to;
        size_t got;
        struct server *server = start_fresh(&to);
        const bool happened = exchange_failing(n, &to, request, length, answer, sizeof answer, TRIES[_i].wanted, &got);
        exchange(&to, control, control_length, answer, sizeof answer);
        ck_assert_msg(strncmp(answer, "HTTP/1.1 200", 12) == 0 && strstr(answer, "\"output\":[["),
                      "after failure %zu: %.700s", n, answer);
        stop_all(server);
        if (!happened)
            break;
        failures++;
    }
    ck_assert_uint_gt(failures, 1);
    ck_assert_uint_lt(failures, MOST - 1);
}
END_TEST

/* Whether a GET's answer holds the text. */
static bool says(const struct sockaddr_in *to, const char *request, const char *text)
{
    static char answer[1 << 16];
    exchange(to, request, strlen(request), answer, sizeof answer);
    return strncmp(answer, "HTTP/1.1 200", 12) == 0 && strstr(answer, text);
}

/* The next weights come whole, with statistics that begin anew, or nothing has changed: neither the weights nor what
 * was counted for them. */
START_TEST(reload)
{
    static const char mask[] = ",\"head_mask\":[1,1,1,1,1,1,1,0.5]";
    static char request[1024], forward[4096], answer[1 << 16];
    const size_t length = post_request(request, sizeof request, "/v1/weights/demo/reload", ""),
                 forward_length = forward_request(forward, sizeof forward, true, false);
    size_t failures = 0;
    memset(strstr(forward, mask), ' ', sizeof mask - 1); /* such traffic would not be counted */
    config.weights[0].seed = 43;                         /* when it is loaded again */
    for (size_t n = 1; n < MOST; n++) {
        struct sockaddr_in to;
        size_t got;
        struct server *server = start_fresh(&to);
        exchange(&to, forward, forward_length, answer, sizeof answer);
        ck_assert(says(&to, HEAD("GET /v1/heads/stats") "\r\n", "\"n_rows\":1,"));
        const bool happened = exchange_failing(n, &to, request, length, answer, sizeof answer, "HTTP/1.1 200", &got);
        const bool loaded = !says(&to, HEAD("GET /v1/weights/demo") "\r\n", registry.sets[0]->digest);
        ck_assert_msg(got == 0 || loaded == (strncmp(answer, "HTTP/1.1 200", 12) == 0), "failure %zu: %.400s", n,
                      answer);
        ck_assert_msg(says(&to, HEAD("GET /v1/heads/stats") "\r\n", loaded ? "\"n_rows\":0," : "\"n_rows\":1,"),
                      "after failure %zu, %s", n, loaded ? "loaded" : "not loaded");
        exchange(&to, forward, forward_length, answer, sizeof answer);
        ck_assert_msg(strncmp(answer, "HTTP/1.1 200", 12) == 0, "after failure %zu: %.700s", n, answer);
        stop_all(server);
        if (!happened)
            break;
        failures++;
    }
    ck_assert_uint_gt(failures, 10);
    ck_assert_uint_lt(failures, MOST - 1);
}
END_TEST

/* On one connection, so that what a connection takes is not counted. */
START_TEST(a_steady_state_allocates_nothing)
{
    static char request[4096], answer[1 << 16];
    struct sockaddr_in to;
    struct server *server = start_fresh(&to);
    size_t length = _i == 4   ? infer_request(request, sizeof request, true)
                    : _i == 3 ? gzip_request(request, sizeof request)
                    : _i == 2 ? importance_request(request, sizeof request)
                              : forward_request(request, sizeof request, true, _i == 1);
    char *close_header = strstr(request, "Connection: close\r\n");
    const size_t cut = strlen("Connection: close\r\n");
    memmove(close_header, close_header + cut, length - (size_t)(close_header - request) - cut + 1);
    length -= cut;

    int client = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval timeout = {.tv_sec = 60};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ck_assert_int_eq(connect(client, (const struct sockaddr *)&to, sizeof to), 0);
    /* Every thread and arena has served in the first round, or, where the machine kept some of them back, in a later
     * one. */
    size_t right = 0, allocations = 1, rounds = 0;
    for (; rounds < 10 && allocations; rounds++) {
        if (rounds)
            fail_alloc_at(SIZE_MAX);
        for (int i = 0; i < 30; i++) {
            (void)!send(client, request, length, MSG_NOSIGNAL);
            right += read_answer(client, answer, sizeof answer);
        }
        if (rounds)
            allocations = SIZE_MAX - fail_alloc_left();
        fail_alloc_at(0);
    }
    close(client);
    ck_assert_uint_eq(right, 30 * rounds);
    ck_assert_uint_eq(allocations, 0);
    stop_all(server);
}
END_TEST

/* Of everything: either it is done or nothing is changed, and requests are served. */
START_TEST(reloads)
{
    static char control[4096], answer[1 << 20];
    const size_t length = forward_request(control, sizeof control, true, false);
    size_t failures = 0, failed = 0;
    for (size_t n = 1; n < MOST; n++) {
        struct error error;
        start_workers();
        struct server *server = start(&error);
        ck_assert_ptr_nonnull(server);
        const struct sockaddr_in to = place_of(server);
        const struct reload_counts *counts = &server->reload.counts;
        fail_alloc_at(n);
        server_reload(server);
        while (atomic_load(&counts->succeeded) + atomic_load(&counts->failed) == 0)
            usleep(100);
        bool happened = fail_alloc_happened();
        fail_alloc_at(0);
        failed += atomic_load(&counts->failed);
        ck_assert_msg(happened || atomic_load(&counts->succeeded) == 1, "it failed by itself");
        exchange(&to, control, length, answer, sizeof answer);
        ck_assert_msg(strncmp(answer, "HTTP/1.1 200", 12) == 0, "after failure %zu: %.200s", n, answer);
        server_stop(server);
        stop_workers();
        ck_assert_uint_eq(budget.used, 0);
        if (!happened)
            break;
        failures++;
    }
    ck_assert_uint_gt(failures, 20);
    ck_assert_uint_lt(failures, MOST - 1);
    ck_assert_uint_gt(failed, 10);
}
END_TEST

START_TEST(start_up)
{
    start_workers();
    for (size_t n = 1; n < MOST; n++) {
        struct error error = {0};
        fail_alloc_at(n);
        struct server *server = start(&error);
        bool happened = fail_alloc_happened();
        fail_alloc_at(0);
        ck_assert(server || error.code == ERROR_OUT_OF_MEMORY || error.code == ERROR_IO);
        server_stop(server);
        if (!happened) {
            stop_workers();
            return;
        }
    }
    ck_abort_msg("the start never goes without a failure");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("allocations");
    TCase *c = tcase_create("allocations");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, answers, 0, N_TRIES);
    tcase_add_test(c, reload);
    tcase_add_loop_test(c, a_steady_state_allocates_nothing, 0, 5);
    tcase_add_test(c, start_up);
    tcase_add_test(c, reloads);
    suite_add_tcase(s, c);
    return s;
}
