/* Requests decoded: every member, every fault of one, and bodies that are cut or changed. */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/forward_request.h"

#include <stdio.h>
#include <stdlib.h>

/* What the last request was decoded into. */
static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static bool decode(const char *body, size_t length, struct forward_request *request, struct error *error)
{
    char *exact = malloc(length + !length); /* so that a sanitizer sees a read behind the end */
    memcpy(exact, body, length);
    arena_for_body(&arena, length);
    bool right = forward_request_decode(&(struct request_body){BODY_JSON, exact, length}, &arena, request, error);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(request));
    ck_assert(right || arena.used == BEFORE_BODY);
    free(exact);
    return right;
}

static const char FULL[] =
    "{\"weights\":\"demo\",\"id\":\"a\\u00e9\\/"
    "\\\"b\",\"query\":[[[1,2],[3,4]]],\"key\":{\"shape\":[1,3,2],\"data\":[5,6,7,8,9,10]},"
    "\"value\":{\"shape\":[1,3,2],\"dtype\":\"f16\",\"base64\":\"ADwAPAA8ADwAPAA8\"},\"attention_mask\":[[true,0,1]],"
    "\"causal\":true,\"bias\":[[[0.5,0,0],[0,0,-1]]],\"head_mask\":[2],\"return\":[\"value\",\"attention\",\"heads\"],"
    "\"include_heads\":[6,1],\"top_k\":2,\"decimals\":3,\"encoding\":\"base64\"}";

START_TEST(test_full)
{
    struct forward_request q;
    struct error error;
    ck_assert_msg(decode(FULL, sizeof FULL - 1, &q, &error), "%s", error.message);
    ck_assert_str_eq(q.weights, "demo");
    ck_assert_str_eq(q.id, "\"a\\u00e9\\/\\\"b\"");
    ck_assert_uint_eq(q.input.rank, 0);
    const size_t query[] = {1, 2, 2}, key[] = {1, 3, 2}, bias[] = {1, 2, 3};
    const float query_data[] = {1, 2, 3, 4}, key_data[] = {5, 6, 7, 8, 9, 10}, value_data[] = {1, 1, 1, 1, 1, 1},
                bias_data[] = {0.5f, 0, 0, 0, 0, -1};
    const uint8_t mask_data[] = {1, 0, 1};
    ck_assert_uint_eq(q.query.rank, 3);
    ck_assert_mem_eq(q.query.shape, query, sizeof query);
    ck_assert_mem_eq(q.query.data, query_data, sizeof query_data);
    ck_assert_uint_eq(q.key.rank, 3);
    ck_assert_mem_eq(q.key.shape, key, sizeof key);
    ck_assert_mem_eq(q.key.data, key_data, sizeof key_data);
    ck_assert_mem_eq(q.value.shape, key, sizeof key);
    ck_assert_mem_eq(q.value.data, value_data, sizeof value_data);
    ck_assert_uint_eq(q.attention_mask.rank, 2);
    ck_assert_mem_eq(q.attention_mask.data, mask_data, sizeof mask_data);
    ck_assert_mem_eq(q.bias.shape, bias, sizeof bias);
    ck_assert_mem_eq(q.bias.data, bias_data, sizeof bias_data);
    ck_assert_uint_eq(q.head_mask.count, 1);
    ck_assert(q.head_mask.data[0] == 2);
    ck_assert(q.causal);
    ck_assert_uint_eq(q.returned, RETURN_VALUE | RETURN_ATTENTION | RETURN_HEADS);
    ck_assert_uint_eq(q.n_include_heads, 2);
    ck_assert_uint_eq(q.include_heads[0], 6);
    ck_assert_uint_eq(q.include_heads[1], 1);
    ck_assert_uint_eq(q.top_k, 2);
    ck_assert_int_eq(q.decimals, 3);
    ck_assert_int_eq(q.encoding, ENCODING_BASE64);
}
END_TEST

START_TEST(test_defaults)
{
    const char *body = " {\"input\": [[1, 2]], \"causal\": false, \"encoding\": \"json\"} \n";
    struct forward_request q;
    struct error error;
    ck_assert_msg(decode(body, strlen(body), &q, &error), "%s", error.message);
    ck_assert(!q.weights && !q.id && !q.causal && !q.include_heads);
    ck_assert_uint_eq(q.input.rank, 2);
    ck_assert_uint_eq(q.query.rank + q.key.rank + q.value.rank + q.attention_mask.rank + q.bias.rank + q.head_mask.rank,
                      0);
    ck_assert_uint_eq(q.returned, RETURN_OUTPUT | RETURN_ATTENTION);
    ck_assert_uint_eq(q.top_k, 0);
    ck_assert_int_eq(q.decimals, -1);
    ck_assert_int_eq(q.encoding, ENCODING_JSON);
}
END_TEST

#define IN "\"input\":[[0]]"

static const struct {
    const char *sent, *id;
} IDS[] = {{"\"\"", "\"\""},
           {"7", "7"},
           {"-7", "-7"},
           {"0", "0"},
           {"123456789012345678901234567890", "123456789012345678901234567890"},
           {" \"x\" ", "\"x\""},
           {"\"\\u0000\"", "\"\\u0000\""}};

START_TEST(test_ids)
{
    char body[256];
    struct forward_request q;
    struct error error;
    int length = snprintf(body, sizeof body, "{\"id\":%s," IN "}", IDS[_i].sent);
    ck_assert_msg(decode(body, (size_t)length, &q, &error), "%s: %s", body, error.message);
    ck_assert_str_eq(q.id, IDS[_i].id);
}
END_TEST

/* 256 characters, of one to four bytes, however they are written. */
START_TEST(test_long_ids)
{
    static const char *const CHARACTERS[] = {"a",   "\xc3\xa9", "\xe2\x82\xac",  "\xf0\x9f\x98\x80",
                                             "\\n", "\\u20ac",  "\\ud83d\\ude00"};
    char body[4000];
    struct forward_request q;
    struct error error;
    for (size_t count = 256; count <= 257; count++) {
        size_t at = (size_t)sprintf(body, "{" IN ",\"id\":\"");
        for (size_t i = 0; i < count; i++)
            at += (size_t)sprintf(body + at, "%s", CHARACTERS[_i]);
        at += (size_t)sprintf(body + at, "\"}");
        bool right = decode(body, at, &q, &error);
        ck_assert_msg(right == (count == 256), "%zu times %s", count, CHARACTERS[_i]);
        if (!right)
            expect_error(&error, ERROR_INVALID, "/id", "256 257", "a long id");
    }
}
END_TEST

static const struct {
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"{", ERROR_NOT_JSON, NULL, ""},
    {"", ERROR_NOT_JSON, NULL, ""},
    {" \n", ERROR_NOT_JSON, NULL, ""},
    {"{\"input\": [[1]]} x", ERROR_NOT_JSON, NULL, ""},
    {"{" IN "}{" IN "}", ERROR_NOT_JSON, NULL, ""},
    {"[]", ERROR_INVALID, "", "array object"},
    {"7", ERROR_INVALID, "", "number object"},
    {"[", ERROR_NOT_JSON, NULL, ""},
    {"nul", ERROR_NOT_JSON, NULL, ""},
    {"x", ERROR_NOT_JSON, NULL, ""},
    {"{\"weights\":\"demo\",\"weights\":\"demo\"," IN "}", ERROR_DUPLICATE_MEMBER, NULL, "weights"},
    {"{" IN ",\"inpu\\u0074\":[[0]]}", ERROR_DUPLICATE_MEMBER, NULL, "input"},
    {"{\"input\":{\"shape\":[1,1],\"shape\":[1,1],\"data\":[0]}}", ERROR_DUPLICATE_MEMBER, NULL, "shape"},
    {"{\"weights\":7," IN "}", ERROR_INVALID, "/weights", "string number"},
    {"{\"weights\":\"demo\"}", ERROR_INVALID, NULL, "input"},
    {"{}", ERROR_INVALID, NULL, "input"},
    {"{" IN ",\"casual\":true}", ERROR_UNKNOWN_MEMBER, "/casual", "casual causal"},
    {"{" IN ",\"zzzzqqqq\":1}", ERROR_UNKNOWN_MEMBER, "/zzzzqqqq", "zzzzqqqq"},
    {"{" IN ",\"a/b~c\":1}", ERROR_UNKNOWN_MEMBER, "/a~1b~0c", ""},
    {"{\"input\":{\"shape\":[1,1],\"data\":[0],\"dta\":1}}", ERROR_UNKNOWN_MEMBER, "/input/dta", "dta"},
    {"{\"input\":1.5}", ERROR_INVALID, "/input", "number"},
    {"{\"input\":null}", ERROR_INVALID, "/input", "null"},
    {"{\"input\":[[[[1]]]]}", ERROR_INVALID, "/input", "4 3"},
    {"{\"query\":[[[[1]]]],\"key\":[[1]]}", ERROR_INVALID, "/query", "4 3"},
    {"{\"query\":[[1]],\"key\":[[[[1]]]]}", ERROR_INVALID, "/key", "4 3"},
    {"{\"query\":[[1]],\"key\":[[1]],\"value\":[[[[1]]]]}", ERROR_INVALID, "/value", "4 3"},
    {"{\"input\":[[0,]]}", ERROR_NOT_JSON, NULL, ""},
    {"{\"input\":\"\xff\xfe\"}", ERROR_NOT_JSON, NULL, ""},
    {"{" IN ",\"bias\":[[[[[0]]]]]}", ERROR_INVALID, "/bias", "5 4"},
    {"{" IN ",\"head_mask\":[[[1]]]}", ERROR_INVALID, "/head_mask", "3 2"},
    {"{\"input_ids\":[[1,1.5]]}", ERROR_INVALID, "/input_ids/0/1", "1.5 integer"},
    {"{\"input_ids\":\"a text\"}", ERROR_INVALID, "/input_ids", "string tokenizer input_ids"},
    {"{\"input_ids\":[\"a\",\"text\"]}", ERROR_INVALID, "/input_ids/0", "string tokenizer input_ids"},
    {"{\"input_ids\":[[7,\"text\"]]}", ERROR_INVALID, "/input_ids/0/1", "string tokenizer input_ids"},
    {"{\"text\":\"a text\"}", ERROR_UNKNOWN_MEMBER, "/text", "text tokenizer input_ids"},
    {"{\"texts\":[\"a text\"]}", ERROR_UNKNOWN_MEMBER, "/texts", "texts tokenizer input_ids"},
    {"{\"sentence\":\"a text\"}", ERROR_UNKNOWN_MEMBER, "/sentence", "sentence tokenizer input_ids"},
    {"{\"input_ids\":[[1,-1]]}", ERROR_INVALID, "/input_ids/0/1", "0"},
    {"{\"input_ids\":[[[1]]]}", ERROR_INVALID, "/input_ids/0/0", "array"},
    {"{\"input_ids\":[[1,2],[3]]}", ERROR_INVALID, "/input_ids/1", "ragged"},
    {"{\"input_ids\":{\"shape\":[1,3],\"dtype\":\"i32\",\"base64\":\"AQAAAP////8DAAAA\"}}", ERROR_INVALID,
     "/input_ids/0/1", "0"},
    {"{\"token_type_ids\":[[1]]}", ERROR_INVALID, "", "input"},
    {"{" IN ",\"input_ids\":[1]}", ERROR_INVALID, "/input_ids", "input input_ids"},
    {"{\"input_ids\":[1],\"inputs_embeds\":[[1]]}", ERROR_INVALID, "/inputs_embeds", "input_ids inputs_embeds"},
    {"{\"pixel_values\":[[[[1]]]],\"inputs_embeds\":[[1]]}", ERROR_INVALID, "/pixel_values",
     "pixel_values inputs_embeds"},
    {"{\"input_ids\":[1],\"query\":[[1]],\"key\":[[1]]}", ERROR_INVALID, "/query", "input_ids query"},
    {"{\"pixel_values\":[[[[[1]]]]]}", ERROR_INVALID, "/pixel_values", "5 4"},
    {"{" IN ",\"include_layers\":[]}", ERROR_INVALID, "/include_layers", "layer"},
    {"{" IN ",\"include_layers\":[0,0.5]}", ERROR_INVALID, "/include_layers/1", ""},
    {"{" IN ",\"head_mask\":[true]}", ERROR_INVALID, "/head_mask/0", "number"},
    {"{" IN ",\"attention_mask\":[[[[1]]]]}", ERROR_INVALID, "/attention_mask", "4 3"},
    {"{" IN ",\"attention_mask\":[[1,1,2,1]]}", ERROR_INVALID, "/attention_mask/0/2", "2"},
    {"{" IN ",\"causal\":1}", ERROR_INVALID, "/causal", "number"},
    {"{" IN ",\"id\":1.0}", ERROR_INVALID, "/id", "integer"},
    {"{" IN ",\"id\":1e2}", ERROR_INVALID, "/id", "integer"},
    {"{" IN ",\"id\":null}", ERROR_INVALID, "/id", "null string integer"},
    {"{" IN ",\"id\":[]}", ERROR_INVALID, "/id", "array"},
    {"{\"id\":5", ERROR_NOT_JSON, NULL, ""},
    {"{" IN ",\"id\":-}", ERROR_NOT_JSON, NULL, ""},
    {"{" IN ",\"return\":[\"outptu\"]}", ERROR_INVALID, "/return/0", "outptu output"},
    {"{" IN ",\"return\":[\"output\",\"zzzz\"]}", ERROR_INVALID, "/return/1", "zzzz heads"},
    {"{" IN ",\"return\":[\"output\",\"heads\",\"output\"]}", ERROR_INVALID, "/return/2", "output twice"},
    {"{" IN ",\"return\":[\"output\",1]}", ERROR_INVALID, "/return/1", "number string"},
    {"{" IN ",\"return\":[]}", ERROR_INVALID, "/return", "output"},
    {"{" IN ",\"return\":\"output\"}", ERROR_INVALID, "/return", "array string"},
    {"{" IN ",\"include_heads\":[]}", ERROR_INVALID, "/include_heads", ""},
    {"{" IN ",\"include_heads\":3}", ERROR_INVALID, "/include_heads", "array number"},
    {"{" IN ",\"include_heads\":[0,1.5]}", ERROR_INVALID, "/include_heads/1", ""},
    {"{" IN ",\"include_heads\":[\"0\"]}", ERROR_INVALID, "/include_heads/0", "string"},
    {"{" IN ",\"top_k\":0}", ERROR_INVALID, "/top_k", "1"},
    {"{" IN ",\"top_k\":-1}", ERROR_INVALID, "/top_k", "1"},
    {"{" IN ",\"top_k\":1.5}", ERROR_INVALID, "/top_k", ""},
    {"{" IN ",\"decimals\":10}", ERROR_INVALID, "/decimals", "9 0"},
    {"{" IN ",\"decimals\":-1}", ERROR_INVALID, "/decimals", "9 0"},
    {"{" IN ",\"encoding\":\"hex\"}", ERROR_INVALID, "/encoding", "hex json base64"},
    {"{" IN ",\"encoding\":64}", ERROR_INVALID, "/encoding", "string"},
    {"{" IN ",\"query\":[[0]]}", ERROR_INVALID, "/query", "input query"},
    {"{" IN ",\"key\":[[0]]}", ERROR_INVALID, "/key", "input key"},
    {"{" IN ",\"value\":[[0]]}", ERROR_INVALID, "/value", "input value"},
    {"{\"query\":[[0]]}", ERROR_INVALID, NULL, "query key"},
    {"{\"key\":[[0]]}", ERROR_INVALID, NULL, "key query"},
    {"{\"value\":[[0]]}", ERROR_INVALID, NULL, "value query"},
    {"{\"query\":[[0]],\"value\":[[0]]}", ERROR_INVALID, NULL, "query key"},
};

START_TEST(test_wrong)
{
    struct forward_request q;
    struct error error;
    memset(&q, 0x55, sizeof q);
    ck_assert_msg(!decode(WRONG[_i].body, strlen(WRONG[_i].body), &q, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
    ck_assert(!q.weights && !q.id && !q.input.data && !q.include_heads && !q.attention_mask.data);
}
END_TEST

/* Brackets in every member's place, closed and not: an answer at once, and never recursion. */
START_TEST(test_very_deep)
{
    static const char *const MEMBERS[] = {"input",         "attention_mask", "id",      "return",
                                          "include_heads", "weights",        "unknown", "causal"};
    const size_t depth = 100000;
    char *body = malloc(2 * depth + 64);
    for (int closed = 0; closed < 2; closed++) {
        size_t at = (size_t)sprintf(body, "{\"%s\":", MEMBERS[_i]);
        memset(body + at, '[', depth);
        at += depth;
        if (closed) {
            memset(body + at, ']', depth);
            at += depth;
            body[at++] = '}';
        }
        struct forward_request q;
        struct error error;
        ck_assert(!decode(body, at, &q, &error));
        if (_i < 2)
            ck_assert_int_eq(error.code, ERROR_INVALID);
        ck_assert(error.code == ERROR_INVALID || error.code == ERROR_NOT_JSON || error.code == ERROR_UNKNOWN_MEMBER);
    }
    free(body);
}
END_TEST

START_TEST(test_many_heads)
{
    const size_t count = FORWARD_MAX_INCLUDE_HEADS + 1;
    char *body = malloc(8 * count + 64);
    size_t at = (size_t)sprintf(body, "{" IN ",\"include_heads\":[");
    for (size_t i = 0; i < count - 1; i++)
        at += (size_t)sprintf(body + at, "%s%zu", i ? "," : "", i);
    struct forward_request q;
    struct error error;
    size_t end = at + (size_t)sprintf(body + at, "]}");
    ck_assert(decode(body, end, &q, &error));
    ck_assert_uint_eq(q.n_include_heads, count - 1);
    ck_assert_uint_eq(q.include_heads[count - 2], count - 2);
    end = at + (size_t)sprintf(body + at, ",7]}");
    ck_assert(!decode(body, end, &q, &error));
    expect_error(&error, ERROR_INVALID, "/include_heads/65536", "65536", "many heads");
    free(body);
}
END_TEST

/* Every beginning of a request that has all members. */
START_TEST(test_truncated)
{
    for (size_t length = 0; length < sizeof FULL - 1; length++) {
        struct forward_request q;
        struct error error;
        ck_assert_msg(!decode(FULL, length, &q, &error), "%.*s was accepted", (int)length, FULL);
        ck_assert(!q.weights);
    }
}
END_TEST

/* Bytes changed, left out and put in: accepted or refused with a place, nothing read or kept that should not be (the
 * sanitizers look). */
START_TEST(test_mutated)
{
    static const char ALPHABET[] = "{}[]\",:\\0123456789eE+-.tfnu/ \n\xff";
    srand((unsigned)_i + 1);
    for (int round = 0; round < 3000; round++) {
        char body[sizeof FULL + 8];
        size_t length = sizeof FULL - 1;
        memcpy(body, FULL, length);
        for (int change = rand() % 3; change >= 0; change--) {
            size_t at = (size_t)rand() % length;
            char c = ALPHABET[(size_t)rand() % (sizeof ALPHABET - 1)];
            if (rand() % 3 == 0) {
                memmove(body + at, body + at + 1, --length - at);
            } else if (rand() % 2) {
                memmove(body + at + 1, body + at, length++ - at);
                body[at] = c;
            } else {
                body[at] = c;
            }
        }
        struct forward_request q;
        struct error error;
        if (!decode(body, length, &q, &error)) {
            ck_assert(error.code != ERROR_NONE && error.message[0]);
            ck_assert(error.code != ERROR_OUT_OF_MEMORY);
        }
    }
}
END_TEST

/* Where the arena is too small, whatever the size, that is the error, and the arena and the request are as after any.
 */
START_TEST(test_full_arena)
{
    struct forward_request q;
    struct error error;
    size_t capacity = 0;
    for (;; capacity += 64) {
        free_memory();
        ck_assert(arena_reserve(&arena, capacity));
        arena.capacity = capacity;
        if (forward_request_decode(&(struct request_body){BODY_JSON, FULL, sizeof FULL - 1}, &arena, &q, &error))
            break;
        expect_error(&error, ERROR_OUT_OF_MEMORY, NULL, "", "a full arena");
        ck_assert_uint_eq(arena.used, 0);
        ck_assert(!q.weights && !q.query.data && !q.include_heads && q.key.rank == 0);
    }
    ck_assert_uint_ge(capacity, held_bytes(&q));
    ck_assert_uint_le(capacity, forward_request_decoded_bytes(sizeof FULL - 1));
}
END_TEST

START_TEST(test_decoded_bytes)
{
    ck_assert_uint_eq(forward_request_decoded_bytes(SIZE_MAX / 2 + 1), SIZE_MAX);
    ck_assert_uint_eq(forward_request_decoded_bytes(SIZE_MAX / 2), SIZE_MAX);
    ck_assert_uint_le(forward_request_decoded_bytes(10000000), 20004000);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_request");
    TCase *c = tcase_create("forward_request");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_full);
    tcase_add_test(c, test_defaults);
    tcase_add_loop_test(c, test_ids, 0, sizeof IDS / sizeof *IDS);
    tcase_add_loop_test(c, test_long_ids, 0, 7);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_loop_test(c, test_very_deep, 0, 8);
    tcase_add_test(c, test_many_heads);
    tcase_add_test(c, test_full_arena);
    tcase_add_test(c, test_decoded_bytes);
    tcase_add_test(c, test_truncated);
    tcase_add_loop_test(c, test_mutated, 0, 4);
    suite_add_tcase(s, c);
    return s;
}
