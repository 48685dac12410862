/* POST /v1/heads/importance from outside: the golden numbers, what agrees with /v1/forward, and what is refused. */
#include "expect.h"
#include "suite.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* "heads" or "prune_plan" as an array of its numbers. */
static json_t *column(const json_t *document, const char *list, const char *name)
{
    size_t i;
    json_t *entry, *numbers = json_array();
    json_array_foreach(member(document, list), i, entry) json_array_append(numbers, member(entry, name));
    return numbers;
}

static void expect_column(const json_t *got, const char *list, const char *name, json_t *wanted)
{
    json_t *numbers = column(got, list, name);
    expect_close(numbers, wanted, false, name);
    json_decref(numbers);
}

/* input [2,5,64] on demo with `more` ("'method':'mean'") behind it. */
static char *body_with(const char *more)
{
    float input[2 * 5 * 64];
    uint32_t state = 5;
    for (size_t i = 0; i < sizeof input / sizeof *input; i++) {
        state = state * 1664525U + 1013904223U;
        input[i] = (float)((int)(state >> 16) - 32768) / 16384.0F;
    }
    char *data = numbers_text(input, sizeof input / sizeof *input), *members = strdup(more);
    for (char *c = members; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *body = quoted("{'input':{'shape':[2,5,64],'data':%s}%s%s}", data, *members ? "," : "", members);
    free(members);
    free(data);
    return body;
}

static json_t *post_with(const struct server_process *server, const char *path, const char *more)
{
    char *body = body_with(more);
    json_t *document = post(server, path, body);
    free(body);
    return document;
}

START_TEST(golden_cases)
{
    struct server_process *server = server_process_start(NULL);
    char folder[512], name[640];
    size_t cases = 0;
    snprintf(folder, sizeof folder, "%s/importance", getenv("ATTND_GOLDEN"));
    DIR *directory = opendir(folder);
    ck_assert_ptr_nonnull(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        snprintf(name, sizeof name, "../importance/%s", entry->d_name);
        json_t *golden = golden_case(name), *wanted = member(golden, "expect");
        char *body = golden_request(golden);
        json_t *got = post(server, IMPORTANCE, body);
        expect_column(got, "heads", "importance", member(wanted, "importance"));
        ck_assert_str_eq(json_string_value(member(got, "method")),
                         json_string_value(member(member(golden, "request"), "method")));
        if (json_object_get(wanted, "prune_plan")) {
            json_t *changes = column(wanted, "prune_plan", "change"), *heads = column(wanted, "prune_plan", "head");
            expect_column(got, "prune_plan", "change", changes);
            expect_column(got, "prune_plan", "head", heads);
            ck_assert(json_equal(member(got, "removable"), member(wanted, "removable")));
            json_decref(changes);
            json_decref(heads);
        }
        json_decref(got);
        free(body);
        json_decref(golden);
        cases++;
    }
    closedir(directory);
    ck_assert_uint_ge(cases, 13);
    server_process_stop(server);
}
END_TEST

/* ||a - b|| / ||a|| of the outputs of two forwards. */
static double distance(const json_t *a, const json_t *b)
{
    size_t n, other;
    double *x = flat_numbers(member(a, "output"), &n), *y = flat_numbers(member(b, "output"), &other), change = 0,
           size = 0;
    ck_assert_uint_eq(n, other);
    for (size_t i = 0; i < n; i++) {
        change += (x[i] - y[i]) * (x[i] - y[i]);
        size += x[i] * x[i];
    }
    free(x);
    free(y);
    return sqrt(change / size);
}

/* Each change of a plan is that of a forward whose head_mask leaves those heads out. */
START_TEST(plan_agrees_with_forwards)
{
    struct server_process *server = server_process_start(NULL);
    json_t *got = post_with(server, IMPORTANCE, "'causal':true,'id':'x','prune_plan':true,'tolerance':0.5"),
           *whole = post_with(server, FORWARD, "'causal':true,'return':['output']");
    int mask[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    ck_assert_str_eq(json_string_value(member(got, "id")), "x");
    ck_assert_str_eq(json_string_value(member(got, "weights")), "demo");
    ck_assert(json_equal(member(got, "digest"), member(whole, "digest")));
    ck_assert_int_eq(json_integer_value(member(got, "n_rows")), 10);
    ck_assert_int_eq(json_integer_value(member(got, "n_excluded")), 0);
    ck_assert_uint_eq(json_array_size(member(got, "prune_plan")), 8);
    size_t removable = 0;
    for (size_t step = 0; step < 8; step++) {
        const json_t *one = json_array_get(member(got, "prune_plan"), step);
        char more[128];
        mask[json_integer_value(member(one, "head"))] = 0;
        snprintf(more, sizeof more, "'causal':true,'return':['output'],'head_mask':[%d,%d,%d,%d,%d,%d,%d,%d]", mask[0],
                 mask[1], mask[2], mask[3], mask[4], mask[5], mask[6], mask[7]);
        json_t *without = post_with(server, FORWARD, more);
        const double change = json_number_value(member(one, "change"));
        ck_assert_double_eq_tol(change, distance(whole, without), 1e-5);
        removable = change <= 0.5 ? step + 1 : removable;
        json_decref(without);
    }
    ck_assert_uint_eq(json_array_size(member(got, "removable")), removable);
    json_decref(whole);
    json_decref(got);
    server_process_stop(server);
}
END_TEST

START_TEST(padding_and_nulls)
{
    struct server_process *server = server_process_start(NULL);
    json_t *got = post_with(server, IMPORTANCE, "'attention_mask':[[1,1,1,0,0],[0,1,0,1,1]],'method':'norm'");
    ck_assert_int_eq(json_integer_value(member(got, "n_rows")), 6);
    ck_assert_int_eq(json_integer_value(member(got, "n_excluded")), 4);
    ck_assert_ptr_null(json_object_get(got, "prune_plan"));
    json_decref(got);
    got = post_with(server, IMPORTANCE, "'head_mask':[0,0,0,0,0,0,0,0],'prune_plan':true,'tolerance':1");
    for (size_t head = 0; head < 8; head++) {
        ck_assert(json_is_null(member(json_array_get(member(got, "heads"), head), "importance")));
        ck_assert(json_is_null(member(json_array_get(member(got, "prune_plan"), head), "change")));
    }
    ck_assert_uint_eq(json_array_size(member(got, "removable")), 0);
    json_decref(got);
    server_process_stop(server);
}
END_TEST

START_TEST(refused)
{
    static const struct {
        const char *more;
        long status;
        const char *pointer, *word;
    } cases[] = {
        {"'method':'zeros'", 422, "/method", "zero"},
        {"'method':'mean','prune_plan':true", 422, "/prune_plan", "zero"},
        {"'tolerance':0.1", 422, "/tolerance", "prune_plan"},
        {"'attention':[[[1]]]", 422, "/attention", "input"},
        {"'decimals':3", 422, "/decimals", "decimals"},
        {"'head_mask':[1]", 422, "/head_mask", "8"},
        {"'weights':'dmeo'", 404, NULL, "demo"},
    };
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = body_with(cases[i].more);
        struct reply reply = http_post(server, IMPORTANCE, body);
        expect_problem(&reply, cases[i].status, cases[i].pointer, cases[i].word, cases[i].more);
        reply_free(&reply);
        free(body);
    }
    /* 3.4e38 squared on its way through the projections. */
    struct reply reply = http_post(server, IMPORTANCE,
                                   "{\"weights\":\"demo\",\"input\":{\"shape\":[1,64],\"data\":["
                                   "3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,"
                                   "3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,"
                                   "3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,"
                                   "3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,"
                                   "3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38,3e38]}}");
    expect_problem(&reply, 422, NULL, "finite", "beyond float32");
    reply_free(&reply);
    reply = http_get(server, IMPORTANCE);
    expect_problem(&reply, 405, NULL, NULL, "GET");
    reply_free(&reply);
    server_process_stop(server);
}
END_TEST

/* The work of the ablations counts too, and the memory that they take comes back. */
START_TEST(limits)
{
    struct server_process *server = server_process_start(
        &(struct server_options){.members = "'limits':{'max_request_gflop':0.0004,'memory_budget_bytes':2000000}"});
    char *body = body_with("");
    json_decref(post(server, FORWARD, body));
    struct reply reply = http_post(server, IMPORTANCE, body);
    expect_problem(&reply, 413, NULL, "max_request_gflop", "importance is more work");
    reply_free(&reply);
    server_process_stop(server);

    server = server_process_start(
        &(struct server_options){.members = "'limits':{'memory_budget_bytes':1000000,'max_response_bytes':1500}"});
    for (int i = 0; i < 50; i++)
        json_decref(post(server, IMPORTANCE, body));
    free(body);
    body = body_with("'prune_plan':true");
    reply = http_post(server, IMPORTANCE, body);
    expect_problem(&reply, 413, NULL, "max_response_bytes", "a longer answer");
    reply_free(&reply);
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/importance");
    TCase *c = tcase_create("importance");
    tcase_add_test(c, golden_cases);
    tcase_add_test(c, plan_agrees_with_forwards);
    tcase_add_test(c, padding_and_nulls);
    tcase_add_test(c, refused);
    tcase_add_test(c, limits);
    suite_add_tcase(s, c);
    return s;
}
