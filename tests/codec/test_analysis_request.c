/* Requests of /v1/heads/stats and /v1/heads/links decoded: maps, words, exclude and tokens, in memory of just the size
 * that was promised to suffice; and posted maps against each other. */
#include "codec/analysis_request.h"

#include "analysis/head_maps_check.h"
#include "codec/decoded.h"
#include "codec/expect.h"
#include "codec/links_request.h"
#include "codec/stats_request.h"

#include <stdio.h>
#include <stdlib.h>

static struct arena arena;

static void free_memory(void)
{
    arena_free(&arena);
}

/* A copy that a sanitizer sees the end of. */
static bool decode(bool links, const char *body, size_t length, struct stats_request *stats,
                   struct links_request *asked, struct error *error)
{
    char *exact = malloc(length + !length);
    memcpy(exact, body, length);
    const struct request_body whole = {BODY_JSON, exact, length};
    arena_for_body(&arena, length);
    bool right =
        links ? links_request_decode(&whole, &arena, asked, error) : stats_request_decode(&whole, &arena, stats, error);
    ck_assert(right || arena.used == BEFORE_BODY);
    free(exact);
    return right;
}

#define MAPS "\"attention\":[[[0.25,0.75],[1,0]],[[0.5,0.5],[0,1]]]"

static const char STATS[] =
    "{" MAPS
    ",\"attention_mask\":[1,1],\"causal\":false,\"renormalize\":true,\"exclude\":[1,0,4294967294],\"id\":\"i\","
    "\"words\":[[[0],[1,2]],[],[[3,4,5],[]]],\"include_heads\":[1],\"per_position\":true,\"stderr\":true}";
static const char LINKS[] =
    "{" MAPS ",\"exclude\":[[],[7],[8,9]],\"tokens\":[[\"a\",\"\"],[\"\\u00e9\\n\",\"\xc3\xa9\"]],\"top_k\":9,"
    "\"min_weight\":0.5}";

START_TEST(test_stats)
{
    struct stats_request q;
    struct error error;
    ck_assert_msg(decode(false, STATS, sizeof STATS - 1, &q, NULL, &error), "%s", error.message);
    const struct analysis_request *a = &q.analysis;
    ck_assert(q.per_position && q.with_stderr && a->renormalize && a->has_exclude && a->has_words);
    ck_assert(a->attention.rank == 3 && a->attention.count == 8 && a->attention.data[1] == 0.75f);
    ck_assert_str_eq(a->forward.id, "\"i\"");
    ck_assert(a->forward.n_include_heads == 1 && a->forward.include_heads[0] == 1);
    ck_assert(a->exclude.n_lists == 1 && !a->exclude.nested && a->exclude.ends[0] == 3);
    ck_assert(a->exclude.positions[0] == 1 && a->exclude.positions[2] == UINT32_MAX - 1);
    static const uint32_t list_ends[] = {2, 2, 4}, word_ends[] = {1, 3, 6, 6}, positions[] = {0, 1, 2, 3, 4, 5};
    ck_assert_uint_eq(a->words.n_lists, 3);
    ck_assert_mem_eq(a->words.list_ends, list_ends, sizeof list_ends);
    ck_assert_mem_eq(a->words.word_ends, word_ends, sizeof word_ends);
    ck_assert_mem_eq(a->words.positions, positions, sizeof positions);
}
END_TEST

START_TEST(test_links)
{
    struct links_request q;
    struct error error;
    ck_assert_msg(decode(true, LINKS, sizeof LINKS - 1, NULL, &q, &error), "%s", error.message);
    ck_assert(q.top_k == 9 && q.min_weight == 0.5);
    static const uint32_t ends[] = {0, 1, 3}, positions[] = {7, 8, 9}, list_ends[] = {2, 4},
                          label_ends[] = {3, 5, 15, 19};
    ck_assert(q.analysis.exclude.n_lists == 3 && q.analysis.exclude.nested);
    ck_assert_mem_eq(q.analysis.exclude.ends, ends, sizeof ends);
    ck_assert_mem_eq(q.analysis.exclude.positions, positions, sizeof positions);
    ck_assert_uint_eq(q.tokens.n_lists, 2);
    ck_assert_mem_eq(q.tokens.list_ends, list_ends, sizeof list_ends);
    ck_assert_mem_eq(q.tokens.label_ends, label_ends, sizeof label_ends);
    ck_assert_mem_eq(q.tokens.labels, "\"a\"\"\"\"\\u00e9\\n\"\"\xc3\xa9\"", 19);
}
END_TEST

START_TEST(test_defaults)
{
    struct stats_request stats;
    struct links_request links;
    struct error error;
    ck_assert(decode(false, "{" MAPS "}", sizeof MAPS + 1, &stats, NULL, &error));
    ck_assert(!stats.per_position && !stats.with_stderr && !stats.analysis.renormalize && !stats.analysis.has_words &&
              !stats.analysis.has_exclude);
    ck_assert(decode(true, "{\"input\":[[1]]}", 15, NULL, &links, &error));
    ck_assert(!analysis_request_has_maps(&links.analysis) && links.top_k == 5 && links.min_weight == 0);
    ck_assert_uint_eq(links.tokens.n_lists, 0);
}
END_TEST

/* Text that takes the most memory for its length. */
START_TEST(test_most_memory)
{
    static const char *const parts[] = {"[],", "[[],[],[],[],[],[],[],[],[],[]],", "[[0],[0],[0],[0]],",
                                        "[[0,0,0,0]],"};
    static const char *const flat[] = {"0,", "[],", "[0],", "[0,0,0],"};
    for (size_t part = 0; part < 8; part++) {
        const bool words = part < 4;
        const char *piece = words ? parts[part] : flat[part - 4];
        char *body = malloc(40000), *at = body;
        struct stats_request q;
        struct error error;
        at += sprintf(at, "{\"attention\":[[[1]]],\"%s\":[", words ? "words" : "exclude");
        while (at - body < 30000)
            at += sprintf(at, "%s", piece);
        at += sprintf(at - 1, "]}") - 1;
        ck_assert_msg(decode(false, body, (size_t)(at - body), &q, NULL, &error), "%s: %s", piece, error.message);
        free(body);
    }
    static const char *const labels[] = {"[],", "[\"\"],", "[\"\",\"\",\"\",\"\"],", "[\"ab\"],"};
    for (size_t part = 0; part < 4; part++) {
        char *body = malloc(40000), *at = body;
        struct links_request q;
        struct error error;
        at += sprintf(at, "{\"attention\":[[[1]]],\"tokens\":[");
        while (at - body < 30000)
            at += sprintf(at, "%s", labels[part]);
        at += sprintf(at - 1, "]}") - 1;
        ck_assert_msg(decode(true, body, (size_t)(at - body), NULL, &q, &error), "%s", error.message);
        free(body);
    }
}
END_TEST

static const struct {
    bool links;
    const char *body;
    enum error_code code;
    const char *pointer, *words;
} WRONG[] = {
    {false, "[]", ERROR_INVALID, "", "object array"},
    {false, "{}", ERROR_INVALID, "", "attention input query key"},
    {false, "{\"query\":[[0]]}", ERROR_INVALID, "", "query key"},
    {false, "{" MAPS ",\"input\":[[0]]}", ERROR_INVALID, "/input", "attention input"},
    {false, "{" MAPS ",\"key\":[[0]]}", ERROR_INVALID, "/key", "attention key"},
    {false, "{" MAPS ",\"bias\":[[[0]]]}", ERROR_INVALID, "/bias", "attention bias"},
    {false, "{" MAPS ",\"head_mask\":[1]}", ERROR_INVALID, "/head_mask", "attention head_mask"},
    {false, "{" MAPS ",\"weights\":\"demo\"}", ERROR_INVALID, "/weights", "attention weights"},
    {false, "{\"input\":[[0]],\"renormalize\":true}", ERROR_INVALID, "/renormalize", "renormalize"},
    {false, "{" MAPS ",\"renormalize\":1}", ERROR_INVALID, "/renormalize", "number"},
    {false, "{\"attention\":[[[[[[1]]]]]]}", ERROR_INVALID, NULL, ""},
    {false, "{\"attention\":[[[null]]]}", ERROR_INVALID, "/attention/0/0/0", "null"},
    {false, "{\"attention\":[[[1e39]]]}", ERROR_NOT_FINITE, "/attention/0/0/0", ""},
    {false, "{" MAPS ",\"exclude\":0}", ERROR_INVALID, "/exclude", "array number"},
    {false, "{" MAPS ",\"exclude\":[0,-1]}", ERROR_INVALID, "/exclude/1", "1 0"},
    {false, "{" MAPS ",\"exclude\":[0,0.5]}", ERROR_INVALID, "/exclude/1", ""},
    {false, "{" MAPS ",\"exclude\":[[0],1]}", ERROR_INVALID, "/exclude/1", "array number"},
    {false, "{" MAPS ",\"exclude\":[0,[1]]}", ERROR_INVALID, "/exclude/1", "array"},
    {false, "{" MAPS ",\"exclude\":[4294967295]}", ERROR_INVALID, "/exclude/0", "4294967295"},
    {false, "{" MAPS ",\"words\":[[0]]}", ERROR_INVALID, "/words/0/0", "array number"},
    {false, "{" MAPS ",\"words\":[[[0],[\"1\"]]]}", ERROR_INVALID, "/words/0/1/0", "string"},
    {false, "{" MAPS ",\"words\":{}}", ERROR_INVALID, "/words", "array object"},
    {false, "{" MAPS ",\"include_heads\":[]}", ERROR_INVALID, "/include_heads", ""},
    {false, "{" MAPS ",\"per_position\":\"yes\"}", ERROR_INVALID, "/per_position", "string"},
    {false, "{" MAPS ",\"per_positon\":true}", ERROR_UNKNOWN_MEMBER, "/per_positon", "per_position"},
    {false, "{" MAPS ",\"stder\":true}", ERROR_UNKNOWN_MEMBER, "/stder", "stderr"},
    {false, "{" MAPS ",\"atention\":1}", ERROR_UNKNOWN_MEMBER, "/atention", "attention"},
    {false, "{" MAPS ",\"renormalise\":true}", ERROR_UNKNOWN_MEMBER, "/renormalise", "renormalize"},
    {false, "{" MAPS ",\"tokens\":[]}", ERROR_UNKNOWN_MEMBER, "/tokens", "tokens"},
    {false, "{" MAPS "," MAPS "}", ERROR_DUPLICATE_MEMBER, NULL, "attention"},
    {true, "{" MAPS ",\"stderr\":true}", ERROR_UNKNOWN_MEMBER, "/stderr", "stderr"},
    {true, "{" MAPS ",\"token\":[]}", ERROR_UNKNOWN_MEMBER, "/token", "tokens"},
    {true, "{" MAPS ",\"tokens\":[]}", ERROR_INVALID, "/tokens", "list"},
    {true, "{" MAPS ",\"tokens\":[\"a\"]}", ERROR_INVALID, "/tokens/0", "array string"},
    {true, "{" MAPS ",\"tokens\":[[\"a\",1]]}", ERROR_INVALID, "/tokens/0/1", "string number"},
    {true, "{" MAPS ",\"top_k\":0}", ERROR_INVALID, "/top_k", "1 0"},
    {true, "{" MAPS ",\"top_k\":1.5}", ERROR_INVALID, "/top_k", ""},
    {true, "{" MAPS ",\"min_weight\":-0.25}", ERROR_INVALID, "/min_weight", "0.25 0 1"},
    {true, "{" MAPS ",\"min_weight\":1.25}", ERROR_INVALID, "/min_weight", "1.25 0 1"},
};

START_TEST(test_wrong)
{
    struct stats_request stats;
    struct links_request links;
    struct error error;
    const char *body = WRONG[_i].body;
    ck_assert_msg(!decode(WRONG[_i].links, body, strlen(body), &stats, &links, &error), "%s was accepted", body);
    expect_error(&error, WRONG[_i].code, WRONG[_i].pointer, WRONG[_i].words, body);
    ck_assert(WRONG[_i].links ? !links.analysis.attention.data : !stats.analysis.attention.data);
}
END_TEST

START_TEST(test_truncated)
{
    struct stats_request stats;
    struct links_request links;
    struct error error;
    for (size_t length = 0; length < sizeof STATS - 1; length++)
        ck_assert(!decode(false, STATS, length, &stats, NULL, &error));
    for (size_t length = 0; length < sizeof LINKS - 1; length++)
        ck_assert(!decode(true, LINKS, length, NULL, &links, &error));
}
END_TEST

/* What is posted, against itself. */
static const struct {
    const char *body, *pointer, *words; /* pointer NULL: right */
    size_t batch, heads, rows, keys, layers;
    bool rank2, self_attention;
    enum forward_mask mask;
} MAPS_CASES[] = {
    {"{\"attention\":[[1]]}", "/attention", "2 3 4 5", .heads = 0},
    {"{\"attention\":[1]}", "/attention", "1 3 4 5", .heads = 0},
    {"{" MAPS "}", NULL, NULL, 1, 2, 2, 2, 0, true, true, FORWARD_MASK_NONE},
    {"{\"attention\":[[[[1,0,0]]]]}", NULL, NULL, 1, 1, 1, 3, 0, false, false, FORWARD_MASK_NONE},
    {"{" MAPS ",\"attention_mask\":[1,0]}", NULL, NULL, 1, 2, 2, 2, 0, true, true, FORWARD_MASK_KEYS},
    {"{" MAPS ",\"attention_mask\":[[1,0],[1,1]]}", NULL, NULL, 1, 2, 2, 2, 0, true, true, FORWARD_MASK_PAIRS},
    {"{" MAPS ",\"attention_mask\":[1,0,1]}", "/attention_mask", "3 2", .heads = 0},
    {"{" MAPS ",\"attention_mask\":[[[1,0],[1,1]]]}", "/attention_mask", "", .heads = 0},
    {"{" MAPS ",\"include_heads\":[1,0]}", NULL, NULL, 1, 2, 2, 2, 0, true, true, FORWARD_MASK_NONE},
    {"{" MAPS ",\"include_heads\":[2]}", "/include_heads/0", "2 1", .heads = 0},
    {"{" MAPS ",\"include_heads\":[1,1]}", "/include_heads/1", "1 twice", .heads = 0},
    {"{\"attention\":[[[[[1,0],[0,1]]],[[[0,1],[1,0]]],[[[1,0],[1,0]]]]]}", NULL, NULL, 1, 1, 2, 2, 3, false, true,
     FORWARD_MASK_NONE},
    {"{\"attention\":[[[[[1]]]],[[[[1]]]]],\"attention_mask\":[[1],[0]]}", NULL, NULL, 2, 1, 1, 1, 1, false, true,
     FORWARD_MASK_KEYS},
    {"{\"attention\":[[[[[1,0]]]]]}", "/attention", "1 2 queries keys", .heads = 0},
    {"{\"attention\":[[[[[1,0],[0,1]]],[[[0,1],[1,0]]],[[[1,0],[1,0]]]]],\"include_layers\":[2,0]}", NULL, NULL, 1, 1,
     2, 2, 2, false, true, FORWARD_MASK_NONE},
    {"{\"attention\":[[[[[1,0],[0,1]]],[[[0,1],[1,0]]],[[[1,0],[1,0]]]]],\"include_layers\":[0,3]}",
     "/include_layers/1", "layer 3 2", .heads = 0},
    {"{\"attention\":[[[[[1,0],[0,1]]],[[[0,1],[1,0]]],[[[1,0],[1,0]]]]],\"include_layers\":[1,0,1]}",
     "/include_layers/2", "layer 1 twice", .heads = 0},
    {"{" MAPS ",\"include_layers\":[0]}", NULL, NULL, 1, 2, 2, 2, 0, true, true, FORWARD_MASK_NONE},
    {"{" MAPS ",\"include_layers\":[1]}", "/include_layers/0", "layer 1 0", .heads = 0},
};

START_TEST(test_maps)
{
    struct stats_request q;
    struct forward_input rule = {0};
    struct error error;
    struct maps_extent extent = {0};
    const char *body = MAPS_CASES[_i].body;
    ck_assert_msg(decode(false, body, strlen(body), &q, NULL, &error), "%s", error.message);
    const bool right = analysis_request_check_maps(&q.analysis, &rule, &extent, &error);
    ck_assert_int_eq(right, !MAPS_CASES[_i].pointer);
    if (!right)
        expect_error(&error, ERROR_INVALID, MAPS_CASES[_i].pointer, MAPS_CASES[_i].words, body);
    ck_assert_uint_eq(extent.num_heads, MAPS_CASES[_i].heads);
    ck_assert_uint_eq(extent.num_layers, MAPS_CASES[_i].layers);
    ck_assert(rule.batch == MAPS_CASES[_i].batch && rule.query_length == MAPS_CASES[_i].rows &&
              rule.key_length == MAPS_CASES[_i].keys && rule.rank2 == MAPS_CASES[_i].rank2 &&
              rule.self_attention == MAPS_CASES[_i].self_attention && rule.mask_kind == MAPS_CASES[_i].mask);
}
END_TEST

START_TEST(test_tolerance)
{
    static const struct {
        const char *attention;
        double tolerance;
    } forms[] = {
        {"[[[1]]]", HEAD_MAPS_TOLERANCE},
        {"{\"shape\":[1,1,1],\"data\":[1]}", HEAD_MAPS_TOLERANCE},
        {"{\"shape\":[1,1,1],\"base64\":\"AACAPw==\"}", HEAD_MAPS_TOLERANCE},
        {"{\"shape\":[1,1,1],\"dtype\":\"f64\",\"base64\":\"AAAAAAAA8D8=\"}", HEAD_MAPS_TOLERANCE},
        {"{\"shape\":[1,1,1],\"dtype\":\"f16\",\"base64\":\"ADw=\"}", HEAD_MAPS_TOLERANCE_16_BIT},
        {"{\"shape\":[1,1,1],\"dtype\":\"bf16\",\"base64\":\"gD8=\"}", HEAD_MAPS_TOLERANCE_16_BIT},
        {"{\"shape\":[1,1,1],\"dtype\":\"bf16\",\"base64\":\"gD8=\"},\"renormalize\":true", 5e-2},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char body[128];
        struct stats_request q;
        struct error error;
        const int length = snprintf(body, sizeof body, "{\"attention\":%s}", forms[i].attention);
        ck_assert_msg(decode(false, body, (size_t)length, &q, NULL, &error), "%s", error.message);
        ck_assert(q.analysis.attention.data[0] == 1);
        ck_assert(analysis_request_tolerance(&q.analysis) == forms[i].tolerance);
    }
}
END_TEST

/* Labels for a sequence of two positions in one word, and of three keys behind which a query stands. */
START_TEST(test_tokens)
{
    static const struct {
        const char *members;
        bool self_attention, causal;
        const char *pointer, *words;
    } cases[] = {
        {"\"tokens\":[[\"a\",\"b\",\"c\"]]", true, false, NULL, NULL},
        {"\"tokens\":[[\"a\",\"b\"]]", true, false, "/tokens/0", "2 3"},
        {"\"tokens\":[[\"a\",\"b\",\"c\"],[]]", true, false, "/tokens", "2 1"},
        {"\"tokens\":[[\"a\"]],\"words\":[[[0,1,2]]]", true, false, NULL, NULL},
        {"\"tokens\":[[\"a\",\"b\",\"c\"]],\"words\":[[[0,1,2]]]", true, false, NULL, NULL},
        {"\"tokens\":[[\"a\",\"b\"]],\"words\":[[[0,1,2]]]", true, false, "/tokens/0", "2 3 1 word"},
        {"\"tokens\":[[\"a\",\"b\",\"c\"]]", false, true, NULL, NULL},
        {"\"tokens\":[[\"a\",\"b\",\"c\"]]", false, false, "/tokens", "self-attention"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct forward_input rule = {.batch = 1,
                                           .query_length = cases[i].self_attention ? 3 : 1,
                                           .key_length = 3,
                                           .self_attention = cases[i].self_attention,
                                           .causal = cases[i].causal};
        char body[128];
        struct links_request q;
        struct error error;
        const int length = snprintf(body, sizeof body, "{\"attention\":[[[1]]],%s}", cases[i].members);
        ck_assert_msg(decode(true, body, (size_t)length, NULL, &q, &error), "%s", error.message);
        ck_assert_int_eq(links_request_check_tokens(&q, &rule, &error), !cases[i].pointer);
        if (cases[i].pointer)
            expect_error(&error, ERROR_INVALID, cases[i].pointer, cases[i].words, body);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis_request");
    TCase *c = tcase_create("analysis_request");
    tcase_add_checked_fixture(c, NULL, free_memory);
    tcase_add_test(c, test_stats);
    tcase_add_test(c, test_links);
    tcase_add_test(c, test_defaults);
    tcase_add_test(c, test_most_memory);
    tcase_add_loop_test(c, test_wrong, 0, sizeof WRONG / sizeof *WRONG);
    tcase_add_test(c, test_truncated);
    tcase_add_loop_test(c, test_maps, 0, sizeof MAPS_CASES / sizeof *MAPS_CASES);
    tcase_add_test(c, test_tolerance);
    tcase_add_test(c, test_tokens);
    suite_add_tcase(s, c);
    return s;
}
