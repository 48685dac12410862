/* Requests as safetensors: made here byte by byte. What JSON bodies do is in test_forward_request.c. */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/importance_request.h"

#include <stdint.h>
#include <stdlib.h>

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* A file in memory of exactly its size, so that a sanitizer sees every read behind the end. Its header is padded, so
 * that the data begin `shift` bytes behind a multiple of 64. */
static struct request_body make_body(const char *header, const void *data, size_t data_bytes, size_t shift)
{
    const size_t text = strlen(header), padding = (64 + shift - (8 + text) % 64) % 64, length = text + padding;
    unsigned char *file = aligned_alloc(64, (8 + length + data_bytes + 63) / 64 * 64);
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header, text);
    memset(file + 8 + text, ' ', padding);
    if (data_bytes)
        memcpy(file + 8 + length, data, data_bytes);
    return (struct request_body){BODY_SAFETENSORS, (char *)file, 8 + length + data_bytes};
}

static void drop_body(struct request_body *body)
{
    free((char *)body->data);
}

/* query [1, 2, 2] F32, key [1, 3, 2] F16, value as F64, attention_mask I64 [1, 3], bias F32 [1, 2, 3] and head_mask
 * BF16 [1], side by side; the little-endian numbers written out. */
static const unsigned char FULL_DATA[] = {
    0,    0,    0x80, 0x3F, 0,    0,    0,    0x40, 0, 0,    0x40, 0x40, 0, 0,    0x80, 0x40,             /* 1 2 3 4 */
    0,    0,    0,    0x3F, 0,    0,    0,    0,    0, 0,    0,    0,                                     /* 0.5 0 0 */
    0,    0,    0,    0,    0,    0,    0,    0,    0, 0,    0x80, 0xBF,                                  /* 0 0 -1 */
    0,    0,    0,    0,    0,    0,    0xF0, 0x3F, 0, 0,    0,    0,    0, 0,    0xF0, 0x3F,             /* 1 1 */
    0,    0,    0,    0,    0,    0,    0xF0, 0x3F, 0, 0,    0,    0,    0, 0,    0xF0, 0x3F,             /* 1 1 */
    0,    0,    0,    0,    0,    0,    0xF0, 0x3F, 0, 0,    0,    0,    0, 0,    0xF0, 0xBF,             /* 1 -1 */
    1,    0,    0,    0,    0,    0,    0,    0,    0, 0,    0,    0,    0, 0,    0,    0,    1, 0, 0, 0, /* 1 0 1 */
    0,    0,    0,    0,    0x00, 0x3C, 0x00, 0x40, 0, 0x42, 0,    0x44, 0, 0x45, 0,    0x46, /* 1 2 3 4 5 6 */
    0x00, 0x40,                                                                               /* 2 */
};
static const char FULL[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"weights\":\"\\\"demo\\\"\",\"id\":\"\\\"a\\\\u00e9\\\"\",\"causal\":"
    "\"true\",\"return\":\" [\\\"value\\\", \\\"attention\\\"] \",\"include_heads\":\"[6,1]\",\"top_k\":\"2\","
    "\"decimals\":\"3\",\"encoding\":\"\\\"base64\\\"\"},"
    "\"query\":{\"dtype\":\"F32\",\"shape\":[1,2,2],\"data_offsets\":[0,16]},"
    "\"bias\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[16,40]},"
    "\"value\":{\"dtype\":\"F64\",\"shape\":[1,3,2],\"data_offsets\":[40,88]},"
    "\"attention_mask\":{\"dtype\":\"I64\",\"shape\":[1,3],\"data_offsets\":[88,112]},"
    "\"key\":{\"dtype\":\"F16\",\"shape\":[1,3,2],\"data_offsets\":[112,124]},"
    "\"head_mask\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[124,126]}}";

static void check_full(const struct forward_request *q)
{
    const size_t query[] = {1, 2, 2}, key[] = {1, 3, 2}, bias[] = {1, 2, 3};
    const float query_data[] = {1, 2, 3, 4}, key_data[] = {1, 2, 3, 4, 5, 6}, value_data[] = {1, 1, 1, 1, 1, -1},
                bias_data[] = {0.5f, 0, 0, 0, 0, -1};
    const uint8_t mask_data[] = {1, 0, 1};
    ck_assert_str_eq(q->weights, "demo");
    ck_assert_str_eq(q->id, "\"a\\u00e9\"");
    ck_assert_uint_eq(q->input.rank, 0);
    ck_assert_uint_eq(q->query.rank, 3);
    ck_assert_mem_eq(q->query.shape, query, sizeof query);
    ck_assert_mem_eq(q->query.data, query_data, sizeof query_data);
    ck_assert_uint_eq(q->key.rank, 3);
    ck_assert_mem_eq(q->key.shape, key, sizeof key);
    ck_assert_mem_eq(q->key.data, key_data, sizeof key_data);
    ck_assert_mem_eq(q->value.data, value_data, sizeof value_data);
    ck_assert_uint_eq(q->attention_mask.rank, 2);
    ck_assert_mem_eq(q->attention_mask.data, mask_data, sizeof mask_data);
    ck_assert_mem_eq(q->bias.shape, bias, sizeof bias);
    ck_assert_mem_eq(q->bias.data, bias_data, sizeof bias_data);
    ck_assert_uint_eq(q->head_mask.count, 1);
    ck_assert(q->head_mask.data[0] == 2);
    ck_assert(q->causal);
    ck_assert_uint_eq(q->returned, RETURN_VALUE | RETURN_ATTENTION);
    ck_assert_uint_eq(q->n_include_heads, 2);
    ck_assert_uint_eq(q->include_heads[0], 6);
    ck_assert_uint_eq(q->include_heads[1], 1);
    ck_assert_uint_eq(q->top_k, 2);
    ck_assert_int_eq(q->decimals, 3);
    ck_assert_int_eq(q->encoding, ENCODING_BASE64);
}

START_TEST(every_member_at_every_alignment)
{
    struct request_body body = make_body(FULL, FULL_DATA, sizeof FULL_DATA, (size_t)_i);
    const unsigned char *data = (const unsigned char *)body.data + body.length - sizeof FULL_DATA;
    struct forward_request q;
    struct error error;
    arena_for_body(&arena, body.length);
    ck_assert_msg(forward_request_decode(&body, &arena, &q, &error), "%s", error.message);
    check_full(&q);
    const bool aligned = _i % 4 == 0;
    ck_assert_int_eq((const void *)q.query.data == data, aligned);
    ck_assert_int_eq((const void *)q.bias.data == data + 16, aligned);
    ck_assert_int_eq(q.points_into_body, aligned);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(&q) - (aligned ? 2 * 64 : 0));
    drop_body(&body);
}
END_TEST

START_TEST(a_mask_of_bytes_is_used_in_place)
{
    static const char header[] = "{\"input\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
                                 "\"attention_mask\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]}}";
    static const unsigned char data[] = {0, 0x3C, 0, 0x40, 1, 0};
    struct request_body body = make_body(header, data, sizeof data, 0);
    struct forward_request q;
    struct error error;
    arena_for_body(&arena, body.length);
    ck_assert_msg(forward_request_decode(&body, &arena, &q, &error), "%s", error.message);
    ck_assert(q.points_into_body);
    ck_assert_ptr_eq(q.attention_mask.data, body.data + body.length - 2);
    ck_assert_uint_eq(q.returned, RETURN_OUTPUT | RETURN_ATTENTION);
    ck_assert_int_eq(q.decimals, -1);
    drop_body(&body);
}
END_TEST

#define INPUT         "\"input\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}"
#define META(members) "{\"__metadata__\":{" members "}," INPUT "}"

/* The header of a file of four zero bytes. */
static const struct {
    const char *header;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"{}", ERROR_BAD_ENCODING, NULL, "4"},
    {"[]", ERROR_BAD_ENCODING, NULL, "array"},
    {"{{", ERROR_BAD_ENCODING, NULL, "JSON"},
    {"{" INPUT "," INPUT "}", ERROR_BAD_ENCODING, NULL, "duplicate"},
    {"{\"__metadata__\":{\"causal\":true}," INPUT "}", ERROR_BAD_ENCODING, NULL, "causal string"},
    {"{\"__metadata__\":[]," INPUT "}", ERROR_BAD_ENCODING, NULL, "__metadata__"},
    {"{\"input\":{\"dtype\":\"Q4\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_BAD_ENCODING, NULL, "Q4 input"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[-4,0]}}", ERROR_BAD_ENCODING, NULL, "input"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,0]}}", ERROR_BAD_ENCODING, NULL, "input 4 0"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,4]}}", ERROR_BAD_ENCODING, NULL, "4 8"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", ERROR_BAD_ENCODING, NULL, "4 8"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,4]}}", ERROR_BAD_ENCODING,
     NULL, NULL},
    {"{\"query\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[0,2]},\"key\":{\"dtype\":\"F16\",\"shape\":[1,1],"
     "\"data_offsets\":[1,3]}}",
     ERROR_BAD_ENCODING, NULL, "key query overlap"},
    {"{\"query\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[0,1]},\"key\":{\"dtype\":\"F16\",\"shape\":[1,1],"
     "\"data_offsets\":[2,4]}}",
     ERROR_BAD_ENCODING, NULL, "key query hole"},
    {"{\"inptu\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_UNKNOWN_MEMBER, "/inptu",
     "inptu input"},
    {"{\"a/b~c\\\\d\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_UNKNOWN_MEMBER, "/a~1b~0c\\d",
     "tensor attention_mask head_mask"},
    {"{\"causal\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_INVALID, "/causal",
     "causal __metadata__ JSON"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", ERROR_INVALID, "/input", "single"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1],\"data_offsets\":[0,4]}}", ERROR_INVALID, "/input", "4 3"},
    {"{\"input\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[0,0]},\"key\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     ERROR_INVALID, "/input", "axis 1 empty"},
    {"{\"input\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_INVALID, "/input", "I32"},
    {"{\"input\":{\"dtype\":\"F8_E5M2\",\"shape\":[1,4],\"data_offsets\":[0,4]}}", ERROR_INVALID, "/input", "F8_E5M2"},
    {"{\"query\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", ERROR_INVALID, "", "query key"},
    {META("\"weights\":\"demo\""), ERROR_NOT_JSON, "/weights", "weights demo quotes"},
    {META("\"id\":\"9f3a\""), ERROR_NOT_JSON, "/id", "id 9f3a quotes"},
    {META("\"causal\":\"True\""), ERROR_NOT_JSON, "/causal", "causal True"},
    {META("\"causal\":\"\""), ERROR_NOT_JSON, "/causal", "causal JSON empty"},
    {META("\"return\":\"[\\\"output\\\"\""), ERROR_NOT_JSON, "/return", "return ends"},
    {META("\"return\":\"[\\\"output\\\"] 1\""), ERROR_NOT_JSON, NULL, "return"},
    {META("\"return\":\"[\\\"output\\\",\\\"outptu\\\"]\""), ERROR_INVALID, "/return/1", "outptu output"},
    {META("\"causal\":\"1\""), ERROR_INVALID, "/causal", "true false number"},
    {META("\"weights\":\"7\""), ERROR_INVALID, "/weights", "string number"},
    {META("\"input\":\"[[1]]\""), ERROR_INVALID, "/input", "input tensor bytes"},
    {META("\"casual\":\"true\""), ERROR_UNKNOWN_MEMBER, "/casual", "casual causal"},
    {META("\"text\":\"\\\"a\\\"\""), ERROR_UNKNOWN_MEMBER, "/text", "text tokenizer input_ids"},
    {META("\"format\":\"pt\",\"formta\":\"pt\""), ERROR_UNKNOWN_MEMBER, "/formta", "formta weights"},
};

START_TEST(wrong_files)
{
    static const unsigned char zeros[4];
    struct request_body body = make_body(WRONG[_i].header, zeros, sizeof zeros, 0);
    struct forward_request q = {.top_k = 9};
    struct error error;
    arena_for_body(&arena, body.length);
    ck_assert_msg(!forward_request_decode(&body, &arena, &q, &error), "%s was taken", WRONG[_i].header);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].header);
    ck_assert_uint_eq(arena.used, BEFORE_BODY);
    ck_assert_uint_eq(q.top_k, 0);
    drop_body(&body);
}
END_TEST

START_TEST(short_and_long_headers)
{
    unsigned char bytes[16] = {255, 255, 255, 255, 255, 255, 255, 255, '{', '}'};
    struct request_body body = {BODY_SAFETENSORS, (const char *)bytes, 0};
    struct forward_request q;
    struct error error;
    arena_for_body(&arena, sizeof bytes);
    for (body.length = 0; body.length <= sizeof bytes; body.length++) {
        ck_assert(!forward_request_decode(&body, &arena, &q, &error));
        expect_error(&error, ERROR_BAD_ENCODING, NULL, NULL, "header");
        ck_assert_uint_eq(request_body_heap_bytes(&body), 0);
    }
    const size_t length = ((size_t)1 << 20) + 1;
    char *large = calloc(8 + length, 1);
    large[0] = 1;
    large[2] = 16;
    body = (struct request_body){BODY_SAFETENSORS, large, 8 + length};
    ck_assert(!forward_request_decode(&body, &arena, &q, &error));
    expect_error(&error, ERROR_TOO_LARGE, NULL, "1048577 1048576", "header");
    ck_assert_uint_eq(request_body_heap_bytes(&body), 0);
    free(large);
}
END_TEST

START_TEST(the_heap_of_a_header_is_told)
{
    struct request_body body = make_body(FULL, FULL_DATA, sizeof FULL_DATA, 0);
    ck_assert_uint_ge(request_body_heap_bytes(&body), 80 * (sizeof FULL - 1));
    const struct request_body text = {BODY_JSON, body.data, body.length};
    ck_assert_uint_eq(request_body_heap_bytes(&text), 0);
    drop_body(&body);
}
END_TEST

START_TEST(cut_and_changed_files)
{
    struct request_body whole = make_body(FULL, FULL_DATA, sizeof FULL_DATA, 8);
    struct forward_request q;
    struct error error;
    for (size_t length = 0; length < whole.length; length++) {
        struct request_body cut = {BODY_SAFETENSORS, malloc(length + !length), length};
        memcpy((char *)cut.data, whole.data, length);
        arena_for_body(&arena, length);
        ck_assert(!forward_request_decode(&cut, &arena, &q, &error));
        ck_assert_int_eq(error.code, ERROR_BAD_ENCODING);
        free((char *)cut.data);
    }
    srand(3);
    for (int turn = 0; turn < 4000; turn++) {
        char *byte = (char *)whole.data + (size_t)rand() % whole.length, kept = *byte;
        *byte = (char)(rand() % 4 ? "\"{}[],:019-tfn\\ "[rand() % 16] : rand());
        arena_for_body(&arena, whole.length);
        if (!forward_request_decode(&whole, &arena, &q, &error))
            ck_assert_uint_eq(arena.used, BEFORE_BODY);
        *byte = kept;
    }
    drop_body(&whole);
}
END_TEST

/* A body in another form than its headers say is told what is missing. */
START_TEST(other_forms)
{
    static const struct {
        enum body_form form;
        const char *data;
        size_t length;
        enum error_code code;
        const char *words;
    } CASES[] = {
        {BODY_JSON, "\x1f\x8b\x08\0", 4, ERROR_NOT_JSON, "Content-Encoding: gzip"},
        {BODY_SAFETENSORS, "\x1f\x8b\x08\0", 4, ERROR_BAD_ENCODING, "Content-Encoding: gzip"},
        {BODY_JSON, "\x02\0\0\0\0\0\0\0{\"}", 11, ERROR_NOT_JSON, "application/x-safetensors"},
        {BODY_SAFETENSORS, "{\"input\": [1]}", 14, ERROR_BAD_ENCODING, "application/json"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct request_body body = {CASES[i].form, CASES[i].data, CASES[i].length};
        struct forward_request request;
        struct error error = {0};
        ck_assert(arena_reserve(&arena, 4096));
        ck_assert(!forward_request_decode(&body, &arena, &request, &error));
        expect_error(&error, CASES[i].code, NULL, CASES[i].words, CASES[i].words);
        free_memory();
    }
}
END_TEST

START_TEST(importance)
{
    static const char right[] = META("\"method\":\"\\\"zero\\\"\",\"prune_plan\":\"true\",\"tolerance\":\"0.25\"");
    static const char maps[] = "{\"attention\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}";
    static const unsigned char zeros[4];
    struct importance_request q;
    struct error error;
    struct request_body body = make_body(right, zeros, sizeof zeros, 0);
    arena_for_body(&arena, body.length);
    ck_assert_msg(importance_request_decode(&body, &arena, &q, &error), "%s", error.message);
    ck_assert(q.prune_plan && q.has_tolerance && q.tolerance == 0.25 && q.forward.points_into_body);
    drop_body(&body);
    body = make_body(maps, zeros, sizeof zeros, 0);
    ck_assert(!importance_request_decode(&body, &arena, &q, &error));
    expect_error(&error, ERROR_INVALID, "/attention", "importance input", "maps");
    drop_body(&body);
    body = make_body(META("\"decimals\":\"3\""), zeros, sizeof zeros, 0);
    ck_assert(!importance_request_decode(&body, &arena, &q, &error));
    expect_error(&error, ERROR_UNKNOWN_MEMBER, "/decimals", "decimals", "of another route");
    drop_body(&body);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("request_body");
    TCase *c = tcase_create("request_body");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, every_member_at_every_alignment, 0, 9);
    tcase_add_test(c, a_mask_of_bytes_is_used_in_place);
    tcase_add_loop_test(c, wrong_files, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, short_and_long_headers);
    tcase_add_test(c, the_heap_of_a_header_is_told);
    tcase_add_test(c, cut_and_changed_files);
    tcase_add_test(c, other_forms);
    tcase_add_test(c, importance);
    suite_add_tcase(s, c);
    return s;
}
