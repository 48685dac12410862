/* Requests against a weight set's shape. */
#include "codec/decoded.h"
#include "codec/expect.h"

#include <stdlib.h>

/* Three heads; tokens four wide. */
static const struct attention_shape SHAPE = {
    .d_model = 4, .num_heads = 3, .num_kv_heads = 3, .d_k = 2, .d_v = 2, .scale = 0.5f, .projected = true};

/* What the last request was decoded into. */
static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static void decode(const char *body, struct forward_request *request)
{
    struct error error;
    arena_for_body(&arena, strlen(body));
    ck_assert_msg(
        forward_request_decode(&(struct request_body){BODY_JSON, body, strlen(body)}, &arena, request, &error),
        "%s: %s", body, error.message);
}

#define T1 "[0,0,0,0]"
#define X2 "[" T1 "," T1 "]"
#define X3 "[" T1 "," T1 "," T1 "]"
#define M3 "[[1,0,1],[1,0,1],[1,0,1]]"

static const struct {
    const char *body;
    size_t batch, query_length, key_length;
    bool rank2, self_attention, causal;
    enum forward_mask mask_kind;
    bool bias, bias_per_sequence, head_mask;
} RIGHT[] = {
    {"{\"input\":" X3 "}", 1, 3, 3, true, true, false, FORWARD_MASK_NONE, false, false, false},
    {"{\"input\":[" X3 "," X3 "],\"causal\":true}", 2, 3, 3, false, true, true, FORWARD_MASK_NONE, false, false, false},
    {"{\"query\":[" X2 "],\"key\":[" X3 "]}", 1, 2, 3, false, false, false, FORWARD_MASK_NONE, false, false, false},
    {"{\"query\":" X2 ",\"key\":" X3 ",\"value\":" X3 "}", 1, 2, 3, true, false, false, FORWARD_MASK_NONE, false, false,
     false},
    {"{\"input\":" X3 ",\"attention_mask\":[1,0,1]}", 1, 3, 3, true, true, false, FORWARD_MASK_KEYS, false, false,
     false},
    {"{\"input\":" X3 ",\"attention_mask\":" M3 "}", 1, 3, 3, true, true, false, FORWARD_MASK_PAIRS, false, false,
     false},
    {"{\"input\":[" X3 "," X3 "],\"attention_mask\":[[1,0,1],[1,1,1]]}", 2, 3, 3, false, true, false, FORWARD_MASK_KEYS,
     false, false, false},
    {"{\"input\":[" X3 "," X3 "],\"attention_mask\":[" M3 "," M3 "]}", 2, 3, 3, false, true, false, FORWARD_MASK_PAIRS,
     false, false, false},
    {"{\"query\":" X2 ",\"key\":" X3 ",\"attention_mask\":[1,1,0]}", 1, 2, 3, true, false, false, FORWARD_MASK_KEYS,
     false, false, false},
    {"{\"query\":" X2 ",\"key\":" X3 ",\"attention_mask\":[[1,1,0],[1,1,1]]}", 1, 2, 3, true, false, false,
     FORWARD_MASK_PAIRS, false, false, false},
    {"{\"input\":" X2 ",\"bias\":{\"shape\":[3,2,2],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0]}}", 1, 2, 2, true, true, false,
     FORWARD_MASK_NONE, true, false, false},
    {"{\"input\":[" X2 "],\"bias\":{\"shape\":[3,2,2],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0]}}", 1, 2, 2, false, true,
     false, FORWARD_MASK_NONE, true, false, false},
    {"{\"input\":[" X2 "],\"bias\":{\"shape\":[1,3,2,2],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0]}}", 1, 2, 2, false, true,
     false, FORWARD_MASK_NONE, true, true, false},
    {"{\"input\":" X2 ",\"head_mask\":[1,0,-0.5],\"include_heads\":[2,0]}", 1, 2, 2, true, true, false,
     FORWARD_MASK_NONE, false, false, true},
};

START_TEST(test_right)
{
    struct forward_request q;
    struct forward_input problem;
    struct error error;
    decode(RIGHT[_i].body, &q);
    memset(&problem, 0x55, sizeof problem);
    ck_assert_msg(forward_request_check(&q, &SHAPE, NULL, &problem, &error), "%s: %s", RIGHT[_i].body, error.message);
    ck_assert_uint_eq(problem.batch, RIGHT[_i].batch);
    ck_assert_uint_eq(problem.query_length, RIGHT[_i].query_length);
    ck_assert_uint_eq(problem.key_length, RIGHT[_i].key_length);
    ck_assert(problem.rank2 == RIGHT[_i].rank2);
    ck_assert(problem.self_attention == RIGHT[_i].self_attention);
    ck_assert(problem.causal == RIGHT[_i].causal);
    ck_assert_int_eq(problem.mask_kind, RIGHT[_i].mask_kind);
    ck_assert_ptr_eq(problem.mask, RIGHT[_i].mask_kind ? q.attention_mask.data : NULL);
    ck_assert_ptr_eq(problem.bias, RIGHT[_i].bias ? q.bias.data : NULL);
    ck_assert(problem.bias_per_sequence == RIGHT[_i].bias_per_sequence);
    ck_assert_ptr_eq(problem.head_mask, RIGHT[_i].head_mask ? q.head_mask.data : NULL);
    const float *query = q.input.data ? q.input.data : q.query.data, *key = q.input.data ? q.input.data : q.key.data;
    ck_assert_ptr_eq(problem.query, query);
    ck_assert_ptr_eq(problem.key, key);
    ck_assert_ptr_eq(problem.value, q.value.data ? q.value.data : key);
}
END_TEST

static const struct {
    const char *body, *pointer, *words;
} WRONG[] = {
    {"{\"input\":[0,0,0,0]}", "/input", "1 2 3"},
    {"{\"input\":[[[1,1,1]]]}", "/input", "3 4"},
    {"{\"input\":[[1,1,1,1,1]]}", "/input", "5 4"},
    {"{\"query\":[[1,1,1]],\"key\":" X2 "}", "/query", "3 4"},
    {"{\"query\":[1,1,1,1],\"key\":" X2 "}", "/query", "1 2 3"},
    {"{\"query\":" X2 ",\"key\":[[1,1,1,1,1]]}", "/key", "5 4"},
    {"{\"query\":" X2 ",\"key\":" X3 ",\"value\":[[1,1,1],[1,1,1],[1,1,1]]}", "/value", "3 4"},
    {"{\"query\":[" X2 "],\"key\":" X3 "}", "/key", "2 3"},
    {"{\"query\":" X2 ",\"key\":[" X3 "]}", "/key", "3 2"},
    {"{\"query\":[" X2 "],\"key\":[" X2 "," X2 "]}", "/key", "1 2"},
    {"{\"query\":[" X2 "],\"key\":[" X3 "],\"value\":" X3 "}", "/value", "2 3"},
    {"{\"query\":[" X2 "],\"key\":[" X3 "],\"value\":[" X3 "," X3 "]}", "/value", "2 1"},
    {"{\"query\":[" X2 "],\"key\":[" X3 "],\"value\":[" X2 "]}", "/value", "2 3"},
    {"{\"input\":[" X3 "],\"attention_mask\":[[1,1]]}", "/attention_mask", "2 3"},
    {"{\"input\":[" X3 "],\"attention_mask\":[1,1,1]}", "/attention_mask", "1 3"},
    {"{\"input\":[" X3 "," X3 "],\"attention_mask\":[[1,1,1]]}", "/attention_mask", "1 2 3"},
    {"{\"input\":[" X3 "],\"attention_mask\":[[[1,1,1],[1,1,1]]]}", "/attention_mask", "2 3"},
    {"{\"input\":" X2 ",\"attention_mask\":[[[1,1],[1,1]]]}", "/attention_mask", "1 2"},
    {"{\"input\":" X2 ",\"attention_mask\":[[1,1]]}", "/attention_mask", "1 2"},
    {"{\"query\":" X2 ",\"key\":" X3 ",\"attention_mask\":[1,1]}", "/attention_mask", "2 3"},
    {"{\"input\":" X2 ",\"bias\":[[[0]]]}", "/bias", "1 2 3"},
    {"{\"input\":[" X2 "],\"bias\":[0]}", "/bias", "1 2 3"},
    {"{\"input\":" X2 ",\"bias\":{\"shape\":[1,3,2,2],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0]}}", "/bias", "1 2 3"},
    {"{\"input\":[" X2 "," X2 "],\"bias\":{\"shape\":[1,3,2,2],\"data\":[0,0,0,0,0,0,0,0,0,0,0,0]}}", "/bias", "1 2 3"},
    {"{\"input\":" X2 ",\"head_mask\":[1,1]}", "/head_mask", "2 3"},
    {"{\"input\":" X2 ",\"include_heads\":[0,3]}", "/include_heads/1", "3 0 2"},
    {"{\"input\":" X2 ",\"include_heads\":[-1]}", "/include_heads/0", "0 2"},
    {"{\"input\":" X2 ",\"include_heads\":[0,4294967296]}", "/include_heads/1", "4294967296 2"},
    {"{\"input\":" X2 ",\"include_heads\":[0,4294967295]}", "/include_heads/1", "4294967295 2"},
    {"{\"input\":" X2 ",\"include_heads\":[-7,-8]}", "/include_heads/0", "7 2"},
    {"{\"input\":" X2 ",\"include_heads\":[0,2,0]}", "/include_heads/2", "0 twice"},
};

START_TEST(test_wrong)
{
    struct forward_request q;
    struct forward_input problem, before;
    struct error error;
    decode(WRONG[_i].body, &q);
    memset(&problem, 0x55, sizeof problem);
    before = problem;
    ck_assert_msg(!forward_request_check(&q, &SHAPE, NULL, &problem, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, ERROR_INVALID, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
    ck_assert(memcmp(&before, &problem, sizeof problem) == 0);
}
END_TEST

/* More heads than one pass over the list looks for: the first fault in the order of the list is told. */
START_TEST(test_many_heads)
{
    static const struct {
        size_t at[2]; /* entries that are set to `to` */
        uint32_t to[2];
        const char *pointer, *words; /* NULL: right */
    } CASES[] = {
        {{0, 0}, {9999, 9999}, NULL, NULL},
        {{7000, 7000}, {20, 20}, "/include_heads/9979", "20 twice"}, /* the list runs down: 20 comes later again */
        {{9999, 9000}, {9998, 9997}, "/include_heads/9000", "9997 twice"},
        {{9000, 9999}, {4096, 4095}, "/include_heads/9000", "4096 twice"},
        {{9000, 8999}, {10000, 9997}, "/include_heads/8999", "9997 twice"},
        {{8999, 9000}, {10000, 9997}, "/include_heads/8999", "10000 9999"},
        {{9998, 9999}, {0, 0}, "/include_heads/9999", "0 twice"},
    };
    struct attention_shape shape = SHAPE;
    struct forward_request q;
    struct forward_input problem;
    struct error error;
    uint32_t *heads = malloc(10000 * sizeof *heads);
    shape.num_heads = 10000;
    for (uint32_t i = 0; i < 10000; i++)
        heads[i] = 9999 - i;
    decode("{\"input\":" X2 "}", &q);
    q.include_heads = heads;
    q.n_include_heads = 10000;
    heads[CASES[_i].at[0]] = CASES[_i].to[0];
    heads[CASES[_i].at[1]] = CASES[_i].to[1];
    ck_assert(forward_request_check(&q, &shape, NULL, &problem, &error) == !CASES[_i].pointer);
    if (CASES[_i].pointer)
        expect_error(&error, ERROR_INVALID, CASES[_i].pointer, CASES[_i].words, "many heads");
    free(heads);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("forward_check");
    TCase *c = tcase_create("forward_check");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_loop_test(c, test_right, 0, sizeof RIGHT / sizeof *RIGHT);
    tcase_add_loop_test(c, test_many_heads, 0, 7);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    suite_add_tcase(s, c);
    return s;
}
