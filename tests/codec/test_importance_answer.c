/* The answer of /v1/heads/importance, read back by jansson. */
#include "codec/importance_answer.h"

#include "suite.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADS 3

static double values[HEADS] = {0.1, NAN, 1.0 / 3};
static struct prune_step plan[HEADS] = {{2, 1e-300}, {0, 0.30000000000000004}, {1, NAN}};

/* Encoded within the bytes that were predicted, and parsed. */
static json_t *encode(const struct importance_request *request, const char *weights)
{
    const struct importance_found found = {
        .num_heads = HEADS, .importance = {.importance = values, .plan = plan, .n_rows = 11, .n_excluded = 2}};
    struct text text, grown = {0};
    struct error error;
    size_t most;
    json_error_t fault;
    ck_assert(importance_answer_bytes(request, HEADS, weights, &most));
    char *buffer = malloc(most); /* so that a sanitizer sees a write behind the end */
    text_init_fixed(&text, buffer, most);
    ck_assert(importance_answer_encode(request, &found, weights, "abc", &text, &error));
    ck_assert(importance_answer_encode(request, &found, weights, "abc", &grown, &error));
    ck_assert_uint_eq(text.length, grown.length);
    ck_assert_mem_eq(text.data, grown.data, grown.length);
    text_free(&grown);
    json_t *got = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(got != NULL, "%s in %.*s", fault.text, (int)text.length, text.data);
    free(buffer);
    return got;
}

static const json_t *at(const json_t *document, const char *list, size_t i, const char *member)
{
    const json_t *value = json_object_get(json_array_get(json_object_get(document, list), i), member);
    ck_assert_ptr_nonnull(value);
    return value;
}

START_TEST(everything)
{
    char id[] = "123456789012345678";
    const struct importance_request request = {
        .forward = {.id = id}, .prune_plan = true, .has_tolerance = true, .tolerance = 0.31};
    json_t *got = encode(&request, "a \"name\"\n");
    ck_assert_uint_eq(json_object_size(got), 9);
    ck_assert_int_eq(json_integer_value(json_object_get(got, "id")), 123456789012345678);
    ck_assert_str_eq(json_string_value(json_object_get(got, "weights")), "a \"name\"\n");
    ck_assert_str_eq(json_string_value(json_object_get(got, "digest")), "abc");
    ck_assert_str_eq(json_string_value(json_object_get(got, "method")), "zero");
    ck_assert_int_eq(json_integer_value(json_object_get(got, "n_rows")), 11);
    ck_assert_int_eq(json_integer_value(json_object_get(got, "n_excluded")), 2);
    for (size_t i = 0; i < HEADS; i++) {
        const json_t *importance = at(got, "heads", i, "importance"), *change = at(got, "prune_plan", i, "change");
        ck_assert_int_eq(json_integer_value(at(got, "heads", i, "head")), (json_int_t)i);
        ck_assert_int_eq(json_integer_value(at(got, "prune_plan", i, "head")), (json_int_t)plan[i].head);
        ck_assert(isnan(values[i]) ? json_is_null(importance) : json_real_value(importance) == values[i]);
        ck_assert(isnan(plan[i].change) ? json_is_null(change) : json_real_value(change) == plan[i].change);
    }
    const json_t *removable = json_object_get(got, "removable");
    ck_assert_uint_eq(json_array_size(removable), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(removable, 0)), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(removable, 1)), 0);
    json_decref(got);
}
END_TEST

START_TEST(only_what_was_asked_for)
{
    struct importance_request request = {.method = IMPORTANCE_NORM};
    json_t *got = encode(&request, "demo");
    ck_assert_uint_eq(json_object_size(got), 6);
    ck_assert_str_eq(json_string_value(json_object_get(got, "method")), "norm");
    json_decref(got);

    request = (struct importance_request){.prune_plan = true, .has_tolerance = true};
    got = encode(&request, "demo");
    ck_assert_uint_eq(json_array_size(json_object_get(got, "removable")), 0);
    ck_assert(json_is_array(json_object_get(got, "removable")));
    json_decref(got);
}
END_TEST

/* The longest numbers there are, in all places, in memory of just the size that is predicted. */
START_TEST(predicted_bytes)
{
    const struct importance_request request = {.prune_plan = true, .has_tolerance = true, .tolerance = 1};
    enum { MANY = 2000 };
    static double all[MANY];
    static struct prune_step steps[MANY];
    for (size_t i = 0; i < MANY; i++) {
        all[i] = -2.2250738585072014e-308;
        steps[i] = (struct prune_step){SIZE_MAX, -2.2250738585072014e-308};
    }
    struct importance_found found = {
        .num_heads = MANY,
        .importance = {.importance = all, .plan = steps, .n_rows = SIZE_MAX, .n_excluded = SIZE_MAX}};
    struct text text;
    struct error error;
    char digest[65];
    size_t most;
    memset(digest, 'f', 64);
    digest[64] = '\0';
    ck_assert(importance_answer_bytes(&request, MANY, "\x01\x01\x01", &most));
    char *buffer = malloc(most);
    text_init_fixed(&text, buffer, most);
    ck_assert(importance_answer_encode(&request, &found, "\x01\x01\x01", digest, &text, &error));
    const size_t length = text.length;
    text_init_fixed(&text, buffer, length - 1);
    ck_assert(!importance_answer_encode(&request, &found, "\x01\x01\x01", digest, &text, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(text.length, 0);

    /* No list hides what the rest needs. */
    for (size_t heads = 0; heads < 3; heads++) {
        ck_assert(importance_answer_bytes(&request, heads, "\x01\x01\x01", &most));
        text_init_fixed(&text, buffer, most);
        found.num_heads = heads;
        ck_assert(importance_answer_encode(&request, &found, "\x01\x01\x01", digest, &text, &error));
    }
    free(buffer);
    ck_assert(!importance_answer_bytes(&request, SIZE_MAX / 100, "demo", &most));
}
END_TEST

START_TEST(of_layers)
{
    static double two[] = {0.5, 0.25, NAN, 1};
    static struct prune_step steps[] = {{1, 0.25}, {0, 0.75}, {0, 0.125}, {1, 0.5}};
    const struct importance_request request = {.prune_plan = true, .has_tolerance = true, .tolerance = 0.5};
    const struct importance_found found = {2, 2, {two, steps, 3, 1}};
    static const char wanted[] =
        "{\"weights\":\"m\",\"digest\":\"d\",\"method\":\"zero\",\"at\":\"layer\",\"heads\":["
        "{\"layer\":0,\"head\":0,\"importance\":0.5},{\"layer\":0,\"head\":1,\"importance\":0.25},"
        "{\"layer\":1,\"head\":0,\"importance\":null},{\"layer\":1,\"head\":1,\"importance\":1.0}],"
        "\"prune_plan\":[[{\"head\":1,\"change\":0.25},{\"head\":0,\"change\":0.75}],"
        "[{\"head\":0,\"change\":0.125},{\"head\":1,\"change\":0.5}]],\"removable\":[[1],[0,1]],"
        "\"n_rows\":3,\"n_excluded\":1}";
    struct text text = {0};
    struct error error;
    size_t most;
    ck_assert(importance_answer_bytes(&request, 4, "m", &most));
    ck_assert(importance_answer_encode(&request, &found, "m", "d", &text, &error));
    ck_assert_uint_le(text.length, most);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.data, wanted, text.length) == 0, "%.*s",
                  (int)text.length, text.data);
    text_free(&text);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("importance_answer");
    TCase *c = tcase_create("importance_answer");
    tcase_add_test(c, everything);
    tcase_add_test(c, only_what_was_asked_for);
    tcase_add_test(c, predicted_bytes);
    tcase_add_test(c, of_layers);
    suite_add_tcase(s, c);
    return s;
}
