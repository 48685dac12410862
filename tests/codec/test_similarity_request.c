/* Requests of /v1/heads/similarity decoded: the members of its own. Those of every analysis are in
 * test_analysis_request.c. */
#include "codec/similarity_request.h"

#include "codec/decoded.h"
#include "codec/expect.h"

#include <stdio.h>
#include <stdlib.h>

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* From a copy that a sanitizer sees the end of. */
static bool decode(const char *body, size_t length, struct similarity_request *request, struct error *error)
{
    char *exact = malloc(length + !length);
    memcpy(exact, body, length);
    arena_for_body(&arena, length);
    bool right = similarity_request_decode(&(struct request_body){BODY_JSON, exact, length}, &arena, request, error);
    ck_assert(right || arena.used == BEFORE_BODY);
    free(exact);
    return right;
}

#define MAPS "\"attention\":[[[0.25,0.75],[1,0]]]"
#define IN   "\"input\":[[0]]"

static const char FULL[] = "{" MAPS ",\"causal\":true,\"exclude\":[1],\"words\":[[[0],[1]]],\"metric\":\"js\",\"on\":"
                           "\"attention\",\"reduce\":\"mean\",\"threshold\":-0.25,\"max_pairs\":7}";

START_TEST(test_full)
{
    struct similarity_request q;
    struct error error;
    ck_assert_msg(decode(FULL, sizeof FULL - 1, &q, &error), "%s", error.message);
    ck_assert_int_eq(q.question.metric, SIMILARITY_JS);
    ck_assert_int_eq(q.question.subject, SIMILARITY_OF_ATTENTION);
    ck_assert_int_eq(q.question.reduction, SIMILARITY_MEAN);
    ck_assert(q.threshold == -0.25 && q.max_pairs == 7);
    ck_assert(q.analysis.has_exclude && q.analysis.has_words && q.analysis.forward.causal);
    ck_assert_uint_eq(q.analysis.attention.count, 4);
}
END_TEST

START_TEST(test_defaults)
{
    struct similarity_request q;
    struct error error;
    ck_assert(decode("{" IN "}", sizeof IN + 1, &q, &error));
    ck_assert_int_eq(q.question.metric, SIMILARITY_COSINE);
    ck_assert_int_eq(q.question.subject, SIMILARITY_OF_ATTENTION);
    ck_assert_int_eq(q.question.reduction, SIMILARITY_POOLED);
    ck_assert(q.threshold == 0.9 && q.max_pairs == 100 && q.question.diversity && !q.analysis.has_exclude &&
              !q.analysis.has_words);
}
END_TEST

static const struct {
    const char *name;
    enum similarity_metric metric;
    bool of_output;
} METRICS[] = {{"cosine", SIMILARITY_COSINE, true},        {"pearson", SIMILARITY_PEARSON, true},
               {"centered", SIMILARITY_CENTERED, false},   {"js", SIMILARITY_JS, false},
               {"hellinger", SIMILARITY_HELLINGER, false}, {"cka", SIMILARITY_CKA, true}};

START_TEST(test_metrics)
{
    char body[128];
    struct similarity_request q;
    struct error error;
    int length = snprintf(body, sizeof body, "{" MAPS ",\"metric\":\"%s\"}", METRICS[_i].name);
    ck_assert_msg(decode(body, (size_t)length, &q, &error), "%s", error.message);
    ck_assert_int_eq(q.question.metric, METRICS[_i].metric);
    ck_assert_str_eq(similarity_metric_name(q.question.metric), METRICS[_i].name);
    length = snprintf(body, sizeof body, "{" IN ",\"on\":\"output\",\"metric\":\"%s\"}", METRICS[_i].name);
    if (METRICS[_i].of_output) {
        ck_assert_msg(decode(body, (size_t)length, &q, &error), "%s", error.message);
        ck_assert_int_eq(q.question.subject, SIMILARITY_OF_OUTPUT);
    } else {
        ck_assert(!decode(body, (size_t)length, &q, &error));
        expect_error(&error, ERROR_INVALID, "/metric", METRICS[_i].name, body);
        ck_assert(names(error.message, "cosine") && names(error.message, "pearson") && names(error.message, "cka"));
    }
}
END_TEST

static const struct {
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {"{" MAPS ",\"metric\":\"cosin\"}", ERROR_INVALID, "/metric", "cosin cosine pearson centered js hellinger cka did"},
    {"{" MAPS ",\"metric\":\"euclidean\"}", ERROR_INVALID, "/metric", "euclidean cosine"},
    {"{" MAPS ",\"metric\":1}", ERROR_INVALID, "/metric", "string number"},
    {"{" MAPS ",\"on\":\"outputs\"}", ERROR_INVALID, "/on", "outputs output attention"},
    {"{" MAPS ",\"on\":null}", ERROR_INVALID, "/on", "string null"},
    {"{" MAPS ",\"on\":\"output\"}", ERROR_INVALID, "/on", "input output"},
    {"{" MAPS ",\"reduce\":\"max\"}", ERROR_INVALID, "/reduce", "max pooled mean"},
    {"{" MAPS ",\"reduce\":[]}", ERROR_INVALID, "/reduce", "string array"},
    {"{" MAPS ",\"threshold\":1.0001}", ERROR_INVALID, "/threshold", "1.0001 1"},
    {"{" MAPS ",\"threshold\":-1.5}", ERROR_INVALID, "/threshold", "1.5 1"},
    {"{" MAPS ",\"threshold\":\"0.9\"}", ERROR_INVALID, "/threshold", "number string"},
    {"{" MAPS ",\"threshold\":1e999}", ERROR_INVALID, "/threshold", ""},
    {"{" MAPS ",\"max_pairs\":-1}", ERROR_INVALID, "/max_pairs", "1"},
    {"{" MAPS ",\"max_pairs\":1.5}", ERROR_INVALID, "/max_pairs", ""},
    {"{" MAPS ",\"max_pairs\":1e30}", ERROR_INVALID, "/max_pairs", ""},
    {"{" MAPS ",\"max_pairs\":\"1\"}", ERROR_INVALID, "/max_pairs", "string"},
    {"{" IN ",\"on\":\"output\",\"exclude\":[0]}", ERROR_INVALID, "/exclude", "exclude attention"},
    {"{" IN ",\"words\":[[[0]]],\"on\":\"output\"}", ERROR_INVALID, "/words", "words attention"},
    {"{" MAPS "," MAPS "}", ERROR_DUPLICATE_MEMBER, NULL, "attention"},
    {"{" MAPS ",\"tresholds\":1}", ERROR_UNKNOWN_MEMBER, "/tresholds", "tresholds threshold"},
    {"{" MAPS ",\"include_heads\":[0]}", ERROR_UNKNOWN_MEMBER, "/include_heads", "include_heads"},
    {"{" MAPS ",\"method\":\"zero\"}", ERROR_UNKNOWN_MEMBER, "/method", "method"},
    {"{" MAPS ",\"per_position\":true}", ERROR_UNKNOWN_MEMBER, "/per_position", "per_position"},
    {"{\"metric\":\"js\"}", ERROR_INVALID, "", "attention input"},
};

START_TEST(test_wrong)
{
    struct similarity_request q;
    struct error error;
    ck_assert_msg(!decode(WRONG[_i].body, strlen(WRONG[_i].body), &q, &error), "%s was accepted", WRONG[_i].body);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, WRONG[_i].body);
    ck_assert(!q.analysis.attention.data && !q.analysis.forward.input.data);
}
END_TEST

/* Every beginning of a request that has all members. */
START_TEST(test_truncated)
{
    for (size_t length = 0; length < sizeof FULL - 1; length++) {
        struct similarity_request q;
        struct error error;
        ck_assert_msg(!decode(FULL, length, &q, &error), "%.*s was accepted", (int)length, FULL);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("similarity_request");
    TCase *c = tcase_create("similarity_request");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_full);
    tcase_add_test(c, test_defaults);
    tcase_add_loop_test(c, test_metrics, 0, sizeof METRICS / sizeof *METRICS);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_truncated);
    suite_add_tcase(s, c);
    return s;
}
