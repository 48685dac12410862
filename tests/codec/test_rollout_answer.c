/* Requests of /v1/heads/rollout decoded and checked, and their answers in each form. */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/rollout_answer.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* A copy that a sanitizer sees the end of, in memory of just the size that was promised to suffice. */
static bool decode(const char *text, struct rollout_request *request, struct error *error)
{
    const size_t length = strlen(text);
    char *exact = malloc(length + 1);
    memcpy(exact, text, length);
    arena_for_body(&arena, length);
    const bool right = rollout_request_decode(&(struct request_body){BODY_JSON, exact, length}, &arena, request, error);
    ck_assert(right || arena.used == BEFORE_BODY);
    free(exact);
    return right;
}

#define MAPS "\"attention\":[[[[0.5,0.5],[0,1]]],[[[1,0],[0.25,0.75]]]]" /* two layers of a head */

START_TEST(members)
{
    struct rollout_request q;
    struct error error;
    ck_assert_msg(decode("{" MAPS "}", &q, &error), "%s", error.message);
    ck_assert(q.fusion == ROLLOUT_MEAN && !q.per_head && !q.analysis.renormalize);
    ck_assert(q.analysis.forward.decimals == -1 && q.analysis.forward.encoding == ENCODING_JSON);
    ck_assert(q.analysis.attention.rank == 4 && q.analysis.attention.data[6] == 0.25f);
    ck_assert_msg(decode("{" MAPS ",\"head_fusion\":\"min\",\"per_head\":true,\"renormalize\":true,\"decimals\":3,"
                         "\"encoding\":\"base64\",\"attention_mask\":[1,1],\"causal\":true,\"id\":\"i\"}",
                         &q, &error),
                  "%s", error.message);
    ck_assert(q.fusion == ROLLOUT_MIN && q.per_head && q.analysis.renormalize && q.analysis.forward.causal);
    ck_assert(q.analysis.forward.decimals == 3 && q.analysis.forward.encoding == ENCODING_BASE64);
    ck_assert_msg(decode("{\"input\":[[1,2]],\"head_fusion\":\"max\"}", &q, &error), "%s", error.message);
    ck_assert(q.fusion == ROLLOUT_MAX && !analysis_request_has_maps(&q.analysis));
}
END_TEST

static const struct {
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"{}", ERROR_INVALID, "", "attention input"},
    {"{" MAPS ",\"head_fusion\":\"median\"}", ERROR_INVALID, "/head_fusion", "median mean"},
    {"{" MAPS ",\"head_fusion\":1}", ERROR_INVALID, "/head_fusion", "number"},
    {"{" MAPS ",\"per_head\":null}", ERROR_INVALID, "/per_head", "null"},
    {"{" MAPS ",\"per_heads\":true}", ERROR_UNKNOWN_MEMBER, "/per_heads", "per_head"},
    {"{" MAPS ",\"exclude\":[0]}", ERROR_UNKNOWN_MEMBER, "/exclude", "exclude"},
    {"{" MAPS ",\"include_heads\":[0]}", ERROR_UNKNOWN_MEMBER, "/include_heads", "include_heads"},
    {"{" MAPS ",\"input\":[[0]]}", ERROR_INVALID, "/input", "attention input"},
    {"{" MAPS ",\"pattern\":{\"kind\":\"full\"}}", ERROR_INVALID, "/pattern", "attention pattern"},
    {"{\"input\":[[0]],\"renormalize\":true}", ERROR_INVALID, "/renormalize", "renormalize"},
};

START_TEST(wrong)
{
    struct rollout_request q;
    struct error error;
    ck_assert_msg(!decode(WRONG[_i].body, &q, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
}
END_TEST

static const struct {
    const char *body, *pointer, *words; /* pointer NULL: right */
    size_t batch, layers, heads, length;
    bool rank2;
} SHAPES[] = {
    {"{" MAPS "}", NULL, NULL, 1, 2, 1, 2, true},
    {"{\"attention\":[[[[[1]],[[1]],[[1]]]],[[[[1]],[[1]],[[1]]]]]}", NULL, NULL, 2, 1, 3, 1, false},
    {"{" MAPS ",\"attention_mask\":[[1,0],[1,1]]}", NULL, NULL, 1, 2, 1, 2, true},
    {"{\"attention\":[[[1]]]}", "/attention", "3 4 5", .batch = 0},
    {"{\"attention\":[[[[1,0]]]]}", "/attention", "queries keys", .batch = 0},
    {"{" MAPS ",\"attention_mask\":[1,0,1]}", "/attention_mask", "3 2", .batch = 0},
};

START_TEST(shapes)
{
    struct rollout_request q;
    struct forward_input rule = {0};
    struct maps_extent extent = {0};
    struct error error;
    const char *body = SHAPES[_i].body;
    ck_assert_msg(decode(body, &q, &error), "%s", error.message);
    const bool right = rollout_request_check_maps(&q, &rule, &extent, &error);
    ck_assert_int_eq(right, !SHAPES[_i].pointer);
    if (!right)
        expect_error(&error, ERROR_INVALID, SHAPES[_i].pointer, SHAPES[_i].words, body);
    ck_assert(rule.batch == SHAPES[_i].batch && extent.num_layers == SHAPES[_i].layers &&
              extent.num_heads == SHAPES[_i].heads && rule.query_length == SHAPES[_i].length &&
              rule.rank2 == SHAPES[_i].rank2 && rule.self_attention == right);
}
END_TEST

START_TEST(self_attention)
{
    struct forward_input input = {.self_attention = true};
    struct error error;
    ck_assert(rollout_request_check_input(&input, &error));
    input.self_attention = false;
    ck_assert(!rollout_request_check_input(&input, &error));
    expect_error(&error, ERROR_INVALID, "/query", "input", "cross attention");
}
END_TEST

/* The answer's bytes, in fresh memory. */
static char *compose(const struct rollout_request *request, const struct rollout_found *found, const char *weights,
                     size_t *length)
{
    struct arena memory = {0};
    struct answer_pieces pieces;
    struct error error;
    size_t most;
    const size_t need = rollout_answer_memory(request, weights);
    ck_assert(rollout_answer_bytes(request, found, weights, &most));
    ck_assert(arena_reserve(&memory, need));
    memory.capacity = need;
    ck_assert_msg(rollout_answer_compose(request, found, weights, "d1", &memory, &pieces, &error), "%s", error.message);
    ck_assert_uint_le(pieces.most, most);
    char *text = malloc(pieces.most);
    *length = (size_t)(answer_pieces_write(&pieces, answer_pieces_begin(), answer_pieces_behind(&pieces), text) - text);
    arena_free(&memory);
    ck_assert(arena_reserve(&memory, 64));
    memory.capacity = 64;
    ck_assert(!rollout_answer_compose(request, found, weights, "d1", &memory, &pieces, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    arena_free(&memory);
    return text;
}

static void expect(const struct rollout_request *request, const struct rollout_found *found, const char *weights,
                   const char *wanted, size_t wanted_length)
{
    size_t length;
    char *text = compose(request, found, weights, &length);
    ck_assert_msg(length == wanted_length && memcmp(text, wanted, length) == 0, "%.*s", (int)length, text);
    free(text);
}

START_TEST(answers)
{
    static const float numbers[] = {1, 0, 0.25f, 0.75f, 0.5f, 0.5f, 0, 1};
    static char id[] = "\"a\\u0062\"";
    struct rollout rollout = {.batch = 1, .num_heads = 2, .length = 2, .fusion = ROLLOUT_MAX};
    struct rollout_found found = {&rollout, true, numbers};
    struct rollout_request request = {.analysis.forward = {.decimals = -1}, .fusion = ROLLOUT_MAX};
#define EXPECT(weights, text) expect(&request, &found, weights, text, sizeof text - 1)
    EXPECT(NULL, "{\"head_fusion\":\"max\",\"rollout\":[[1.0,0.0],[0.25,0.75]]}");
    found.rank2 = false;
    request.analysis.forward.id = id;
    EXPECT("m", "{\"id\":\"a\\u0062\",\"weights\":\"m\",\"digest\":\"d1\",\"head_fusion\":\"max\","
                "\"rollout\":[[[1.0,0.0],[0.25,0.75]]]}");
    rollout.per_head = true;
    request.analysis.forward.decimals = 1;
    request.analysis.forward.id = NULL;
    EXPECT(NULL, "{\"head_fusion\":\"max\",\"rollout\":[[[[1.0,0.0],[0.2,0.8]],[[0.5,0.5],[0.0,1.0]]]]}");
    found.rank2 = true;
    rollout.per_head = false;
    request.analysis.forward.encoding = ENCODING_BASE64;
    EXPECT(NULL, "{\"head_fusion\":\"max\",\"rollout\":{\"shape\":[2,2],\"dtype\":\"f32\","
                 "\"base64\":\"AACAPwAAAAAAAIA+AABAPw==\"}}");
    request.analysis.forward.encoding = ENCODING_SAFETENSORS;
    request.analysis.forward.id = id;
    EXPECT("m", "\xa0\0\0\0\0\0\0\0{\"__metadata__\":{\"head_fusion\":\"\\\"max\\\"\",\"id\":\"\\\"a\\\\u0062\\\"\","
                "\"weights\":\"\\\"m\\\"\",\"digest\":\"\\\"d1\\\"\"},\"rollout\":{\"dtype\":\"F32\",\"shape\":[2,2],"
                "\"data_offsets\":[0,16]}}"
                "\0\0\x80\x3f\0\0\0\0\0\0\x80\x3e\0\0\x40\x3f");
#undef EXPECT
}
END_TEST

START_TEST(sizes_beyond_memory)
{
    const struct rollout rollout = {.batch = 1, .num_heads = 1, .length = (size_t)1 << 33};
    const struct rollout_found found = {&rollout, true, NULL};
    const struct rollout_request request = {.analysis.forward = {.decimals = -1}};
    size_t bytes;
    ck_assert(!rollout_answer_bytes(&request, &found, NULL, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rollout");
    TCase *c = tcase_create("rollout");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, members);
    tcase_add_loop_test(c, wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_loop_test(c, shapes, 0, sizeof SHAPES / sizeof *SHAPES);
    tcase_add_test(c, self_attention);
    tcase_add_test(c, answers);
    tcase_add_test(c, sizes_beyond_memory);
    suite_add_tcase(s, c);
    return s;
}
