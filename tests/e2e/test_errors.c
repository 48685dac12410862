/* What is wrong with a request is told as a problem document that names the place, and the next request is served. */
#include "expect.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In `body`, ' stands for " and $ for 63 numbers with commas between: "0,0,...,0"; % for [1,4,64] of 0.5. */
struct wrong {
    const char *name, *body;
    long status;
    const char *pointer, *word;
};

static const struct wrong WRONG[] = {
    {"empty object", "{}", 422, NULL, "input"},
    {"an array as the body", "[]", 422, NULL, NULL},
    {"not JSON", "{", 400, NULL, NULL},
    {"text behind the document", "{'input':%} x", 400, NULL, NULL},
    {"member twice", "{'input':%,'input':%}", 400, NULL, "input"},
    {"member twice, once escaped", "{'input':%,'inpu\\u0074':%}", 400, NULL, "input"},
    {"member twice in a tensor", "{'input':{'shape':[1,64],'shape':[1,64],'data':[0,$]}}", 400, NULL, "shape"},
    {"beyond double", "{'input':[[[$,1e400]]]}", 422, "/input/0/0/63", NULL},
    {"beyond float32", "{'input':[[[1e39,$]]]}", 422, "/input/0/0/0", NULL},
    {"NaN", "{'input':[[[NaN,$]]]}", 400, NULL, NULL},
    {"Infinity", "{'input':[[[$,-Infinity]]]}", 400, NULL, NULL},
    {"a number as a string", "{'input':[[['1.0',$]]]}", 422, "/input/0/0/0", NULL},
    {"null in a tensor", "{'input':[[[$,null]]]}", 422, "/input/0/0/63", NULL},
    {"ragged at depth 2", "{'input':[[[0,$],[0,$]],[[0,$]]]}", 422, "/input/1", "2"},
    {"ragged at depth 3", "{'input':[[[0,$],[$]]]}", 422, "/input/0/1", "63"},
    {"shape product overflow", "{'input':{'shape':[4294967296,4294967296,64],'data':[]}}", 422, NULL, NULL},
    {"shape and data differ", "{'input':{'shape':[1,2,64],'data':[0,$]}}", 422, NULL, "128"},
    {"base64 of the wrong length", "{'input':{'shape':[1,1,64],'dtype':'f32','base64':'AAAAAAAA'}}", 422, NULL, "256"},
    {"broken base64", "{'input':{'shape':[1,1,64],'dtype':'f32','base64':'@@@@'}}", 400, NULL, NULL},
    {"no token", "{'input':[[]]}", 422, "/input", NULL},
    {"no sequence", "{'input':[]}", 422, "/input", NULL},
    {"T = 0 in a shape", "{'input':{'shape':[1,0,64],'data':[]}}", 422, NULL, "0"},
    {"B = 0 in a shape", "{'input':{'shape':[0,4,64],'data':[]}}", 422, NULL, "0"},
    {"wrong width", "{'input':[[[$]]]}", 422, "/input", "64"},
    {"mask of the wrong rank", "{'input':%,'attention_mask':[1,1,1,1]}", 422, "/attention_mask", NULL},
    {"mask of the wrong shape", "{'input':%,'attention_mask':[[1,1,1]]}", 422, "/attention_mask", "4"},
    {"mask of a wrong value", "{'input':%,'attention_mask':[[1,1,2,1]]}", 422, "/attention_mask/0/2", NULL},
    {"head 99", "{'input':%,'include_heads':[0,99]}", 422, "/include_heads/1", "99"},
    {"unknown member", "{'input':%,'attention_masks':[[1,1,1,1]]}", 422, "/attention_masks", "attention_mask"},
    {"unknown member with / and ~", "{'input':%,'a/b~c':1}", 422, "/a~1b~0c", NULL},
    {"unknown weights", "{'input':%,'weights':'dmeo'}", 404, NULL, "plain512"},
    {"invalid UTF-8", "{'input':%,'id':'\xFF\xFE'}", 400, NULL, NULL},
    {"a lone surrogate", "{'input':%,'id':'\\ud800'}", 400, NULL, NULL},
    {"top_k 0", "{'input':%,'top_k':0}", 422, "/top_k", NULL},
    {"decimals 10", "{'input':%,'decimals':10}", 422, "/decimals", "9"},
    {"input beside query", "{'input':%,'query':%}", 422, NULL, NULL},
    {"query without key", "{'query':%}", 422, NULL, "key"},
};

static char *expanded(const char *body)
{
    char zeros[128] = "0", *small = small_request(), *tensor = strchr(small, '[');
    *strrchr(small, '}') = '\0';
    for (size_t i = 1; i < 63; i++)
        strcat(zeros, ",0");
    char *text = calloc(strlen(body) + 4 * strlen(small) + 8 * sizeof zeros, 1), *to = text;
    for (; *body; body++) {
        if (*body == '$')
            to = stpcpy(to, zeros);
        else if (*body == '%')
            to = stpcpy(to, tensor);
        else
            *to++ = *body == '\'' ? '"' : *body;
    }
    free(small);
    return text;
}

START_TEST(wrong_bodies)
{
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        char *body = expanded(WRONG[i].body);
        struct reply reply = http_post(server, FORWARD, body);
        expect_problem(&reply, WRONG[i].status, WRONG[i].pointer, WRONG[i].word, WRONG[i].name);
        reply_free(&reply);
        free(body);
    }
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(empty_body)
{
    struct server_process *server = server_process_start(NULL);
    struct reply reply = http_post(server, FORWARD, "");
    expect_problem(&reply, 400, NULL, NULL, "empty body");
    reply_free(&reply);
    reply = http_send(server, (struct http_call){.method = "POST", .path = FORWARD});
    expect_problem(&reply, 400, NULL, NULL, "no body");
    reply_free(&reply);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(a_megabyte_of_brackets)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const begins[] = {"", "{\"input\":", "{\"id\":"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t length = 1 << 20;
        char *body = malloc(length + 1);
        memset(body, '[', length);
        memcpy(body, begins[i], strlen(begins[i]));
        body[length] = '\0';
        struct reply reply = http_post(server, FORWARD, body);
        ck_assert_msg(reply.status == 400 || reply.status == 422, "status %ld, expected 400 or 422: %.200s",
                      reply.status, reply.body);
        expect_problem(&reply, reply.status, NULL, NULL, "a megabyte of brackets");
        reply_free(&reply);
        free(body);
    }
    expect_served(server);
    server_process_stop(server);
}
END_TEST

/* Right, whatever they look like. On a set without projections, `value` is what was read. */
START_TEST(numbers_at_the_edge)
{
    static const struct {
        const char *sent;
        float read;
        const char *printed;
    } numbers[] = {{"-0", -0.0F, "-0.0"},
                   {"4e-46", 0.0F, NULL},
                   {"0.1234567890123456789012345678901234567890", 0x1.f9add4p-4F, NULL},
                   {"1234567890123456789012345678901234567890e-39", 0x1.3c0ca4p+0F, NULL},
                   {"3.4028235e38", 0x1.fffffep+127F, NULL},
                   {"1e-45", 0x1p-149F, NULL},
                   {"5E+1", 50.0F, NULL}};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[256];
        size_t count;
        snprintf(text, sizeof text, "{'weights':'plain64','return':['value'],'input':[[[%s,$]]]}", numbers[i].sent);
        char *body = expanded(text);
        struct reply reply = http_post(server, FORWARD, body);
        ck_assert_msg(reply.status == 200, "%s: status %ld: %.300s", numbers[i].sent, reply.status, reply.body);
        json_t *got = reply_json(&reply);
        double *values = flat_numbers(json_object_get(got, "value"), &count);
        ck_assert_msg((float)values[0] == numbers[i].read && !signbit(values[0]) == !signbit(numbers[i].read),
                      "%s was read as %.9g, expected %.9g", numbers[i].sent, values[0], (double)numbers[i].read);
        if (numbers[i].printed) {
            const char *at = strstr(reply.body, "\"value\":[[");
            ck_assert_ptr_nonnull(at);
            at += strcspn(at, "[");
            at += strspn(at, "[ \n");
            ck_assert_msg(strncmp(at, numbers[i].printed, strlen(numbers[i].printed)) == 0 &&
                              at[strlen(numbers[i].printed)] == ',',
                          "%s is printed as %.10s", numbers[i].sent, at);
        }
        free(values);
        json_decref(got);
        reply_free(&reply);
        free(body);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(wrong_routes)
{
    struct server_process *server = server_process_start(NULL);
    static const struct {
        const char *method, *path, *allow;
        long status;
    } routes[] = {{"GET", "/v1/nope", NULL, 404},
                  {"POST", "/nope", NULL, 404},
                  {"GET", "/v1/weights/dmeo", NULL, 404},
                  {"GET", "/v1/forward/", NULL, 404},
                  {"GET", FORWARD, "POST", 405},
                  {"PUT", FORWARD, "POST", 405},
                  {"DELETE", "/v1/weights", "GET, HEAD", 405},
                  {"POST", "/healthz", "GET, HEAD", 405}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        char allow[64], name[64];
        snprintf(name, sizeof name, "%s %s", routes[i].method, routes[i].path);
        struct reply reply = http_send(server, (struct http_call){.method = routes[i].method, .path = routes[i].path});
        expect_problem(&reply, routes[i].status, NULL, NULL, name);
        bool there = reply_header(&reply, "Allow", allow, sizeof allow);
        ck_assert_msg(there == (routes[i].allow != NULL) && (!there || strcmp(allow, routes[i].allow) == 0),
                      "%s: Allow is \"%s\"", name, allow);
        reply_free(&reply);
    }
    struct reply reply = http_get(server, "/v1/weights/dmeo");
    expect_problem(&reply, 404, NULL, "plain512", "unknown weight set");
    reply_free(&reply);
    expect_served(server);
    server_process_stop(server);
}
END_TEST

START_TEST(wrong_types)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const headers[][3] = {{"Content-Type: text/csv", NULL},
                                             {"Content-Type: application/jsonp", NULL},
                                             {"Content-Type: application/json", "Content-Encoding: br", NULL}};
    static const char *const right[][2] = {{"Content-Type: Application/JSON; charset=utf-8", NULL},
                                           {"Content-Type:", NULL}};
    char *body = small_request();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct reply reply = http_send(
            server,
            (struct http_call){
                .method = "POST", .path = FORWARD, .body = body, .length = strlen(body), .headers = headers[i]});
        expect_problem(&reply, 415, NULL, NULL, headers[i][0]);
        reply_free(&reply);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct reply reply = http_send(
            server, (struct http_call){
                        .method = "POST", .path = FORWARD, .body = body, .length = strlen(body), .headers = right[i]});
        ck_assert_msg(reply.status == 200, "%s: status %ld", right[i][0], reply.status);
        reply_free(&reply);
    }
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/errors");
    TCase *c = tcase_create("errors");
    tcase_add_test(c, wrong_bodies);
    tcase_add_test(c, empty_body);
    tcase_add_test(c, a_megabyte_of_brackets);
    tcase_add_test(c, numbers_at_the_edge);
    tcase_add_test(c, wrong_routes);
    tcase_add_test(c, wrong_types);
    suite_add_tcase(s, c);
    return s;
}
