/* The memory of the main paths. From a body to its answer nothing is allocated, and no body needs more of an arena than
 * the header promises. Where memory is allocated, every allocation fails once: the error says so, the outputs are
 * untouched, and nothing leaks (a sanitizer looks).
 *
 * The linker puts the functions here in place of malloc and its kin in the code under test; jansson is told by its own
 * hook. */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/forward_answer.h"
#include "codec/importance_answer.h"
#include "codec/oip_answer.h"
#include "codec/safetensors.h"
#include "codec/similarity_answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

/* Allocations that still succeed before one fails; negative: all. */
static long left = -1;

/* Allocations, failed or not. */
static unsigned long allocations;

static bool fails(void)
{
    allocations++;
    return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}

static const char REQUEST[] =
    "{\"weights\":\"demo\",\"id\":\"a\",\"query\":[[[1,2],[3,4]]],\"key\":{\"shape\":[1,3,2],\"data\":[5,6,7,8,9,10]},"
    "\"value\":{\"shape\":[1,3,2],\"dtype\":\"f16\",\"base64\":\"ADwAPAA8ADwAPAA\\u0038\"},\"attention_mask\":[[true,0,"
    "1]],"
    "\"bias\":[[[0.5,0,0],[0,0,-1]],[[0,0,0],[0,0,0]]],\"head_mask\":[2,1],\"return\":[\"value\",\"attention\","
    "\"heads\"],"
    "\"include_heads\":[1,0],\"top_k\":2,\"encoding\":\"base64\"}";

static const struct attention_shape SHAPE = {
    .d_model = 2, .num_heads = 2, .num_kv_heads = 2, .d_k = 1, .d_v = 1, .scale = 1, .projected = true};

/* One request from its bytes to its answer; the arenas and the text have room. */
static bool run(struct arena *arena, struct arena *composed, struct error *error)
{
    static const float zeros[64];
    static char text[8192];
    struct forward_request request;
    struct forward_input problem;
    struct answer_pieces pieces;
    const struct forward_timing timing = {0};
    struct forward_result result = {
        .output = (float *)zeros, .attention = (float *)zeros, .heads = (float *)zeros, .value = (float *)zeros};
    if (!forward_request_decode(&(struct request_body){BODY_JSON, REQUEST, sizeof REQUEST - 1}, arena, &request,
                                error) ||
        !forward_request_check(&request, &SHAPE, NULL, &problem, error) ||
        !forward_answer_compose(&request, &SHAPE, &problem, &result, NULL, "demo", "digest", &timing, &parallel_serial,
                                composed, &pieces, error) ||
        pieces.most > sizeof text)
        return false;
    answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    return true;
}

/* The same with every member in its other form. */
static bool run_importance(struct arena *arena, struct text *text, struct error *error)
{
    static const char BODY[] = "{\"weights\":\"d\\u0065mo\",\"id\":123,\"input\":{\"shape\":[1,2],\"dtype\":\"f64\","
                               "\"base64\":\"AAAAAAAAAAAAAAAAAAAA\\u0041A==\"},\"attention_mask\":{\"shape\":[1],"
                               "\"dtype\":\"bool\",\"base64\":\"AQ==\"},\"causal\":true,\"method\":\"z\\u0065ro\","
                               "\"prune_plan\":true,\"tolerance\":0.30000000000000004}";
    static double importance[] = {0.1, -1e-300};
    static struct prune_step plan[] = {{1, 0.1}, {0, 1e300}};
    const struct importance_found found = {.num_heads = 2,
                                           .importance = {.importance = importance, .plan = plan, .n_rows = 1}};
    struct importance_request request;
    struct forward_input problem;
    return importance_request_decode(&(struct request_body){BODY_JSON, BODY, sizeof BODY - 1}, arena, &request,
                                     error) &&
           forward_request_check(&request.forward, &SHAPE, NULL, &problem, error) &&
           importance_answer_encode(&request, &found, "demo", "digest", text, error);
}

/* Maps that were posted, with every member of its own. */
static bool run_similarity(struct arena *arena, struct text *text, struct error *error)
{
    static const char BODY[] =
        "{\"attention\":[[[1,0],[0.5,0.5]],[[1,0],[0.25,0.75]]],\"attention_mask\":[1,1],\"causal\":true,"
        "\"words\":[[[0],[1]]],\"exclude\":[0],\"metric\":\"hellinger\",\"on\":\"attention\","
        "\"reduce\":\"mean\",\"threshold\":0.5,\"max_pairs\":1,\"id\":\"a\"}";
    static double similarity[] = {1, 0.1, 0.1, 1}, redundancy[] = {0.1, 0.1};
    static uint32_t clusters[] = {0, 1};
    static struct head_pair pairs[] = {{0, 1, 0.1}};
    static double diversity = 0.25;
    static size_t n_clusters = 2;
    const struct similarity_found found = {
        {similarity, &diversity, 1, 1}, {0, 2}, redundancy, clusters, &n_clusters, pairs, 1,
    };
    struct similarity_request request;
    struct forward_input rule;
    struct maps_extent extent;
    return similarity_request_decode(&(struct request_body){BODY_JSON, BODY, sizeof BODY - 1}, arena, &request,
                                     error) &&
           analysis_request_check_maps(&request.analysis, &rule, &extent, error) && extent.num_heads == 2 &&
           similarity_answer_encode(&request, &found, NULL, NULL, text, error);
}

/* Both kinds of outputs, and inputs in both forms. */
static bool run_oip(struct arena *arena, struct arena *composed, struct error *error)
{
    static const char JSON[] =
        "{\"id\":\"a\",\"inputs\":[{\"data\":[[[1,2],[3,4]]],\"name\":\"input\",\"shape\":[1,2,2],\"datatype\":"
        "\"FP32\"},"
        "{\"name\":\"attention_mask\",\"datatype\":\"INT32\",\"shape\":[1,2],\"parameters\":{\"binary_data_size\":8}}],"
        "\"outputs\":[{\"name\":\"output\"},{\"name\":\"attention\",\"parameters\":{\"binary_data\":true}}],"
        "\"parameters\":{\"top_k\":1,\"include_heads\":[1]}}";
    static const float zeros[64];
    static char body[sizeof JSON - 1 + 8], text[8192];
    const struct forward_result result = {.output = (float *)zeros, .attention = (float *)zeros};
    const struct oip_model model = {"demo", "1", "digest"};
    struct oip_request request;
    struct forward_input problem;
    struct answer_pieces pieces;
    size_t json_length;
    memcpy(body, JSON, sizeof JSON - 1);
    if (!oip_request_decode(body, sizeof body, sizeof JSON - 1, arena, &request, error) ||
        !forward_request_check(&request.forward, &SHAPE, NULL, &problem, error) ||
        !oip_answer_compose(&request, &SHAPE, &problem, &result, NULL, &model, &parallel_serial, composed, &pieces,
                            &json_length, error) ||
        pieces.most > sizeof text)
        return false;
    answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text);
    return true;
}

START_TEST(test_request_allocates_nothing)
{
    struct arena arena = {0}, composed = {0};
    struct text text;
    struct error error = {0};
    char answer[8192];
    arena_for_body(&arena, sizeof REQUEST);
    ck_assert(arena_reserve(&composed, 1 << 16));
    allocations = 0;
    bool right = run(&arena, &composed, &error);
    unsigned long found = allocations;
    ck_assert_msg(right, "%s", error.message);
    ck_assert_uint_eq(found, 0);

    arena_rewind(&arena, BEFORE_BODY);
    text_init_fixed(&text, answer, sizeof answer);
    allocations = 0;
    right = run_importance(&arena, &text, &error);
    found = allocations;
    ck_assert_msg(right, "%s", error.message);
    ck_assert_uint_eq(found, 0);

    arena_rewind(&arena, BEFORE_BODY);
    text_init_fixed(&text, answer, sizeof answer);
    allocations = 0;
    right = run_similarity(&arena, &text, &error);
    found = allocations;
    ck_assert_msg(right, "%s", error.message);
    ck_assert_uint_eq(found, 0);

    arena_rewind(&arena, BEFORE_BODY);
    composed.used = 0;
    allocations = 0;
    right = run_oip(&arena, &composed, &error);
    found = allocations;
    ck_assert_msg(right, "%s", error.message);
    ck_assert_uint_eq(found, 0);
    arena_free(&arena);
    arena_free(&composed);
}
END_TEST

/* Any arena that is too small is an error, and is not overrun. */
START_TEST(test_answer_without_memory)
{
    struct arena arena = {0}, composed = {0};
    struct error error = {0};
    arena_for_body(&arena, sizeof REQUEST);
    ck_assert(arena_reserve(&composed, 1 << 16));
    for (composed.capacity = 0;; composed.capacity += ARENA_ALIGNMENT) {
        arena_rewind(&arena, BEFORE_BODY);
        composed.used = 0;
        if (run(&arena, &composed, &error))
            break;
        expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "memory", "a small arena");
    }
    ck_assert_uint_gt(composed.capacity, 1024);
    arena_free(&arena);
    arena_free(&composed);
}
END_TEST

/* `count` times `item` between commas. */
static size_t repeat(char *to, const char *item, size_t count)
{
    size_t length = strlen(item);
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * (length + 1), item, length);
        to[i * (length + 1) + length] = ',';
    }
    return count * (length + 1) - 1;
}

/* What takes much memory for its length: a request of `early` numbers of one text and `late` of another. */
static const struct {
    const char *begin, *early;
    size_t early_count;
    const char *late;
    size_t late_count;
    const char *end;
} GREEDY[] = {
    {"{\"input\":[[", "0", 1, "0", 500000, "]]}"},
    {"{\"input\":[[", "0", 1, "0", 1100, "]]}"},
    {"{\"input\":[[", "0.00000000001", 1500, "0", 500000, "]]}"},
    {"{\"input\":[[", "0.000000", 100000, "0", 2, "]]}"},
    {"{\"input\":[[", "0.00000", 60000, "0", 100000, "]]}"},
    {"{\"input\":[[", "0.0000000000000000000000", 20000, "0", 20000, "]]}"},
    {"{\"input\":[[0]],\"attention_mask\":[[", "true", 1, "1", 300000, "]]}"},
    {"{\"input\":[[0]],\"bias\":[[", "0", 200000, "0", 1, "]],\"head_mask\":[0],\"attention_mask\":[0,1,1,1]}"},
    {"{\"input\":[[0]],\"include_heads\":[", "0", 65000, "0", 1, "]}"},
    {"{\"input\":[[0]],\"include_heads\":[", "9", 1, "9", 300000, "]}"},
    {"{\"input\":[", "[1]", 1, "[1]", 200000, "]}"},
    {"{\"input\":[", "[[1]]", 1, "[[1]]", 200000, "]}"},
    {"{\"input\":[", "[[1,1]]", 1, "[[1,1]]", 200000, "]}"},
    {"{\"input\":{\"data\":[", "1", 1, "1", 300000, "],\"shape\":[300001]}}"},
    {"{\"input\":{\"data\":[", "1", 1, "1", 300000, "],\"base64\":\"AA==\",\"shape\":[300001]}}"},
    {"{\"input\":[[0]],\"weights\":\"", "w", 100000, "w", 1, "\"}"},
    {"{\"input\":[[0]],\"weights\":\"", "\\u0041", 100000, "w", 1, "\"}"},
    {"{\"input\":[[0]],\"id\":\"", "w", 100, "w", 1, "\"}"},
};

/* Decoded in as much as the header promises, by an allocator that has nothing else to give. A fault in the body is not
 * looked at. */
static void expect_enough(const char *body, size_t length)
{
    struct arena arena = {0};
    struct forward_request request;
    struct error error;
    arena_for_body(&arena, length);
    allocations = 0;
    bool right = forward_request_decode(&(struct request_body){BODY_JSON, body, length}, &arena, &request, &error);
    unsigned long found = allocations;
    ck_assert_msg(right || error.code == ERROR_INVALID, "%s", error.message);
    ck_assert_uint_eq(found, 0);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(&request));
    arena_free(&arena);
}

START_TEST(test_greedy)
{
    char *body = malloc(2000000);
    size_t length = (size_t)sprintf(body, "%s", GREEDY[_i].begin);
    length += repeat(body + length, GREEDY[_i].early, GREEDY[_i].early_count);
    body[length++] = ',';
    length += repeat(body + length, GREEDY[_i].late, GREEDY[_i].late_count);
    length += (size_t)sprintf(body + length, "%s", GREEDY[_i].end);
    expect_enough(body, length);
    free(body);
}
END_TEST

/* Base64 of every format, plain and with an escape: as input, and as mask. */
START_TEST(test_base64_of_every_format)
{
    const enum dtype dtype = (enum dtype)_i;
    const size_t bytes = 480000, characters = bytes / 3 * 4, count = bytes / dtype_bytes(dtype);
    char *body = malloc(characters + 256);
    for (int form = 0; form < 4; form++) {
        size_t length = (size_t)sprintf(body, "{%s:{\"shape\":[%zu],\"dtype\":\"%s\",\"base64\":\"%s",
                                        form & 1 ? "\"input\":[[0]],\"attention_mask\"" : "\"input\"", count,
                                        dtype_json_name(dtype), form & 2 ? "\\u0041" : "A");
        memset(body + length, 'A', characters - 1);
        length += characters - 1;
        length += (size_t)sprintf(body + length, "\"}}");
        expect_enough(body, length);
    }
    free(body);
}
END_TEST

/* Short bodies, where rounding to whole pieces is most of what is taken: every member, and as many numbers as can be,
 * of one digit. */
START_TEST(test_many_pieces)
{
    char body[4096], numbers[256];
    for (size_t count = 1; count < 100; count++) {
        size_t length = repeat(numbers, "1", count);
        numbers[length] = '\0';
        length = (size_t)snprintf(body, sizeof body,
                                  "{\"weights\":\"%s\",\"id\":\"%s\",\"query\":[%s],\"key\":[%s],\"value\":[%s],"
                                  "\"bias\":[%s],\"head_mask\":[%s],\"attention_mask\":[%s],\"include_heads\":[%s]}",
                                  numbers, numbers, numbers, numbers, numbers, numbers, numbers, numbers, numbers);
        expect_enough(body, length);
    }
}
END_TEST

static void *jansson_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

START_TEST(test_safetensors)
{
    static const char HEADER[] =
        "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    unsigned char file[8 + sizeof HEADER - 1 + 4] = {sizeof HEADER - 1};
    memcpy(file + 8, HEADER, sizeof HEADER - 1);
    json_set_alloc_funcs(jansson_malloc, free);
    long failures = 0;
    for (;; failures++) {
        struct safetensors header = {0};
        struct error error = {0};
        left = failures;
        bool right = safetensors_open(file, sizeof file, &header, &error);
        bool ran_out = left < 0;
        left = -1;
        if (right)
            safetensors_close(&header);
        else
            ck_assert(error.code == ERROR_OUT_OF_MEMORY || error.code == ERROR_BAD_ENCODING);
        ck_assert(!header.entries && !header.metadata && !header.owned);
        if (!ran_out)
            break;
        ck_assert(!right);
    }
    ck_assert_int_ge(failures, 10);
}
END_TEST

/* A request in the same form: the arena is as it was whenever it fails. */
START_TEST(test_safetensors_request)
{
    static const char HEADER[] =
        "{\"__metadata__\":{\"weights\":\"\\\"demo\\\"\",\"include_heads\":\"[1]\"},\"input\":{"
        "\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}";
    unsigned char file[8 + sizeof HEADER - 1 + 4] = {sizeof HEADER - 1};
    const struct request_body body = {BODY_SAFETENSORS, (const char *)file, sizeof file};
    struct arena arena = {0};
    memcpy(file + 8, HEADER, sizeof HEADER - 1);
    arena_for_body(&arena, sizeof file);
    json_set_alloc_funcs(jansson_malloc, free);
    long failures = 0;
    for (;; failures++) {
        struct forward_request request = {.top_k = 5};
        struct error error = {0};
        left = failures;
        bool right = forward_request_decode(&body, &arena, &request, &error);
        bool ran_out = left < 0;
        left = -1;
        if (!ran_out) {
            ck_assert_msg(right, "%s", error.message);
            ck_assert_str_eq(request.weights, "demo");
            break;
        }
        ck_assert(!right);
        ck_assert(error.code == ERROR_OUT_OF_MEMORY || error.code == ERROR_BAD_ENCODING);
        ck_assert_uint_eq(arena.used, BEFORE_BODY);
        ck_assert(!request.weights && !request.top_k);
    }
    ck_assert_int_ge(failures, 10);
    arena_free(&arena);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("memory");
    tcase_add_test(c, test_request_allocates_nothing);
    tcase_add_test(c, test_answer_without_memory);
    tcase_add_test(c, test_safetensors);
    tcase_add_test(c, test_safetensors_request);
    tcase_add_loop_test(c, test_greedy, 0, sizeof GREEDY / sizeof *GREEDY);
    tcase_add_loop_test(c, test_base64_of_every_format, 0, DTYPE_COUNT);
    tcase_add_test(c, test_many_pieces);
    suite_add_tcase(s, c);
    return s;
}
