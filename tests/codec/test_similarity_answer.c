/* The answer of /v1/heads/similarity, read back by jansson. */
#include "codec/similarity_answer.h"

#include "suite.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADS 4

static double matrix[HEADS * HEADS] = {
    1, NAN, -1.2345678901234567e-300, 0.1, NAN, NAN, NAN, NAN, 0.5, NAN, 1, 0.3, 0.1, NAN, 0.3, 1};
static double redundancy[HEADS] = {0.1, NAN, 0.3, 0.30000000000000004};
static uint32_t clusters[HEADS] = {0, 1, 0, 2};
static struct head_pair pairs[] = {{2, 3, 0.3}, {0, 3, 0.1}};

/* Encoded within the bytes that were predicted, and parsed. */
static json_t *encode(const struct similarity_request *request, const char *weights, size_t n_pairs, double diversity)
{
    const struct similarity_found found = {
        .similarity = {.similarity = matrix, .diversity = diversity, .n_rows = 11, .n_excluded = 2},
        .num_heads = HEADS,
        .redundancy = redundancy,
        .clusters = clusters,
        .n_clusters = 3,
        .pairs = pairs,
        .n_pairs = n_pairs};
    struct text text, grown = {0};
    struct error error;
    size_t most;
    json_error_t fault;
    ck_assert(similarity_answer_bytes(request, HEADS, weights, &most));
    char *buffer = malloc(most); /* so that a sanitizer sees a write behind the end */
    text_init_fixed(&text, buffer, most);
    ck_assert(similarity_answer_encode(request, &found, weights, "abc", &text, &error));
    ck_assert(similarity_answer_encode(request, &found, weights, "abc", &grown, &error));
    ck_assert_uint_eq(text.length, grown.length);
    ck_assert_mem_eq(text.data, grown.data, grown.length);
    text_free(&grown);
    json_t *got = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(got != NULL, "%s in %.*s", fault.text, (int)text.length, text.data);
    free(buffer);
    return got;
}

static void expect_number(const json_t *got, double wanted)
{
    if (isnan(wanted))
        ck_assert(json_is_null(got));
    else
        ck_assert(json_is_number(got) && json_number_value(got) == wanted);
}

START_TEST(everything)
{
    char id[] = "\"a\"";
    const struct similarity_request request = {
        .analysis = {.forward = {.id = id}},
        .question = {SIMILARITY_HELLINGER, SIMILARITY_OF_ATTENTION, SIMILARITY_MEAN, true},
        .max_pairs = 2};
    json_t *got = encode(&request, "a \"name\"\n", 2, 0.25), *list;
    ck_assert_uint_eq(json_object_size(got), 14);
    ck_assert_str_eq(json_string_value(json_object_get(got, "id")), "a");
    ck_assert_str_eq(json_string_value(json_object_get(got, "weights")), "a \"name\"\n");
    ck_assert_str_eq(json_string_value(json_object_get(got, "digest")), "abc");
    ck_assert_str_eq(json_string_value(json_object_get(got, "metric")), "hellinger");
    ck_assert_str_eq(json_string_value(json_object_get(got, "on")), "attention");
    ck_assert_str_eq(json_string_value(json_object_get(got, "reduce")), "mean");
    ck_assert_uint_eq(json_array_size(json_object_get(got, "heads")), HEADS);
    for (size_t a = 0; a < HEADS; a++) {
        ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(got, "heads"), a)), (json_int_t)a);
        expect_number(json_array_get(json_object_get(got, "redundancy"), a), redundancy[a]);
        for (size_t b = 0; b < HEADS; b++)
            expect_number(json_array_get(json_array_get(json_object_get(got, "similarity"), a), b),
                          matrix[a * HEADS + b]);
    }
    json_t *wanted = json_pack("[[ii],[i],[i]]", 0, 2, 1, 3);
    ck_assert(json_equal(json_object_get(got, "clusters"), wanted));
    json_decref(wanted);
    list = json_object_get(got, "pairs");
    ck_assert_uint_eq(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *pair = json_array_get(list, i);
        ck_assert_int_eq(json_integer_value(json_object_get(pair, "head_a")), pairs[i].head_a);
        ck_assert_int_eq(json_integer_value(json_object_get(pair, "head_b")), pairs[i].head_b);
        expect_number(json_object_get(pair, "similarity"), pairs[i].similarity);
    }
    expect_number(json_object_get(got, "diversity"), 0.25);
    ck_assert_int_eq(json_integer_value(json_object_get(got, "n_rows")), 11);
    ck_assert_int_eq(json_integer_value(json_object_get(got, "n_excluded")), 2);
    json_decref(got);
}
END_TEST

START_TEST(of_posted_maps)
{
    const struct similarity_request request = {
        .question = {SIMILARITY_CKA, SIMILARITY_OF_OUTPUT, SIMILARITY_POOLED, true}};
    json_t *got = encode(&request, NULL, 0, NAN);
    ck_assert_uint_eq(json_object_size(got), 11);
    ck_assert_str_eq(json_string_value(json_object_get(got, "metric")), "cka");
    ck_assert_str_eq(json_string_value(json_object_get(got, "on")), "output");
    ck_assert_str_eq(json_string_value(json_object_get(got, "reduce")), "pooled");
    ck_assert(json_is_null(json_object_get(got, "diversity")));
    ck_assert_uint_eq(json_array_size(json_object_get(got, "pairs")), 0);
    json_decref(got);
}
END_TEST

START_TEST(most_pairs)
{
    struct similarity_request request = {.max_pairs = 100};
    ck_assert_uint_eq(similarity_pairs_most(&request, 1), 0);
    ck_assert_uint_eq(similarity_pairs_most(&request, 2), 1);
    ck_assert_uint_eq(similarity_pairs_most(&request, 14), 91);
    ck_assert_uint_eq(similarity_pairs_most(&request, 15), 100);
    request.max_pairs = SIZE_MAX;
    ck_assert_uint_eq(similarity_pairs_most(&request, 15), 105);
    ck_assert_uint_eq(similarity_pairs_most(&request, SIZE_MAX), SIZE_MAX);
    size_t bytes;
    ck_assert(!similarity_answer_bytes(&request, SIZE_MAX / 64, NULL, &bytes));
    ck_assert(similarity_answer_bytes(&request, 1024, NULL, &bytes));
}
END_TEST

START_TEST(too_little_room)
{
    const struct similarity_request request = {
        .question = {SIMILARITY_JS, SIMILARITY_OF_ATTENTION, SIMILARITY_MEAN, true}};
    const struct similarity_found found = {.similarity = {.similarity = matrix},
                                           .num_heads = HEADS,
                                           .redundancy = redundancy,
                                           .clusters = clusters,
                                           .n_clusters = 3};
    char buffer[100];
    struct text text;
    struct error error;
    text_init_fixed(&text, buffer, sizeof buffer);
    text_append(&text, "ab", 2);
    ck_assert(!similarity_answer_encode(&request, &found, "demo", "abc", &text, &error));
    ck_assert_int_eq(error.code, ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(text.length, 2);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("similarity_answer");
    TCase *c = tcase_create("similarity_answer");
    tcase_add_test(c, everything);
    tcase_add_test(c, of_posted_maps);
    tcase_add_test(c, most_pairs);
    tcase_add_test(c, too_little_room);
    suite_add_tcase(s, c);
    return s;
}
