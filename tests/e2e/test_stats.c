/* POST /v1/heads/stats and /v1/heads/links from outside: what agrees with /v1/forward, what is refused, limits. */
#include "expect.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS      "/v1/heads/stats"
#define LINKS      "/v1/heads/links"
#define SIMILARITY "/v1/heads/similarity"
#define IMPORTANCE "/v1/heads/importance"

static json_t *post(const struct server_process *server, const char *path, const char *body)
{
    struct reply reply = http_post(server, path, body);
    ck_assert_msg(reply.failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply.failure));
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    json_t *document = reply_json(&reply);
    reply_free(&reply);
    return document;
}

static json_t *member(const json_t *document, const char *name)
{
    json_t *value = json_object_get(document, name);
    ck_assert_msg(value != NULL, "no member %s", name);
    return value;
}

/* input [batch,tokens,64] on demo with `more` ("'stderr':true") behind it. */
static char *body_with(size_t batch, size_t tokens, const char *more)
{
    const size_t count = batch * tokens * 64;
    float *input = malloc(count * sizeof *input);
    uint32_t state = 5;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        input[i] = (float)((int)(state >> 16) - 32768) / 16384.0F;
    }
    char *data = numbers_text(input, count), *members = strdup(more);
    for (char *c = members; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *body =
        quoted("{'input':{'shape':[%zu,%zu,64],'data':%s}%s%s}", batch, tokens, data, *members ? "," : "", members);
    free(members);
    free(data);
    free(input);
    return body;
}

/* The maps of that forward, posted with `more`. */
static char *maps_of(const struct server_process *server, const char *forward, const char *more)
{
    json_t *answer = post(server, FORWARD, forward);
    char *maps = json_dumps(member(answer, "attention"), JSON_REAL_PRECISION(9)), *members = strdup(more);
    for (char *c = members; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *body = quoted("{'attention':%s%s%s}", maps, *members ? "," : "", members);
    json_decref(answer);
    free(members);
    free(maps);
    return body;
}

static void expect_near(const json_t *got, const json_t *wanted, const char *name)
{
    size_t i;
    const char *key;
    json_t *value;
    if (json_is_object(wanted)) {
        json_object_foreach((json_t *)wanted, key, value) expect_near(member(got, key), value, key);
    } else if (json_is_array(wanted)) {
        ck_assert_uint_eq(json_array_size(got), json_array_size(wanted));
        json_array_foreach(wanted, i, value) expect_near(json_array_get(got, i), value, name);
    } else if (json_is_number(wanted)) {
        const double v = json_number_value(wanted);
        ck_assert_msg(json_is_number(got) && fabs(json_number_value(got) - v) <= 1e-6 + 1e-6 * fabs(v),
                      "%s: %g, not %g", name, json_number_value(got), v);
    } else {
        ck_assert_msg(json_equal(got, wanted), "%s", name);
    }
}

/* The maps of a forward have the statistics and links that the forward's input has, of a small body and of one that
 * workers decode. */
START_TEST(maps_agree_with_forwards)
{
    static const struct {
        size_t batch, tokens;
        const char *rule, *more;
    } cases[] = {
        {2, 5, "", ",'stderr':true,'per_position':true"},
        {2, 5, ",'attention_mask':[[1,1,1,0,0],[0,1,0,1,1]]", ",'per_position':true,'exclude':[[0],[1]]"},
        {2, 5, ",'causal':true", ",'include_heads':[3,0],'words':[[[0],[1,2],[3,4]],[[0,1],[2],[3],[4]]]"},
        {3, 60, ",'causal':true", ",'stderr':true"},
    };
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[256];
        snprintf(more, sizeof more, "%s%s", cases[i].rule + !!*cases[i].rule, cases[i].more + !*cases[i].rule);
        char *forward = body_with(cases[i].batch, cases[i].tokens, cases[i].rule + !!*cases[i].rule);
        char *input = body_with(cases[i].batch, cases[i].tokens, more), *maps = maps_of(server, forward, more);
        json_t *direct = post(server, STATS, input), *posted = post(server, STATS, maps);
        ck_assert_str_eq(json_string_value(member(direct, "weights")), "demo");
        ck_assert_ptr_null(json_object_get(posted, "weights"));
        json_object_del(direct, "weights");
        json_object_del(direct, "digest");
        expect_near(posted, direct, "statistics");
        ck_assert_int_eq(json_integer_value(member(posted, "n_rows")) +
                             json_integer_value(member(posted, "n_excluded")),
                         i == 2 ? 7 : (json_int_t)(cases[i].batch * cases[i].tokens));
        json_decref(posted);
        json_decref(direct);
        free(maps);
        free(input);
        input = body_with(cases[i].batch, cases[i].tokens, cases[i].rule + !!*cases[i].rule);
        maps = maps_of(server, forward, cases[i].rule + !!*cases[i].rule);
        direct = post(server, LINKS, input);
        posted = post(server, LINKS, maps);
        expect_near(member(posted, "heads"), member(direct, "heads"), "links");
        ck_assert_uint_eq(json_array_size(member(json_array_get(member(posted, "heads"), 7), "links")), 5);
        json_decref(posted);
        json_decref(direct);
        free(maps);
        free(input);
        free(forward);
    }
    server_process_stop(server);
}
END_TEST

/* With " for every '. */
static struct reply post_quoted(const struct server_process *server, const char *path, const char *text)
{
    char *body = strdup(text);
    for (char *c = body; *c; c++)
        if (*c == '\'')
            *c = '"';
    struct reply reply = http_post(server, path, body);
    free(body);
    return reply;
}

/* Unusual, but right: a causal map that is not said to be one, one head, one token, no row left. What is undefined is
 * null. */
START_TEST(unusual)
{
    static const struct {
        const char *body;
        int rows;
        const char *nulls; /* statistics, with spaces; of the others none is */
    } cases[] = {
        {"{'attention':[[[1,0,0],[0.5,0.5,0],[0.25,0.25,0.5]]]}", 3, ""},
        {"{'attention':[[[1]]]}", 1,
         " normalized_entropy hoyer previous_mass next_mass uniform_previous_mass uniform_next_mass "},
        {"{'attention':[[[0.5,0.5],[0.5,0.5]]],'exclude':[0,1]}", 0, NULL},
        {"{'attention':[[[0,0],[0,0]]]}", 0, NULL},
    };
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply = post_quoted(server, STATS, cases[i].body);
        ck_assert_msg(reply.status == 200, "%s: status %ld", cases[i].body, reply.status);
        json_t *answer = reply_json(&reply), *value;
        json_t *head = json_array_get(member(answer, "heads"), 0);
        const char *name;
        ck_assert_int_eq(json_integer_value(member(answer, "n_rows")), cases[i].rows);
        ck_assert_uint_eq(json_array_size(member(answer, "heads")), 1);
        json_object_foreach(head, name, value)
        {
            char spaced[64];
            snprintf(spaced, sizeof spaced, " %s ", name);
            const bool count = strcmp(name, "head") == 0 || strcmp(name, "n_rows") == 0;
            const bool undefined = !count && (!cases[i].nulls || strstr(cases[i].nulls, spaced));
            ck_assert_msg(json_is_null(value) == undefined, "%s: %s", cases[i].body, name);
        }
        ck_assert_uint_ge(json_object_size(head), 23);
        json_decref(answer);
        reply_free(&reply);

        reply = post_quoted(server, LINKS, cases[i].body);
        ck_assert_msg(reply.status == 200, "%s: status %ld", cases[i].body, reply.status);
        answer = reply_json(&reply);
        const json_t *links = member(json_array_get(member(answer, "heads"), 0), "links");
        ck_assert((json_array_size(links) > 0) == (cases[i].rows > 0));
        json_decref(answer);
        reply_free(&reply);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *path, *body;
        long status;
        const char *pointer, *word;
    } cases[] = {
        {STATS, "{'attention':[[[0.5,0.25]]]}", 422, "/attention/0/0", "0.75"},
        {STATS, "{'attention':[[[[0.5,0.5]]],[[[2,-1]]]]}", 422, "/attention/1/0/0", "-1"},
        {STATS, "{'attention':[[[0.5,0.5],[0.5,0.5]]],'causal':true}", 422, "/attention/0/0", "causal"},
        {STATS, "{'attention':[[[1,0],[0,1]]],'exclude':[2]}", 422, "/exclude/0", "2"},
        {STATS, "{'attention':[[[1,0],[0,1]]],'words':[[[1],[0]]]}", 422, "/words/0", "0"},
        {STATS, "{'attention':[[[1,0],[0,1]]],'words':[[[0,1]]],'exclude':[1]}", 422, "/exclude/0", "word"},
        {STATS, "{'attention':[[[1,0],[0,1]]],'method':'zero'}", 422, "/method", "method"},
        {STATS, "{'input':[[1,2]]}", 422, "/input", "64"},
        {STATS, "{'attention':[[[NaN]]]}", 400, NULL, NULL},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'tokens':[['a']]}", 422, "/tokens/0", "2"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'per_position':true}", 422, "/per_position", "per_position"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'tokens':[['a','b'],['a','b']]}", 422, "/tokens", "2"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'tokens':[['a','b','c']]}", 422, "/tokens/0", "3"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'words':[[[0,1]]],'tokens':[['a','b','c']]}", 422, "/tokens/0", "3"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'min_weight':1.5}", 422, "/min_weight", "1.5"},
        {LINKS, "{'attention':[[[1,0],[0,1]]],'top_k':0}", 422, "/top_k", "0"},
        {SIMILARITY, "{'attention':[[[1,0],[0,1]]],'metric':'pearsn'}", 422, "/metric", "\"pearson\"?"},
        {SIMILARITY, "{'attention':[[[1,0],[0,1]]],'threshold':-1.5}", 422, "/threshold", "-1.5"},
        {IMPORTANCE, "{'input':[[1]],'method':'unifrom'}", 422, "/method", "\"uniform\"?"},
        {IMPORTANCE, "{'input':[[1]],'metod':'zero'}", 422, "/metod", "\"method\"?"},
        {IMPORTANCE, "{'input':[[1]],'prune_plan':true,'tolerance':-1}", 422, "/tolerance", "-1"},
    };
    /* The same of all that analyse maps. */
    static const struct {
        const char *body, *pointer, *word;
    } of_maps[] = {
        {"{'attention':[[[[0.5,0.5]],[[0.5,0.5]]],[[[0.5,0.5]],[[0.5,0.25]]]]}", "/attention/1/1/0",
         "batch 1, head 1, row 0 sums to 0.75"},
        {"{'attention':[[[0.5,0.46],[1,0]]]}", "/attention/0/0", "renormalize"},
        {"{'attention':[[[0.5,0.4],[1,0]]],'renormalize':true}", "/attention/0/0", "0.9"},
        {"{'attention':[[[1.5,-0.5],[1,0]]]}", "/attention/0/0", "-0.5"},
        {"{'attention':{'shape':[1,1,2],'base64':'AADAfwAAgD8='}}", "/attention", "index 0"}, /* a NaN */
        {"{'attention':[[[1,0],[0.5,0.5]],[[0.5,0.5],[0.5,0.5]]],'causal':true}", "/attention/1/0", "causal"},
        {"{'attention':[[[1,0],[0,1]]],'words':[[[0,1],[1]]]}", "/words/0", "1"},
        {"{'attention':[[[1,0],[0,1]]],'words':[[[0]]]}", "/words/0", "1"},
        {"{'attention':[[[1,0],[0,1]]],'words':[[[0],[1]],[[0],[1]]]}", "/words", "2"},
        {"{'attention':[[[1,0],[0,1]]],'exclude':[2]}", "/exclude/0", "2"},
        {"{'attention':[[[1,0],[0,1]]],'exclude':[-1]}", "/exclude/0", "-1"},
        {"{'attention':[[[1,0],[0,1]]],'exclude':[[0],[1]]}", "/exclude", "2"},
        {"{'attention':[[[1,0],[0,1]]],'exlude':[0]}", "/exlude", "\"exclude\"?"},
        {"{'attention':[[[1,0],[0,1]]],'attention_mask':[1]}", "/attention_mask", "1"},
    };
    static const char *const paths[] = {STATS, LINKS, SIMILARITY};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply = post_quoted(server, cases[i].path, cases[i].body);
        expect_problem(&reply, cases[i].status, cases[i].pointer, cases[i].word, cases[i].body);
        reply_free(&reply);
    }
    for (size_t i = 0; i < sizeof of_maps / sizeof *of_maps; i++)
        for (size_t path = 0; path < 3; path++) {
            struct reply reply = post_quoted(server, paths[path], of_maps[i].body);
            expect_problem(&reply, 422, of_maps[i].pointer, of_maps[i].word, of_maps[i].body);
            reply_free(&reply);
        }
    struct reply reply = http_get(server, LINKS);
    expect_problem(&reply, 405, NULL, NULL, "GET");
    reply_free(&reply);
    server_process_stop(server);
}
END_TEST

/* The work of measuring counts, and the memory that it takes comes back. */
START_TEST(limits)
{
    struct server_process *server =
        server_process_start(&(struct server_options){.members = "'limits':{'max_request_gflop':0.0025}"});
    char *body = body_with(1, 40, "");
    json_decref(post(server, FORWARD, body));
    struct reply reply = http_post(server, STATS, body);
    expect_problem(&reply, 413, NULL, "max_request_gflop", "measuring is more work");
    reply_free(&reply);
    free(body);
    server_process_stop(server);

    server = server_process_start(
        &(struct server_options){.members = "'limits':{'memory_budget_bytes':3000000,'max_response_bytes':20000}"});
    body = body_with(1, 40, "'include_heads':[1]");
    for (int i = 0; i < 50; i++)
        json_decref(post(server, STATS, body));
    free(body);
    body = body_with(1, 40, "'top_k':3");
    for (int i = 0; i < 50; i++)
        json_decref(post(server, LINKS, body));
    free(body);
    body = body_with(1, 40, "'per_position':true");
    reply = http_post(server, STATS, body);
    expect_problem(&reply, 413, NULL, "max_response_bytes", "a longer answer");
    reply_free(&reply);
    free(body);
    body = body_with(1, 40, "'top_k':1000000000000");
    reply = http_post(server, LINKS, body);
    expect_problem(&reply, 413, NULL, "max_response_bytes", "more links");
    reply_free(&reply);
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/stats");
    TCase *c = tcase_create("stats");
    tcase_add_test(c, maps_agree_with_forwards);
    tcase_add_test(c, unusual);
    tcase_add_test(c, refused);
    tcase_add_test(c, limits);
    suite_add_tcase(s, c);
    return s;
}
