/* The memory of the main paths. Every allocation fails once: the error says so, the outputs are untouched, and nothing
 * leaks (a sanitizer looks). And what decoding takes at its peak is within what the header promises.
 *
 * The linker puts the functions here in place of malloc and its kin in the code under test; jansson is told by its own
 * hook. */
#include "codec/expect.h"
#include "codec/forward_answer.h"
#include "codec/safetensors.h"

#include <jansson.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

/* Allocations that still succeed before one fails; negative: all. */
static long left = -1;

/* Bytes in use, and the most that were at once. */
static size_t live, peak;

static bool fails(void)
{
    return left >= 0 && left-- == 0;
}

static void *counted(void *memory)
{
    live += malloc_usable_size(memory);
    peak = live > peak ? live : peak;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void __wrap_free(void *memory)
{
    live -= malloc_usable_size(memory);
    __real_free(memory);
}

/* Shrinks where the block is, as every allocator in use does, and grows the costly way, by a new block and a copy. */
void *__wrap_realloc(void *memory, size_t size)
{
    size_t held = malloc_usable_size(memory);
    if (fails())
        return NULL;
    if (memory && size <= held) {
        live -= held;
        return counted(__real_realloc(memory, size));
    }
    void *moved = counted(__real_malloc(size));
    if (memory)
        memcpy(moved, memory, held);
    __wrap_free(memory);
    return moved;
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

/* One request from its bytes to its answer. */
static bool run(struct text *text, struct error *error)
{
    static const float zeros[64];
    struct forward_request request;
    struct forward_input problem;
    struct forward_timing timing = {0};
    struct forward_result result = {
        .output = (float *)zeros, .attention = (float *)zeros, .heads = (float *)zeros, .value = (float *)zeros};
    bool right = forward_request_decode(REQUEST, sizeof REQUEST - 1, &request, error) &&
                 forward_request_check(&request, &SHAPE, &problem, error) &&
                 forward_answer_encode(&request, &SHAPE, &problem, &result, "demo", "digest", &timing, text, error);
    forward_request_free(&request);
    return right;
}

START_TEST(test_request)
{
    struct text text = {0};
    struct error error = {0};
    long failures = 0;
    for (;; failures++) {
        left = failures;
        bool right = run(&text, &error);
        bool ran_out = left < 0;
        left = -1;
        if (!right) {
            ck_assert(ran_out);
            expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "memory", "an allocation failed");
            ck_assert_uint_eq(text.length, 0);
        }
        text_free(&text);
        if (!ran_out)
            break;
    }
    ck_assert_int_ge(failures, 20);
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

/* What takes the most memory for its length: a request of `early` numbers of one text and `late` of another. */
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
    {"{\"weights\":\"", "w", 100000, "w", 1, "\"}"},
    {"{\"id\":\"", "w", 100000, "w", 1, "\"}"},
};

static void expect_peak(const char *body, size_t length)
{
    struct forward_request request;
    struct error error;
    live = peak = 0;
    forward_request_decode(body, length, &request, &error);
    size_t most = peak;
    forward_request_free(&request);
    size_t kept = live;                                                  /* before check allocates for itself */
    ck_assert_uint_le(most, forward_request_peak_bytes(length) + 16384); /* blocks are rounded up to pages */
    ck_assert_uint_eq(kept, 0);
}

START_TEST(test_peak)
{
    char *body = malloc(2000000);
    size_t length = (size_t)sprintf(body, "%s", GREEDY[_i].begin);
    length += repeat(body + length, GREEDY[_i].early, GREEDY[_i].early_count);
    body[length++] = ',';
    length += repeat(body + length, GREEDY[_i].late, GREEDY[_i].late_count);
    length += (size_t)sprintf(body + length, "%s", GREEDY[_i].end);
    expect_peak(body, length);
    free(body);
}
END_TEST

START_TEST(test_peak_of_base64)
{
    static const char *const FORMS[] = {"\"input\":{\"shape\":[150000],\"dtype\":\"f16\",",
                                        "\"input\":{\"shape\":[75000],\"dtype\":\"f32\",",
                                        "\"input\":[[0]],\"attention_mask\":{\"shape\":[300000],\"dtype\":\"u8\","};
    char *body = malloc(500000);
    for (int escaped = 0; escaped < 2; escaped++) {
        size_t length = (size_t)sprintf(body, "{%s\"base64\":\"%s", FORMS[_i], escaped ? "\\u0041" : "A");
        memset(body + length, 'A', 399999);
        length += 399999;
        length += (size_t)sprintf(body + length, "\"}}");
        expect_peak(body, length);
    }
    free(body);
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

Suite *suite(void)
{
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("memory");
    tcase_add_test(c, test_request);
    tcase_add_test(c, test_safetensors);
    tcase_add_loop_test(c, test_peak, 0, sizeof GREEDY / sizeof *GREEDY);
    tcase_add_loop_test(c, test_peak_of_base64, 0, 3);
    suite_add_tcase(s, c);
    return s;
}
