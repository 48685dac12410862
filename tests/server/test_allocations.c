/* The server survives, at every n, the failure of its n-th allocation: at start, and while it answers. */
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
#include <fcntl.h>
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

static void set_up(void)
{
    static const char *const listen[] = {"127.0.0.1:0"}, *const environment[] = {NULL};
    const struct config_flags flags = {.listen = listen, .listen_count = 1};
    struct faults faults = {0}, warnings = {0};
    struct error error;
    ck_assert(engine_init(NULL, &error));
    ck_assert(config_load(&flags, environment, &config, &faults, &warnings));
    ck_assert(registry_load(&config, &registry, &faults, &warnings));
    ck_assert(log_start(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_INFO, LOG_JSON, &error));
    budget_init(&budget, 0);
    libdeflate_set_memory_allocator(malloc, free); /* the linker puts those that fail in their place */
}

static void tear_down(void)
{
    log_stop();
    registry_free(&registry);
    config_free(&config);
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

/* Sends `request` on a connection of its own and reads all that comes back, NUL-terminated. Allocates nothing, and
 * asserts nothing: check allocates when it does. */
static size_t exchange(const struct sockaddr_in *to, const char *request, size_t length, char *answer, size_t size)
{
    const struct timeval timeout = {.tv_sec = 30};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    size_t got = 0;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(client, (const struct sockaddr *)to, sizeof *to) == 0) {
        (void)!send(client, request, length, MSG_NOSIGNAL);
        for (ssize_t more; got < size - 1 && (more = recv(client, answer + got, size - 1 - got, 0)) > 0;)
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
    for (ssize_t more; got < wanted && (more = recv(client, answer + got, wanted - got, 0)) > 0;) {
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

static size_t similarity_request(char *to, size_t size)
{
    static const char body[] =
        "{\"attention\":[[[1,0],[0.5,0.5]],[[1,0],[0.25,0.75]]],\"exclude\":[1],\"metric\":\"cka\"}";
    return (size_t)snprintf(to, size, HEAD("POST /v1/heads/similarity") "Content-Length: %zu\r\n\r\n%s",
                            sizeof body - 1, body);
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

START_TEST(answers)
{
    static const char *const simple[] = {
        HEAD("GET /v1/weights") "\r\n",
        HEAD("GET /v1/weights/demo") "\r\n",
        HEAD("GET /v1/weights/none") "\r\n",
        HEAD("GET /openapi.json") "\r\n",
        HEAD("GET /none") "\r\n",
        HEAD("GET /v2") "\r\n",
        HEAD("GET /v2/models") "\r\n",
        HEAD("GET /v2/models/demo") "\r\n",
        HEAD("GET /v2/models/demo/versions/1/config") "\r\n",
        HEAD("GET /v2/models/demo/stats") "\r\n",
        HEAD("GET /v2/models/demo/ready") "\r\n",
        HEAD("POST /v2/repository/index") "Content-Length: 14\r\n\r\n{\"ready\":true}"};
    enum {
        SIMPLE = sizeof simple / sizeof *simple,
        FORWARD = SIMPLE,
        WRONG,
        CHUNKED,
        IMPORTANCE,
        SIMILARITY,
        GZIP,
        TENSORS,
        INFER,
        WRONG_INFER
    };
    static char request[4096], control[4096], answer[1 << 20];
    size_t control_length = forward_request(control, sizeof control, true, false), length;
    if (_i < SIMPLE)
        length = (size_t)snprintf(request, sizeof request, "%s", simple[_i]);
    else if (_i < IMPORTANCE)
        length = forward_request(request, sizeof request, _i != WRONG, _i == CHUNKED);
    else if (_i < INFER)
        length = (_i == IMPORTANCE   ? importance_request
                  : _i == SIMILARITY ? similarity_request
                  : _i == GZIP       ? gzip_request
                                     : tensors_request)(request, sizeof request);
    else
        length = infer_request(request, sizeof request, _i == INFER);
    const char *wanted = _i == 2 || _i == 4  ? "HTTP/1.1 404"
                         : _i == WRONG       ? "HTTP/1.1 422"
                         : _i == WRONG_INFER ? "HTTP/1.1 400"
                                             : "HTTP/1.1 200";

    size_t failures = 0;
    for (size_t n = 1; n < MOST; n++) {
        struct error error;
        start_workers();
        struct server *server = start(&error);
        ck_assert_ptr_nonnull(server);
        const struct sockaddr_in to = place_of(server);
        fail_alloc_at(n);
        size_t got = exchange(&to, request, length, answer, sizeof answer);
        bool happened = fail_alloc_happened();
        fail_alloc_at(0);
        bool right = strncmp(answer, wanted, strlen(wanted)) == 0;
        bool legible = strstr(answer, "Content-Encoding: gzip") == NULL;
        bool refused = strncmp(answer, "HTTP/1.1 503", 12) == 0 && (!legible || strstr(answer, "memory ran out"));
        ck_assert_msg(right || refused || got == 0, "failure %zu: %.200s", n, answer);
        ck_assert_msg(happened || right, "without a failure: %.200s", answer);
        exchange(&to, control, control_length, answer, sizeof answer);
        ck_assert_msg(strncmp(answer, "HTTP/1.1 200", 12) == 0 && strstr(answer, "\"output\":[["),
                      "after failure %zu: %.200s", n, answer);
        server_drain(server);
        server_stop(server);
        stop_workers();
        ck_assert_uint_eq(budget.used, 0);
        if (!happened)
            break;
        failures++;
    }
    ck_assert_uint_gt(failures, 1);
    ck_assert_uint_lt(failures, MOST - 1);
}
END_TEST

/* On one connection, so that what a connection takes is not counted. */
START_TEST(a_steady_state_allocates_nothing)
{
    static char request[4096], answer[1 << 16];
    struct error error;
    start_workers();
    struct server *server = start(&error);
    ck_assert_ptr_nonnull(server);
    const struct sockaddr_in to = place_of(server);
    size_t length = _i == 4   ? infer_request(request, sizeof request, true)
                    : _i == 3 ? gzip_request(request, sizeof request)
                    : _i == 2 ? importance_request(request, sizeof request)
                              : forward_request(request, sizeof request, true, _i == 1);
    char *close_header = strstr(request, "Connection: close\r\n");
    const size_t cut = strlen("Connection: close\r\n");
    memmove(close_header, close_header + cut, length - (size_t)(close_header - request) - cut + 1);
    length -= cut;

    int client = socket(AF_INET, SOCK_STREAM, 0);
    const struct timeval timeout = {.tv_sec = 30};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ck_assert_int_eq(connect(client, (const struct sockaddr *)&to, sizeof to), 0);
    size_t right = 0, allocations = 0;
    for (int i = 0; i < 60; i++) {
        if (i == 20) /* by now every thread and arena has served */
            fail_alloc_at(SIZE_MAX);
        (void)!send(client, request, length, MSG_NOSIGNAL);
        right += read_answer(client, answer, sizeof answer);
    }
    allocations = SIZE_MAX - fail_alloc_left();
    fail_alloc_at(0);
    close(client);
    ck_assert_uint_eq(right, 60);
    ck_assert_uint_eq(allocations, 0);
    server_drain(server);
    server_stop(server);
    stop_workers();
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
    tcase_add_loop_test(c, answers, 0, 21);
    tcase_add_loop_test(c, a_steady_state_allocates_nothing, 0, 5);
    tcase_add_test(c, start_up);
    tcase_add_test(c, reloads);
    suite_add_tcase(s, c);
    return s;
}
