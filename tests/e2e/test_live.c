/* Statistics over traffic from outside: the golden traffic in any order, on any number of workers and servers, equals
 * the reference; tags, windows, drift, state and merge; who may do what; what is refused. */
#include "expect.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS      "/v1/heads/stats"
#define SIMILARITY "/v1/heads/similarity"
#define STATE      "/v1/heads/state"
#define MERGE      "/v1/heads/merge"

enum { REQUESTS = 4 };

struct traffic {
    json_t *document;
    const json_t *expect;
    char *bodies[REQUESTS];
};

static struct traffic traffic_open(void)
{
    const char *folder = getenv("ATTND_GOLDEN");
    char path[4096];
    struct traffic t = {0};
    snprintf(path, sizeof path, "%s/live/traffic.json", folder ? folder : "");
    t.document = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(t.document);
    t.expect = json_object_get(t.document, "expect");
    const json_t *requests = json_object_get(json_object_get(t.document, "request"), "requests");
    for (size_t i = 0; i < REQUESTS; i++)
        t.bodies[i] = json_dumps(json_array_get(requests, i), JSON_COMPACT);
    return t;
}

static void traffic_close(struct traffic *t)
{
    for (size_t i = 0; i < REQUESTS; i++)
        free(t->bodies[i]);
    json_decref(t->document);
}

static void forward(const struct server_process *server, const char *body)
{
    struct reply reply = http_post(server, FORWARD, body);
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    reply_free(&reply);
}

static json_t *get(const struct server_process *server, const char *path)
{
    struct reply reply = http_get(server, path);
    ck_assert_msg(reply.status == 200, "%s: status %ld: %.300s", path, reply.status, reply.body);
    json_t *document = reply_json(&reply);
    reply_free(&reply);
    return document;
}

static json_t *post(const struct server_process *server, const char *path, const char *body)
{
    struct reply reply = http_post(server, path, body);
    ck_assert_msg(reply.status == 200, "%s: status %ld: %.300s", path, reply.status, reply.body);
    json_t *document = reply_json(&reply);
    reply_free(&reply);
    return document;
}

static double number(const json_t *document, const char *name)
{
    const json_t *value = json_object_get(document, name);
    ck_assert_msg(json_is_number(value), "no number %s", name);
    return json_number_value(value);
}

/* Every head's every expected statistic. */
static void expect_statistics(const json_t *heads, const json_t *wanted)
{
    size_t head;
    json_t *expected, *value;
    const char *name;
    ck_assert_uint_eq(json_array_size(heads), json_array_size(wanted));
    json_array_foreach(wanted, head, expected) json_object_foreach(expected, name, value)
    {
        const json_t *got = json_object_get(json_array_get(heads, head), name);
        ck_assert_msg(json_is_number(got), "head %zu has no %s", head, name);
        const double a = json_number_value(got), b = json_number_value(value);
        ck_assert_msg(fabs(a - b) <= 2e-6 * (1 + fabs(b)), "head %zu: %s is %.9g, expected %.9g", head, name, a, b);
    }
}

static void expect_answers(const struct server_process *server, const struct traffic *t)
{
    static const char *const metrics[] = {"cosine", "pearson", "centered"};
    char path[128];
    json_t *stats = get(server, STATS);
    ck_assert(number(stats, "n_rows") == 28 && number(stats, "n_sequences") == 7 && number(stats, "n_excluded") == 3);
    expect_statistics(json_object_get(stats, "heads"), json_object_get(t->expect, "heads"));
    json_decref(stats);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, SIMILARITY "?weights=demo&metric=%s", metrics[i]);
        json_t *similarity = get(server, path);
        expect_close(json_object_get(similarity, "similarity"), json_object_get(t->expect, metrics[i]), false,
                     metrics[i]);
        json_decref(similarity);
    }
}

/* All orders begin with another request; several at once on some workers. */
START_TEST(traffic_in_any_order_equals_the_reference)
{
    static const char *const workers[] = {"'workers':1,'drain_delay_s':0", "'workers':3,'drain_delay_s':0"};
    const struct server_options options = {.server_members = workers[_i % 2]};
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(&options);
    if (_i < 4) {
        for (size_t i = 0; i < REQUESTS; i++)
            forward(server, t.bodies[((size_t)_i + i * 3) % REQUESTS]);
    } else {
        struct http_call calls[REQUESTS] = {{0}};
        for (size_t i = 0; i < REQUESTS; i++)
            calls[i] = (struct http_call){
                .method = "POST", .path = FORWARD, .body = t.bodies[i], .length = strlen(t.bodies[i])};
        http_perform_all(server, calls, REQUESTS);
        for (size_t i = 0; i < REQUESTS; i++) {
            ck_assert_int_eq(calls[i].reply.status, 200);
            reply_free(&calls[i].reply);
        }
    }
    expect_answers(server, &t);
    server_process_stop(server);
    traffic_close(&t);
}
END_TEST

/* What is merged of two servers is what one of them would have said. */
START_TEST(merged_states_are_one_servers)
{
    struct traffic t = traffic_open();
    struct server_process *first = server_process_start(NULL), *second = server_process_start(NULL);
    for (size_t i = 0; i < REQUESTS; i++)
        forward(i % 2 ? first : second, t.bodies[i]);
    struct reply a = http_get(first, STATE), b = http_get(second, STATE);
    char *body = quoted("{'states':[%s,%s],'metric':'pearson'}", a.body, b.body);
    json_t *merged = post(first, MERGE, body);
    expect_statistics(json_object_get(json_object_get(merged, "stats"), "heads"), json_object_get(t.expect, "heads"));
    expect_close(json_object_get(json_object_get(merged, "similarity"), "similarity"),
                 json_object_get(t.expect, "pearson"), false, "pearson");
    ck_assert(number(merged, "documents") == 2 && number(merged, "duplicates") == 0);
    free(body);

    /* The sum is a document too, and one given twice is told. */
    char *sum = json_dumps(json_object_get(merged, "state"), JSON_COMPACT);
    body = quoted("{'states':[%s,%s,%s]}", sum, a.body, a.body);
    json_t *again = post(second, MERGE, body);
    ck_assert(number(again, "duplicates") == 1);
    json_t *state = reply_json(&a);
    ck_assert(number(json_object_get(again, "stats"), "n_rows") == 28 + 2 * number(state, "n_rows"));
    json_decref(state);
    json_decref(again);
    json_decref(merged);
    free(sum);
    free(body);
    reply_free(&a);
    reply_free(&b);
    server_process_stop(first);
    server_process_stop(second);
    traffic_close(&t);
}
END_TEST

/* The detail says what was found there, `got`. */
static void expect_refused_merge(const struct server_process *server, const json_t *state, const char *name,
                                 json_t *value, const char *pointer, const char *got)
{
    json_t *other = json_deep_copy(state);
    json_object_set_new(other, name, value);
    json_t *document = json_pack("{s:[O,o]}", "states", state, other);
    char *body = json_dumps(document, JSON_COMPACT);
    struct reply reply = http_post(server, MERGE, body);
    expect_problem(&reply, 422, pointer, got, name);
    reply_free(&reply);
    free(body);
    json_decref(document);
}

START_TEST(states_that_cannot_be_are_refused)
{
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < REQUESTS; i++)
        forward(server, t.bodies[i]);
    json_t *state = get(server, STATE);
    expect_refused_merge(server, state, "format", json_string("attnd-heads-state/2"), "/states/1/format",
                         "got \"attnd-heads-state/2\"");
    expect_refused_merge(server, state, "digest", json_string("other"), "/states/1/digest", "got \"other\"");
    expect_refused_merge(server, state, "num_heads", json_integer(4), "/states/1/num_heads",
                         "expected 8 as in document 0");
    expect_refused_merge(server, state, "num_heads", json_integer(-8), "/states/1/num_heads", "got -8");
    expect_refused_merge(server, state, "n_rows", json_integer(-1), "/states/1/n_rows", "got -1");
    expect_refused_merge(server, state, "n_rows", json_real(2.5), "/states/1/n_rows", "got 2.5");
    expect_refused_merge(server, state, "products", json_array(), "/states/1/products", "a list of 36 numbers");
    expect_refused_merge(server, state, "statistics", json_object(), "/states/1/statistics/entropy", "missing");
    json_t *statistics = json_deep_copy(json_object_get(state, "statistics"));
    json_array_set_new(json_object_get(json_object_get(statistics, "distance"), "zz"), 3, json_null());
    expect_refused_merge(server, state, "statistics", statistics, "/states/1/statistics/distance/zz/3", "got null");
    expect_refused_merge(server, state, "since", json_string("today"), "/states/1/since", "got \"today\"");
    expect_refused_merge(server, state, "since", json_integer(0), "/states/1/since", "got 0");
    json_t *products = json_deep_copy(json_object_get(state, "products"));
    json_array_set_new(products, 1, json_real(1e6)); /* of heads 1 and 0 */
    expect_refused_merge(server, state, "products", products, "/states/1/products", "heads 0 and 1 is 1e+06");

    static const struct {
        const char *body;
        long status;
        const char *pointer, *word;
    } wrong[] = {{"{", 400, NULL, NULL},
                 {"[]", 422, "", NULL},
                 {"{}", 422, "/states", "missing"},
                 {"{\"states\":[]}", 422, "/states", "got a list of 0"},
                 {"{\"states\":[1]}", 422, "/states/0", "got 1"},
                 {"{\"states\":[{}],\"metrics\":1}", 422, "/metrics", "did you mean \"metric\"?"},
                 {"{\"states\":[{}],\"metric\":\"js\"}", 422, "/metric", "got \"js\""},
                 {"{\"states\":[{}],\"metric\":\"centred\"}", 422, "/metric", "did you mean \"centered\"?"},
                 {"{\"states\":[{}],\"threshold\":2}", 422, "/threshold", "got 2"},
                 {"{\"states\":[{}],\"states\":[]}", 400, NULL, NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct reply reply = http_post(server, MERGE, wrong[i].body);
        expect_problem(&reply, wrong[i].status, wrong[i].pointer, wrong[i].word, wrong[i].body);
        reply_free(&reply);
    }
    json_decref(state);
    server_process_stop(server);
    traffic_close(&t);
}
END_TEST

static struct reply get_with(const struct server_process *server, const char *path, const char *header)
{
    const char *const headers[] = {header, NULL};
    return http_send(server, (struct http_call){.method = "GET", .path = path, .headers = headers});
}

/* The tag of an answer, which must have this status. */
static void tag_of(const struct server_process *server, const char *path, const char *header, long status, char tag[64])
{
    struct reply reply = get_with(server, path, header);
    ck_assert_msg(reply.status == status, "%s, %s: status %ld", path, header, reply.status);
    ck_assert_msg(reply_header(&reply, "ETag", tag, 64), "%s has no ETag", path);
    ck_assert(status != 304 || reply.length == 0);
    reply_free(&reply);
}

START_TEST(tags_tell_whether_anything_is_new)
{
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(NULL);
    char before[64], after[64], other[64], packed[64], header[128];
    forward(server, t.bodies[0]);
    tag_of(server, SIMILARITY, "X-Nothing: 1", 200, before);
    snprintf(header, sizeof header, "If-None-Match: \"a\", %s", before);
    tag_of(server, SIMILARITY, header, 304, other);
    ck_assert_str_eq(before, other);
    tag_of(server, SIMILARITY "?metric=pearson", header, 200, other);
    ck_assert_str_ne(before, other);
    forward(server, t.bodies[1]);
    tag_of(server, SIMILARITY, header, 200, after);
    ck_assert_str_ne(before, after);
    tag_of(server, STATE, "Accept-Encoding: gzip", 200, packed);
    ck_assert_ptr_nonnull(strstr(packed, "-gzip\""));
    snprintf(header, sizeof header, "If-None-Match: %s", packed);
    tag_of(server, STATE, header, 200, other); /* now it is not to be compressed */
    tag_of(server, STATE, "If-None-Match: *", 304, other);
    server_process_stop(server);
    traffic_close(&t);
}
END_TEST

/* Slices of a tenth of a second: traffic leaves the window, and drift compares both sides. */
START_TEST(what_leaves_the_window_is_the_baseline)
{
    const struct server_options options = {.members = "'live':{'window_s':1}"};
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(&options);
    json_t *drift;
    for (size_t i = 0; i < REQUESTS; i++)
        forward(server, t.bodies[i]);
    const double end = seconds_now() + PATIENCE_SECONDS;
    for (;;) {
        drift = get(server, "/v1/heads/drift?min_sequences=0");
        const double before = number(json_object_get(drift, "baseline"), "n_rows"),
                     within = number(json_object_get(drift, "window"), "n_rows");
        ck_assert(before + within == 28);
        if (within == 0 || seconds_now() > end)
            break;
        json_decref(drift);
        sleep_ms(50);
    }
    ck_assert(number(json_object_get(drift, "baseline"), "n_sequences") == 7);
    ck_assert_uint_eq(json_array_size(json_object_get(drift, "heads")), 8 * 11);
    const json_t *first = json_array_get(json_object_get(drift, "heads"), 0);
    ck_assert(json_is_null(json_object_get(first, "window")) && json_is_null(json_object_get(first, "z")));
    const json_t *wanted = json_array_get(json_object_get(t.expect, "heads"), 0);
    ck_assert(fabs(number(first, "baseline") - number(wanted, "entropy")) < 1e-5);
    json_decref(drift);
    expect_answers(server, &t); /* since the start, all of it counts */
    server_process_stop(server);
    traffic_close(&t);
}
END_TEST

START_TEST(other_rules_and_failures_do_not_count)
{
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(NULL);
    char *small = small_request();
    static const char *const more[] = {"\"causal\":true", "\"head_mask\":[1,1,1,1,0,1,1,1]"};
    for (size_t i = 0; i < 2; i++) {
        char *body;
        ck_assert(asprintf(&body, "%.*s,%s}", (int)strlen(small) - 1, small, more[i]) > 0);
        forward(server, body);
        free(body);
    }
    struct reply reply = http_post(server, FORWARD, "{\"input\":[[[1e38,1e38]]]}");
    ck_assert_int_eq(reply.status, 422);
    reply_free(&reply);
    json_t *stats = get(server, STATS);
    ck_assert(number(stats, "n_rows") == 0 && number(stats, "n_sequences") == 0 && number(stats, "n_skipped") == 2);
    ck_assert(json_is_null(json_object_get(json_array_get(json_object_get(stats, "heads"), 0), "entropy")));
    json_decref(stats);
    free(small);
    server_process_stop(server);
    traffic_close(&t);
}
END_TEST

START_TEST(wrong_parameters_are_named)
{
    static const struct {
        const char *path;
        long status;
        const char *word;
    } wrong[] = {{STATS "?weights=dmeo", 404, "demo"},
                 {STATS "?weight=demo", 422, "weights"},
                 {STATS "?metric=cosine", 422, "metric"},
                 {STATS "?format=table", 422, "format"},
                 {STATS "?format=rows&format=rows", 422, "twice"},
                 {STATS "?window=7s", 422, "window"},
                 {STATS "?window=10m", 422, "window"},
                 {STATS "?window=0", 422, "window"},
                 {STATS "?window=", 422, "window"},
                 {STATS "?include_heads=8", 422, "include_heads"},
                 {STATS "?include_heads=0,0", 422, "twice"},
                 {STATS "?include_heads=0,,1", 422, "include_heads"},
                 {STATS "?statistics=entrpy", 422, "entropy"},
                 {STATS "?statistics=gini", 422, "POST /v1/heads/stats"},
                 {STATS "?statistics=", 422, "there are entropy, "},
                 {STATS "?tokens=1", 422, "there are weights, "},
                 {SIMILARITY "?metric=cosin", 422, "did you mean \"cosine\"?"},
                 {STATS "?weights=%zz", 422, "weights"},
                 {SIMILARITY "?metric=js", 422, "metric"},
                 {SIMILARITY "?threshold=1.5", 422, "threshold"},
                 {SIMILARITY "?threshold=nan", 422, "threshold"},
                 {SIMILARITY "?max_pairs=-1", 422, "max_pairs"},
                 {"/v1/heads/drift?threshold=-1", 422, "threshold"},
                 {"/v1/heads/drift?min_sequences=1.5", 422, "min_sequences"},
                 {"/v1/heads/drift?window=5m", 422, "window"}};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct reply reply = http_get(server, wrong[i].path);
        expect_problem(&reply, wrong[i].status, NULL, wrong[i].word, wrong[i].path);
        reply_free(&reply);
    }
    json_t *rows = get(server, STATS "?include_heads=3,1&statistics=distance,entropy&format=rows&window=5m");
    ck_assert_uint_eq(json_array_size(rows), 2);
    ck_assert(number(json_array_get(rows, 0), "head") == 3);
    ck_assert_uint_eq(json_object_size(json_array_get(rows, 0)), 5);
    json_decref(rows);
    server_process_stop(server);
}
END_TEST

static long post_status(const struct server_process *server, const char *path, const char *header)
{
    const char *const headers[] = {header, NULL};
    struct reply reply =
        http_send(server, (struct http_call){.method = "POST", .path = path, .body = "", .headers = headers});
    const long status = reply.status;
    reply_free(&reply);
    return status;
}

START_TEST(admin_routes_need_the_token)
{
    static const char token[] = "a-token-of-the-test\n";
    static const char right[] = "Authorization: Bearer a-token-of-the-test";
    char *folder = folder_with_file("token", token, sizeof token - 1);
    char *members = quoted("'admin':{'token_file':'%s/token'},'live':{'access':'admin'}", folder);
    const struct server_options options = {.members = members};
    struct traffic t = traffic_open();
    struct server_process *server = server_process_start(&options);
    static const char *const routes[] = {"/v1/heads/reset?weights=demo", "/v1/weights/demo/reload"};
    static const char *const wrong[] = {"X-Nothing: 1", "Authorization: Bearer a-token-of-the-tes",
                                        "Authorization: Bearer a-token-of-the-test2", "Authorization: Bearer",
                                        "Authorization: Basic a-token-of-the-test"};
    forward(server, t.bodies[0]);
    for (size_t i = 0; i < 2; i++)
        for (size_t w = 0; w < 5; w++)
            ck_assert_int_eq(post_status(server, routes[i], wrong[w]), 401);
    struct reply reply = http_get(server, STATS);
    char value[64];
    expect_problem(&reply, 401, NULL, "token", STATS);
    ck_assert(reply_header(&reply, "WWW-Authenticate", value, sizeof value));
    reply_free(&reply);

    for (size_t i = 0; i < 2; i++) { /* a reload keeps what was counted, a reset does not */
        reply = get_with(server, STATS, right);
        json_t *stats = reply_json(&reply);
        ck_assert(number(stats, "n_rows") == 5);
        json_decref(stats);
        reply_free(&reply);
        ck_assert_int_eq(post_status(server, routes[1 - i], right), 200);
    }
    reply = get_with(server, STATS, right);
    json_t *stats = reply_json(&reply);
    ck_assert(number(stats, "n_rows") == 0);
    json_decref(stats);
    reply_free(&reply);
    ck_assert_int_eq(post_status(server, "/v1/heads/reset?weights=nobody", right), 404);
    ck_assert_int_eq(post_status(server, "/v1/weights/nobody/reload", right), 404);
    server_process_stop(server);

    server = server_process_start(NULL);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(post_status(server, routes[i], right), 404);
    server_process_stop(server);
    traffic_close(&t);
    free(members);
    remove_folder(folder);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/live");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, traffic_in_any_order_equals_the_reference, 0, 6);
    tcase_add_test(t, merged_states_are_one_servers);
    tcase_add_test(t, states_that_cannot_be_are_refused);
    tcase_add_test(t, tags_tell_whether_anything_is_new);
    tcase_add_test(t, what_leaves_the_window_is_the_baseline);
    tcase_add_test(t, other_rules_and_failures_do_not_count);
    tcase_add_test(t, wrong_parameters_are_named);
    tcase_add_test(t, admin_routes_need_the_token);
    suite_add_tcase(s, t);
    return s;
}
