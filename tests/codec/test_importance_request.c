/* Requests of /v1/heads/importance decoded: the members of its own, and those it does not take over from a forward. */
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/importance_request.h"

#include <stdio.h>
#include <stdlib.h>

/* What the last request was decoded into. */
static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

static bool decode(const char *body, size_t length, struct importance_request *request, struct error *error)
{
    char *exact = malloc(length + !length); /* so that a sanitizer sees a read behind the end */
    memcpy(exact, body, length);
    arena_for_body(&arena, length);
    bool right = importance_request_decode(&(struct request_body){BODY_JSON, exact, length}, &arena, request, error);
    ck_assert_uint_eq(arena.used, BEFORE_BODY + held_bytes(&request->forward));
    ck_assert(right || arena.used == BEFORE_BODY);
    free(exact);
    return right;
}

static const char FULL[] =
    "{\"weights\":\"demo\",\"id\":7,\"query\":[[[1,2],[3,4]]],\"key\":[[[5,6]]],\"value\":[[[7,8]]],"
    "\"attention_mask\":[[1]],\"causal\":true,\"bias\":[[[0.5],[1]]],\"head_mask\":[2],"
    "\"method\":\"zero\",\"prune_plan\":true,\"tolerance\":0.125}";

START_TEST(test_full)
{
    struct importance_request q;
    struct error error;
    ck_assert_msg(decode(FULL, sizeof FULL - 1, &q, &error), "%s", error.message);
    ck_assert_str_eq(q.forward.weights, "demo");
    ck_assert_str_eq(q.forward.id, "7");
    ck_assert_uint_eq(q.forward.query.count, 4);
    ck_assert(q.forward.key.data[1] == 6 && q.forward.value.data[1] == 8 && q.forward.bias.data[0] == 0.5f);
    ck_assert(q.forward.head_mask.data[0] == 2 && q.forward.attention_mask.data[0] == 1 && q.forward.causal);
    ck_assert_int_eq(q.method, IMPORTANCE_ZERO);
    ck_assert(q.prune_plan && q.has_tolerance && q.tolerance == 0.125);
}
END_TEST

START_TEST(test_methods)
{
    static const char *const names[] = {"zero", "uniform", "mean", "norm"};
    static const enum importance_method methods[] = {IMPORTANCE_ZERO, IMPORTANCE_UNIFORM, IMPORTANCE_MEAN,
                                                     IMPORTANCE_NORM};
    char body[128];
    struct importance_request q;
    struct error error;
    int length = snprintf(body, sizeof body, "{\"input\":[[1]],\"prune_plan\":false,\"method\":\"%s\"}", names[_i]);
    ck_assert_msg(decode(body, (size_t)length, &q, &error), "%s", error.message);
    ck_assert_int_eq(q.method, methods[_i]);
    ck_assert(!q.prune_plan && !q.has_tolerance);
    ck_assert_str_eq(importance_method_name(q.method), names[_i]);
}
END_TEST

START_TEST(test_defaults)
{
    struct importance_request q;
    struct error error;
    ck_assert(decode("{\"input\":[[1]]}", 15, &q, &error));
    ck_assert(q.method == IMPORTANCE_ZERO && !q.prune_plan && !q.has_tolerance && !q.forward.causal);
}
END_TEST

#define IN "\"input\":[[0]]"

static const struct {
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"", ERROR_NOT_JSON, NULL, ""},
    {"[]", ERROR_INVALID, "", "object array"},
    {"{" IN "} 1", ERROR_NOT_JSON, NULL, ""},
    {"{}", ERROR_INVALID, "", "input"},
    {"{\"query\":[[0]]}", ERROR_INVALID, "", "query key"},
    {"{" IN ",\"key\":[[0]]}", ERROR_INVALID, "/key", "input"},
    {"{" IN "," IN "}", ERROR_DUPLICATE_MEMBER, NULL, "input"},
    {"{\"attention\":[[[1]]]}", ERROR_INVALID, "/attention", "input attention"},
    {"{" IN ",\"attention\":[[[1]]]}", ERROR_INVALID, "/attention", "input attention"},
    {"{" IN ",\"method\":\"zeros\"}", ERROR_INVALID, "/method", "zeros zero uniform mean norm mean"},
    {"{" IN ",\"method\":\"unform\"}", ERROR_INVALID, "/method", "unform did uniform"},
    {"{" IN ",\"method\":\"gradient\"}", ERROR_INVALID, "/method", "gradient zero uniform mean norm"},
    {"{" IN ",\"method\":1}", ERROR_INVALID, "/method", "string number"},
    {"{" IN ",\"prune_plan\":1}", ERROR_INVALID, "/prune_plan", "number"},
    {"{" IN ",\"method\":\"mean\",\"prune_plan\":true}", ERROR_INVALID, "/prune_plan", "zero mean"},
    {"{" IN ",\"prune_plan\":true,\"method\":\"norm\"}", ERROR_INVALID, "/prune_plan", "zero norm"},
    {"{" IN ",\"tolerance\":0.1}", ERROR_INVALID, "/tolerance", "prune_plan"},
    {"{" IN ",\"tolerance\":0.1,\"prune_plan\":false}", ERROR_INVALID, "/tolerance", "prune_plan"},
    {"{" IN ",\"prune_plan\":true,\"tolerance\":-0.5}", ERROR_INVALID, "/tolerance", "0.5 0"},
    {"{" IN ",\"prune_plan\":true,\"tolerance\":\"0.5\"}", ERROR_INVALID, "/tolerance", "number string"},
    {"{" IN ",\"prune_plan\":true,\"tolerance\":1e999}", ERROR_INVALID, "/tolerance", "1e999"},
    {"{" IN ",\"tolerence\":0.1}", ERROR_UNKNOWN_MEMBER, "/tolerence", "tolerence tolerance"},
    {"{" IN ",\"return\":[\"output\"]}", ERROR_UNKNOWN_MEMBER, "/return", "return"},
    {"{" IN ",\"include_heads\":[0]}", ERROR_UNKNOWN_MEMBER, "/include_heads", "include_heads"},
    {"{" IN ",\"top_k\":1}", ERROR_UNKNOWN_MEMBER, "/top_k", "top_k"},
    {"{" IN ",\"decimals\":1}", ERROR_UNKNOWN_MEMBER, "/decimals", "decimals"},
    {"{" IN ",\"encoding\":\"json\"}", ERROR_UNKNOWN_MEMBER, "/encoding", "encoding"},
    {"{" IN ",\"metric\":\"cosine\"}", ERROR_UNKNOWN_MEMBER, "/metric", "metric"},
};

START_TEST(test_wrong)
{
    struct importance_request q;
    struct error error;
    ck_assert_msg(!decode(WRONG[_i].body, strlen(WRONG[_i].body), &q, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
    ck_assert(!q.forward.input.data);
}
END_TEST

/* Every beginning of a request that has all members. */
START_TEST(test_truncated)
{
    for (size_t length = 0; length < sizeof FULL - 1; length++) {
        struct importance_request q;
        struct error error;
        ck_assert_msg(!decode(FULL, length, &q, &error), "%.*s was accepted", (int)length, FULL);
        ck_assert(!q.forward.weights);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("importance_request");
    TCase *c = tcase_create("importance_request");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_full);
    tcase_add_loop_test(c, test_methods, 0, IMPORTANCE_METHOD_COUNT);
    tcase_add_test(c, test_defaults);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_truncated);
    suite_add_tcase(s, c);
    return s;
}
