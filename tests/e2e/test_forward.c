/* POST /v1/forward: the numbers, and every form in which tensors go in and out. Numbers come from the golden files, or
 * are computed here. */
#include "expect.h"
#include "suite.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 200 and a JSON document, or the test ends. */
static json_t *forward(const struct server_process *server, const char *body, char **text)
{
    struct reply reply = http_post(server, FORWARD, body);
    ck_assert_msg(reply.failure == CURLE_OK, "no answer: %s", curl_easy_strerror(reply.failure));
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    json_t *document = reply_json(&reply);
    if (text)
        *text = strdup(reply.body);
    reply_free(&reply);
    return document;
}

/* The request of the golden case `prototype` with `member` ("'top_k':2") added. */
static char *prototype_with(const char *member)
{
    json_t *golden = golden_case("prototype");
    char *input = json_dumps(json_object_get(json_object_get(golden, "request"), "input"), JSON_COMPACT),
         *added = strdup(member);
    for (char *c = added; *c; c++)
        if (*c == '\'')
            *c = '"';
    char *text = quoted("{'input':%s%s%s}", input, *added ? "," : "", added);
    free(added);
    free(input);
    json_decref(golden);
    return text;
}

static json_t *forward_prototype(const struct server_process *server, const char *member, char **text)
{
    char *body = prototype_with(member);
    json_t *document = forward(server, body, text);
    free(body);
    return document;
}

static json_t *member(const json_t *document, const char *name)
{
    json_t *value = json_object_get(document, name);
    ck_assert_msg(value != NULL, "no member %s", name);
    return value;
}

static void expect_extents(const json_t *document, const char *name, const size_t *shape, size_t rank)
{
    const json_t *said = member(member(document, "shapes"), name);
    ck_assert_uint_eq(json_array_size(said), rank);
    for (size_t i = 0; i < rank; i++)
        ck_assert_int_eq(json_integer_value(json_array_get(said, i)), (json_int_t)shape[i]);
    expect_shape(member(document, name), shape, rank, name);
}

/* ---- golden */

START_TEST(golden_cases)
{
    struct server_process *server = server_process_start(NULL);
    char folder[512];
    size_t cases = 0;
    snprintf(folder, sizeof folder, "%s/forward", getenv("ATTND_GOLDEN"));
    DIR *directory = opendir(folder);
    ck_assert_ptr_nonnull(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!strstr(entry->d_name, ".json"))
            continue;
        json_t *golden = golden_case(entry->d_name), *wanted = member(golden, "expect");
        char *body = golden_request(golden);
        json_t *got = forward(server, body, NULL);
        char name[320];
        snprintf(name, sizeof name, "%s: output", entry->d_name);
        expect_close(member(got, "output"), member(wanted, "output"), false, name);
        snprintf(name, sizeof name, "%s: attention", entry->d_name);
        expect_close(member(got, "attention"), member(wanted, "attention"), true, name);
        ck_assert_int_eq(json_integer_value(member(got, "fully_masked_rows")),
                         json_integer_value(json_object_get(wanted, "fully_masked_rows")));
        json_decref(got);
        free(body);
        json_decref(golden);
        cases++;
    }
    closedir(directory);
    ck_assert_uint_ge(cases, 10);
    server_process_stop(server);
}
END_TEST

static float drawn(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)((int)(*state >> 16 & 0xFFFF) - 32768) / 16384.0F;
}

START_TEST(same_bits_alone_and_in_a_batch)
{
    struct server_process *server = server_process_start(NULL);
    static float input[3][5 * 64];
    uint32_t state = 7;
    for (size_t b = 0; b < 3; b++)
        for (size_t i = 0; i < 5 * 64; i++)
            input[b][i] = drawn(&state);
    char *all = numbers_text(&input[0][0], 3 * 5 * 64);
    char *body = quoted("{'input':{'shape':[3,5,64],'data':%s}}", all);
    json_t *together = forward(server, body, NULL);
    free(all);
    free(body);
    for (size_t b = 0; b < 3; b++) {
        char *one = numbers_text(input[b], 5 * 64);
        body = quoted("{'input':{'shape':[1,5,64],'data':%s}}", one);
        json_t *alone = forward(server, body, NULL);
        static const char *const names[] = {"output", "attention"};
        for (size_t i = 0; i < 2; i++)
            ck_assert_msg(
                json_equal(json_array_get(member(alone, names[i]), 0), json_array_get(member(together, names[i]), b)),
                "%s of sequence %zu differs from what it is alone", names[i], b);
        json_decref(alone);
        free(body);
        free(one);
    }
    json_decref(together);
    server_process_stop(server);
}
END_TEST

/* ---- tensors in */

static uint16_t half_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == 0)
        return (uint16_t)(bits >> 16);
    /* Exact: the values of this test have few bits and small exponents. */
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xFF) - 112) << 10 | (bits >> 13 & 0x3FF));
}

/* Every form of the same 64 numbers comes back as exactly those numbers: on a set without projections, `value` is the
 * input. */
START_TEST(input_forms)
{
    struct server_process *server = server_process_start(NULL);
    float values[64];
    double wide[64];
    uint16_t half[64], brain[64];
    for (size_t i = 0; i < 64; i++) {
        uint32_t bits;
        values[i] = (float)((int)i - 32) / 8;
        wide[i] = (double)values[i];
        half[i] = half_bits(values[i]);
        memcpy(&bits, &values[i], sizeof bits);
        brain[i] = (uint16_t)(bits >> 16);
    }
    char *list = numbers_text(values, 64);
    char *f32 = base64_text(values, sizeof values), *f64 = base64_text(wide, sizeof wide),
         *f16 = base64_text(half, sizeof half), *bf16 = base64_text(brain, sizeof brain);
    char *forms[] = {quoted("[[%s]]", list),
                     quoted("{'shape':[1,1,64],'data':%s}", list),
                     quoted("{'shape':[1,1,64],'data':[[%s]]}", list),
                     quoted("{'shape':[1,1,64],'dtype':'f32','base64':'%s'}", f32),
                     quoted("{'base64':'%s','dtype':'f64','shape':[1,1,64]}", f64),
                     quoted("{'shape':[1,1,64],'dtype':'f16','base64':'%s'}", f16),
                     quoted("{'shape':[1,1,64],'dtype':'bf16','base64':'%s'}", bf16)};
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++) {
        char *body = quoted("{'weights':'plain64','return':['value','output'],'input':%s}", forms[n]);
        json_t *got = forward(server, body, NULL);
        static const char *const names[] = {"value", "output"}; /* one token: the output is the input too */
        for (size_t k = 0; k < 2; k++) {
            size_t count;
            double *numbers = flat_numbers(member(got, names[k]), &count);
            ck_assert_uint_eq(count, 64);
            for (size_t i = 0; i < 64; i++)
                ck_assert_msg(numbers[i] == (double)values[i], "form %zu, %s, number %zu: %.9g, expected %.9g", n,
                              names[k], i, numbers[i], (double)values[i]);
            free(numbers);
        }
        json_decref(got);
        free(body);
        free(forms[n]);
    }
    free(list);
    free(f32);
    free(f64);
    free(f16);
    free(bf16);
    server_process_stop(server);
}
END_TEST

/* ---- tensors out */

START_TEST(base64_output_has_the_same_bits)
{
    struct server_process *server = server_process_start(NULL);
    json_t *text = forward_prototype(server, "", NULL),
           *binary = forward_prototype(server, "'encoding':'base64'", NULL);
    static const char *const names[] = {"output", "attention"};
    for (size_t n = 0; n < 2; n++) {
        size_t count, length;
        double *numbers = flat_numbers(member(text, names[n]), &count);
        const json_t *tensor = member(binary, names[n]);
        ck_assert_str_eq(json_string_value(member(tensor, "dtype")), "f32");
        ck_assert(json_equal(member(tensor, "shape"), member(member(text, "shapes"), names[n])));
        unsigned char *bytes = base64_bytes(json_string_value(member(tensor, "base64")), &length);
        ck_assert_uint_eq(length, 4 * count);
        for (size_t i = 0; i < count; i++) {
            float value, printed = (float)numbers[i];
            memcpy(&value, bytes + 4 * i, sizeof value);
            ck_assert_msg(memcmp(&value, &printed, sizeof value) == 0, "%s, number %zu: %.9g in base64, %.9g in JSON",
                          names[n], i, (double)value, numbers[i]);
        }
        free(bytes);
        free(numbers);
    }
    json_decref(text);
    json_decref(binary);
    server_process_stop(server);
}
END_TEST

START_TEST(top_k_keeps_the_largest)
{
    struct server_process *server = server_process_start(NULL);
    json_t *whole = forward_prototype(server, "'return':['attention']", NULL);
    json_t *top = forward_prototype(server, "'return':['attention'],'top_k':3", NULL);
    const json_t *kept = member(top, "attention");
    const size_t shape[] = {1, 8, 4, 3};
    ck_assert_int_eq(json_integer_value(member(kept, "top_k")), 3);
    ck_assert(json_equal(member(kept, "shape"), member(member(whole, "shapes"), "attention")));
    expect_shape(member(kept, "keys"), shape, 4, "keys");
    expect_shape(member(kept, "weights"), shape, 4, "weights");
    size_t count, n_keys, n_weights;
    double *maps = flat_numbers(member(whole, "attention"), &count),
           *keys = flat_numbers(member(kept, "keys"), &n_keys),
           *weights = flat_numbers(member(kept, "weights"), &n_weights);
    for (size_t row = 0; row < 8 * 4; row++) {
        bool used[4] = {false};
        for (size_t k = 0; k < 3; k++) {
            size_t best = 4;
            for (size_t j = 0; j < 4; j++)
                if (!used[j] && (best == 4 || maps[row * 4 + j] > maps[row * 4 + best]))
                    best = j;
            used[best] = true;
            ck_assert_msg((size_t)keys[row * 3 + k] == best && weights[row * 3 + k] == maps[row * 4 + best],
                          "row %zu, place %zu: key %g with %.9g, expected key %zu with %.9g", row, k, keys[row * 3 + k],
                          weights[row * 3 + k], best, maps[row * 4 + best]);
        }
    }
    free(maps);
    free(keys);
    free(weights);
    json_decref(whole);
    json_decref(top);

    /* Equal weights: the smaller key first; more than there are: all of them. */
    char *equal = small_request(), *end = strrchr(equal, '}');
    char *body = quoted("%.*s,'top_k':9,'return':['attention']}", (int)(end - equal), equal);
    top = forward(server, body, NULL);
    keys = flat_numbers(member(member(top, "attention"), "keys"), &n_keys);
    ck_assert_uint_eq(n_keys, 8 * 4 * 4);
    for (size_t i = 0; i < n_keys; i++)
        ck_assert_msg(keys[i] == (double)(i % 4), "key %g at place %zu of equal weights", keys[i], i % 4);
    free(keys);
    free(body);
    free(equal);
    json_decref(top);
    server_process_stop(server);
}
END_TEST

START_TEST(include_heads_selects_in_order)
{
    struct server_process *server = server_process_start(NULL);
    json_t *all = forward_prototype(server, "'return':['output','attention','heads']", NULL);
    json_t *some = forward_prototype(server, "'return':['output','attention','heads'],'include_heads':[6,1]", NULL);
    static const char *const names[] = {"attention", "heads"};
    static const size_t heads[] = {6, 1};
    for (size_t n = 0; n < 2; n++) {
        ck_assert_uint_eq(json_array_size(json_array_get(member(some, names[n]), 0)), 2);
        for (size_t h = 0; h < 2; h++)
            ck_assert_msg(json_equal(json_array_get(json_array_get(member(some, names[n]), 0), h),
                                     json_array_get(json_array_get(member(all, names[n]), 0), heads[h])),
                          "%s: place %zu is not head %zu", names[n], h, heads[h]);
    }
    ck_assert_msg(json_equal(member(some, "output"), member(all, "output")), "the output depends on include_heads");
    json_decref(all);
    json_decref(some);
    server_process_stop(server);
}
END_TEST

START_TEST(decimals_are_fixed)
{
    struct server_process *server = server_process_start(NULL);
    char *text;
    json_t *exact = forward_prototype(server, "'return':['output']", NULL);
    json_t *fixed = forward_prototype(server, "'return':['output'],'decimals':3", &text);
    size_t count, n_fixed, printed = 0;
    double *numbers = flat_numbers(member(exact, "output"), &count),
           *rounded = flat_numbers(member(fixed, "output"), &n_fixed);
    ck_assert_uint_eq(count, n_fixed);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(numbers[i] - rounded[i]) <= 0.0005 + 1e-9, "%.9g printed as %.9g", numbers[i], rounded[i]);
    const char *at = strstr(text, "\"output\":[[["), *end;
    ck_assert_ptr_nonnull(at);
    end = strstr(at, "]]]");
    for (at = strchr(at, '['); at && at < end; at += strcspn(at, "-0123456789]")) {
        if (*at == '[') {
            at++;
            continue;
        }
        size_t length = strspn(at, "-0123456789."), whole = strcspn(at, ".");
        if (length == 0) {
            at++;
            continue;
        }
        ck_assert_msg(length == whole + 4, "\"%.*s\" has not 3 decimals", (int)length, at);
        printed++;
        at += length;
    }
    ck_assert_uint_eq(printed, count);
    free(numbers);
    free(rounded);
    free(text);
    json_decref(exact);
    json_decref(fixed);
    server_process_stop(server);
}
END_TEST

START_TEST(return_says_what_comes)
{
    static const char *const all[] = {"output", "attention", "heads", "query", "key", "value"};
    static const size_t extents[][4] = {{1, 4, 64},   {1, 8, 4, 4}, {1, 8, 4, 8},
                                        {1, 8, 4, 8}, {1, 8, 4, 8}, {1, 8, 4, 8}};
    struct server_process *server = server_process_start(NULL);
    for (unsigned wanted = 1; wanted < 64; wanted += wanted < 8 ? 1 : 11) {
        char list[256] = "'return':[";
        for (size_t i = 0; i < 6; i++)
            if (wanted >> i & 1)
                sprintf(list + strlen(list), "%s'%s'", list[strlen(list) - 1] == '[' ? "" : ",", all[i]);
        strcat(list, "]");
        json_t *got = forward_prototype(server, list, NULL);
        for (size_t i = 0; i < 6; i++) {
            if (wanted >> i & 1) {
                expect_extents(got, all[i], extents[i], i ? 4 : 3);
            } else {
                ck_assert_msg(!json_object_get(got, all[i]), "%s was not asked for: %s", all[i], list);
                ck_assert_msg(!json_object_get(member(got, "shapes"), all[i]), "shapes names %s: %s", all[i], list);
            }
        }
        json_decref(got);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(rank_2_has_no_batch_axis)
{
    struct server_process *server = server_process_start(NULL);
    json_t *golden = golden_case("prototype"),
           *batch = forward_prototype(server, "'return':['output','attention','heads','key']", NULL);
    char *input = json_dumps(json_array_get(member(member(golden, "request"), "input"), 0), JSON_COMPACT);
    char *body = quoted("{'input':%s,'return':['output','attention','heads','key']}", input);
    json_t *got = forward(server, body, NULL);
    static const char *const names[] = {"output", "attention", "heads", "key"};
    static const size_t extents[][3] = {{4, 64}, {8, 4, 4}, {8, 4, 8}, {8, 4, 8}};
    for (size_t i = 0; i < 4; i++) {
        expect_extents(got, names[i], extents[i], i ? 3 : 2);
        ck_assert_msg(json_equal(member(got, names[i]), json_array_get(member(batch, names[i]), 0)), "%s differs",
                      names[i]);
    }
    json_decref(got);
    json_decref(batch);
    json_decref(golden);
    free(input);
    free(body);
    server_process_stop(server);
}
END_TEST

/* ---- the other members */

START_TEST(id_is_echoed)
{
    static const struct {
        const char *sent, *wanted;
    } ids[] = {{"\"my-id\"", "my-id"}, {"\"a\\\"\\u00e9\\n\\\\\"", "a\"\xC3\xA9\n\\"}, {"\"\"", ""}};
    struct server_process *server = server_process_start(NULL);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char added[64];
        snprintf(added, sizeof added, "\"id\":%s", ids[i].sent);
        json_t *got = forward_prototype(server, added, NULL);
        ck_assert_str_eq(json_string_value(member(got, "id")), ids[i].wanted);
        json_decref(got);
    }
    json_t *got = forward_prototype(server, "'id':-9007199254740993", NULL);
    ck_assert(json_is_integer(member(got, "id")));
    ck_assert_int_eq(json_integer_value(member(got, "id")), -9007199254740993);
    json_decref(got);
    got = forward_prototype(server, "", NULL);
    ck_assert_ptr_null(json_object_get(got, "id"));
    json_decref(got);
    server_process_stop(server);
}
END_TEST

START_TEST(weights_and_digest_are_named)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const names[] = {"demo", "plain64"};
    for (size_t i = 0; i < 2; i++) {
        char path[64], added[64];
        snprintf(path, sizeof path, "/v1/weights/%s", names[i]);
        snprintf(added, sizeof added, "'weights':'%s'", names[i]);
        struct reply reply = http_get(server, path);
        ck_assert_int_eq(reply.status, 200);
        json_t *set = reply_json(&reply), *got = forward_prototype(server, i ? added : "", NULL);
        ck_assert_str_eq(json_string_value(member(got, "weights")), names[i]);
        ck_assert_uint_gt(strlen(json_string_value(member(got, "digest"))), 0);
        ck_assert_str_eq(json_string_value(member(got, "digest")), json_string_value(member(set, "digest")));
        json_decref(got);
        json_decref(set);
        reply_free(&reply);
    }
    server_process_stop(server);
}
END_TEST

START_TEST(rows_without_a_key_are_zero)
{
    struct server_process *server = server_process_start(NULL);
    char *body = small_request(), *input = strchr(body, '['), *end = strrchr(body, '}');
    char *cross = quoted("{'query':%.*s,'key':%.*s,'attention_mask':[[0,0,0,0]],'weights':'plain64'}",
                         (int)(end - input), input, (int)(end - input), input);
    json_t *got = forward(server, cross, NULL);
    ck_assert_int_eq(json_integer_value(member(got, "fully_masked_rows")), 4);
    static const char *const names[] = {"output", "attention"};
    for (size_t n = 0; n < 2; n++) {
        size_t count;
        double *numbers = flat_numbers(member(got, names[n]), &count);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(numbers[i] == 0, "%s, number %zu is %.9g", names[n], i, numbers[i]);
        free(numbers);
    }
    json_decref(got);
    free(cross);
    free(body);
    server_process_stop(server);
}
END_TEST

START_TEST(timing_is_last)
{
    struct server_process *server = server_process_start(NULL);
    static const char *const stages[] = {"parse", "queue", "compute", "encode"};
    char *text;
    json_t *got = forward_prototype(server, "", &text);
    const json_t *timing = member(got, "timing_us");
    for (size_t i = 0; i < 4; i++)
        ck_assert(json_is_number(member(timing, stages[i])) && json_number_value(member(timing, stages[i])) >= 0);
    const char *at = strstr(text, "\"timing_us\"");
    ck_assert_ptr_nonnull(at);
    const char *close = strchr(at, '}');
    ck_assert_ptr_nonnull(close);
    ck_assert_msg(strspn(close, "} \r\n") == strlen(close), "behind timing_us: %s", close);
    free(text);
    json_decref(got);
    server_process_stop(server);
}
END_TEST

/* A long body whose numbers are short where nobody would expect it: at its ends a number takes two bytes, in its middle
 * thirty, and it decodes to more than its middle lets expect. */
START_TEST(numbers_of_uneven_length)
{
    enum { SHORT_ROWS = 700, LONG_ROWS = 60, ROWS = 2 * SHORT_ROWS + LONG_ROWS };
    struct server_process *server = server_process_start(NULL);
    char *body = malloc(64 * (2 * 2 * SHORT_ROWS + 32 * LONG_ROWS) + 3 * ROWS + 200);
    char *at = stpcpy(body, "{\"weights\":\"plain64\",\"return\":[\"output\"],\"encoding\":\"base64\",\"input\":[");
    for (int row = 0; row < ROWS; row++) {
        at = stpcpy(at, row ? ",[" : "[");
        for (int i = 0; i < 64; i++) {
            at = stpcpy(at, i ? "," : "");
            at =
                stpcpy(at, row >= SHORT_ROWS && row < SHORT_ROWS + LONG_ROWS ? "0.50000000000000000000000000000" : "1");
        }
        at = stpcpy(at, "]");
    }
    stpcpy(at, "]}");
    struct reply reply = http_post(server, FORWARD, body);
    ck_assert_msg(reply.status == 200, "status %ld: %.300s", reply.status, reply.body);
    json_t *got = reply_json(&reply), *output = json_object_get(got, "output");
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(output, "shape"), 0)), ROWS);
    size_t length;
    unsigned char *bytes = base64_bytes(json_string_value(json_object_get(output, "base64")), &length);
    ck_assert_uint_eq(length, sizeof(float) * 64 * ROWS);
    for (size_t i = 0; i < 64 * ROWS; i++) { /* means of 1 and 0.5, whatever the weights */
        float value;
        memcpy(&value, bytes + i * sizeof value, sizeof value);
        ck_assert(value > 0.5f && value < 1.0f);
    }
    free(bytes);
    json_decref(got);
    reply_free(&reply);
    free(body);
    server_process_stop(server);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("e2e/forward");
    TCase *c = tcase_create("forward");
    tcase_add_test(c, golden_cases);
    tcase_add_test(c, same_bits_alone_and_in_a_batch);
    tcase_add_test(c, input_forms);
    tcase_add_test(c, base64_output_has_the_same_bits);
    tcase_add_test(c, top_k_keeps_the_largest);
    tcase_add_test(c, include_heads_selects_in_order);
    tcase_add_test(c, decimals_are_fixed);
    tcase_add_test(c, return_says_what_comes);
    tcase_add_test(c, rank_2_has_no_batch_axis);
    tcase_add_test(c, id_is_echoed);
    tcase_add_test(c, weights_and_digest_are_named);
    tcase_add_test(c, rows_without_a_key_are_zero);
    tcase_add_test(c, timing_is_last);
    tcase_add_test(c, numbers_of_uneven_length);
    suite_add_tcase(s, c);
    return s;
}
