/* The answer of /v1/heads/similarity, read back by jansson. */
#include "codec/similarity_answer.h"

#include "suite.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
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
    const struct maps_extent extent = {0, HEADS};
    const struct similarity_found found = {
        .similarity = {.similarity = matrix, .diversity = &diversity, .n_rows = 11, .n_excluded = 2},
        .extent = extent,
        .redundancy = redundancy,
        .clusters = clusters,
        .n_clusters = &(size_t){3},
        .pairs = pairs,
        .n_pairs = n_pairs};
    struct text text, grown = {0};
    struct error error;
    size_t most;
    json_error_t fault;
    ck_assert(similarity_answer_bytes(request, &extent, weights, &most));
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
        .question = {SIMILARITY_HELLINGER, SIMILARITY_OF_ATTENTION, SIMILARITY_MEAN, true, 0},
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
        .question = {SIMILARITY_CKA, SIMILARITY_OF_OUTPUT, SIMILARITY_POOLED, true, 0}};
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
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, 1}), 0);
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, 2}), 1);
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, 14}), 91);
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, 15}), 100);
    request.max_pairs = SIZE_MAX;
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, 15}), 105);
    ck_assert_uint_eq(similarity_pairs_most(&request, &(struct maps_extent){0, SIZE_MAX}), SIZE_MAX);
    size_t bytes;
    ck_assert(!similarity_answer_bytes(&request, &(struct maps_extent){0, SIZE_MAX / 64}, NULL, &bytes));
    ck_assert(similarity_answer_bytes(&request, &(struct maps_extent){0, 1024}, NULL, &bytes));
}
END_TEST

START_TEST(too_little_room)
{
    const struct similarity_request request = {
        .question = {SIMILARITY_JS, SIMILARITY_OF_ATTENTION, SIMILARITY_MEAN, true, 0}};
    const struct similarity_found found = {.similarity = {.similarity = matrix, .diversity = &(double){0}},
                                           .extent = {0, HEADS},
                                           .redundancy = redundancy,
                                           .clusters = clusters,
                                           .n_clusters = &(size_t){3}};
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

static void expect_text(const struct similarity_request *request, const struct similarity_found *found,
                        const char *wanted)
{
    struct text text = {0};
    struct error error;
    size_t most;
    ck_assert(similarity_answer_bytes(request, &found->extent, NULL, &most));
    ck_assert(similarity_answer_encode(request, found, NULL, NULL, &text, &error));
    ck_assert_uint_le(text.length, most);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.data, wanted, text.length) == 0, "%.*s",
                  (int)text.length, text.data);
    text_free(&text);
}

/* Two layers of two heads: text and all. */
START_TEST(of_layers)
{
    static double within[] = {1, 0.5, 0.5, 1, 1, -0.25, -0.25, 1}, across[16], best[] = {0.5, 0.5, -0.25, NAN},
                  diversity[] = {0.125, NAN};
    static uint32_t apart[] = {0, 0, 0, 1}, together[] = {0, 1, 0, 2};
    static size_t n_apart[] = {1, 2}, n_together[] = {3};
    static struct head_pair in_layers[] = {{0, 1, 0.5}, {2, 3, -0.25}}, over_layers[] = {{0, 2, 1}};
    struct similarity_request request = {.across = SIMILARITY_ACROSS_LAYER, .max_pairs = 9};
    const struct maps_extent extent = {2, 2};
    struct similarity_found found = {.similarity = {within, diversity, 3, 1},
                                     .extent = extent,
                                     .redundancy = best,
                                     .clusters = apart,
                                     .n_clusters = n_apart,
                                     .pairs = in_layers,
                                     .n_pairs = 2};
    static const char *const beginning = "{\"metric\":\"cosine\",\"on\":\"attention\",\"reduce\":\"pooled\",",
                             *const heads = "\"heads\":[{\"layer\":0,\"head\":0},{\"layer\":0,\"head\":1},"
                                            "{\"layer\":1,\"head\":0},{\"layer\":1,\"head\":1}],";
    char wanted[1024];
    ck_assert_uint_eq(similarity_pairs_most(&request, &extent), 2);
    snprintf(wanted, sizeof wanted,
             "%s\"across\":\"layer\",%s\"similarity\":[[[1.0,0.5],[0.5,1.0]],[[1.0,-0.25],[-0.25,1.0]]],"
             "\"redundancy\":[[0.5,0.5],[-0.25,null]],\"clusters\":[[[0,1]],[[0],[1]]],\"pairs\":["
             "{\"layer\":0,\"head_a\":0,\"head_b\":1,\"similarity\":0.5},"
             "{\"layer\":1,\"head_a\":0,\"head_b\":1,\"similarity\":-0.25}],\"diversity\":[0.125,null],"
             "\"n_rows\":3,\"n_excluded\":1}",
             beginning, heads);
    expect_text(&request, &found, wanted);

    request.across = SIMILARITY_ACROSS_MODEL;
    for (size_t i = 0; i < 16; i++)
        across[i] = i % 5 == 0 || i == 2 || i == 8;
    found.similarity.similarity = across;
    found.clusters = together;
    found.n_clusters = n_together;
    found.pairs = over_layers;
    found.n_pairs = 1;
    ck_assert_uint_eq(similarity_pairs_most(&request, &extent), 6);
    snprintf(wanted, sizeof wanted,
             "%s\"across\":\"model\",%s\"similarity\":[[1.0,0.0,1.0,0.0],[0.0,1.0,0.0,0.0],[1.0,0.0,1.0,0.0],"
             "[0.0,0.0,0.0,1.0]],\"redundancy\":[0.5,0.5,-0.25,null],\"clusters\":[[0,2],[1],[3]],\"pairs\":["
             "{\"head_a\":0,\"head_b\":2,\"similarity\":1.0}],\"diversity\":[0.125,null],"
             "\"n_rows\":3,\"n_excluded\":1}",
             beginning, heads);
    expect_text(&request, &found, wanted);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("similarity_answer");
    TCase *c = tcase_create("similarity_answer");
    tcase_add_test(c, everything);
    tcase_add_test(c, of_posted_maps);
    tcase_add_test(c, most_pairs);
    tcase_add_test(c, of_layers);
    tcase_add_test(c, too_little_room);
    suite_add_tcase(s, c);
    return s;
}
