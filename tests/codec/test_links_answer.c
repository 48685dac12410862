/* Labels in answers of /v1/heads/links: of positions, of words, of the pieces of words. */
#include "codec/links_answer.h"

#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_text(const char *members, size_t shift, const struct head_link *link, const char *wanted)
{
    struct head_link links[] = {*link};
    size_t counts[] = {1}, most;
    const struct links_found found = {
        .extent = {0, 1}, .links = {links, counts, 1, 0}, .shift = shift, .n_rows = 4, .n_excluded = 1};
    struct links_request request;
    struct error error;
    struct arena arena = {0};
    struct text text = {0};
    char body[256];
    const int length = snprintf(body, sizeof body, "{\"attention\":[[[1]]]%s}", members);
    ck_assert(arena_reserve(&arena, forward_request_decoded_bytes((size_t)length)));
    ck_assert_msg(
        links_request_decode(&(struct request_body){BODY_JSON, body, (size_t)length}, &arena, &request, &error), "%s",
        error.message);
    ck_assert(links_answer_bytes(&request, 1, 1, NULL, &most));
    ck_assert(links_answer_encode(&request, &found, NULL, NULL, &text, &error));
    ck_assert_uint_le(text.length + 1, most);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.data, wanted, text.length) == 0, "%.*s",
                  (int)text.length, text.data);
    text_free(&text);
    arena_free(&arena);
}

#define TAIL "]}],\"n_rows\":4,\"n_excluded\":1}"

START_TEST(labels)
{
    expect_text("", 0, &(struct head_link){0.5f, 0, 2, 1},
                "{\"heads\":[{\"head\":0,\"links\":[{\"batch\":0,\"query\":2,\"key\":1,\"weight\":0.5}" TAIL);
    expect_text(",\"id\":12345678901234567890,\"tokens\":[[\"a\",\"b\"],[\"\\\"\",\"\xc3\xa9\",\"\"]]", 0,
                &(struct head_link){0.25f, 1, 0, 1},
                "{\"id\":12345678901234567890,\"heads\":[{\"head\":0,\"links\":[{\"batch\":1,\"query\":0,\"key\":1,"
                "\"query_token\":\"\\\"\",\"key_token\":\"\xc3\xa9\",\"weight\":0.25}" TAIL);
    expect_text(",\"tokens\":[[\"a\",\"b\",\"c\"]]", 2, &(struct head_link){1, 0, 0, 1},
                "{\"heads\":[{\"head\":0,\"links\":[{\"batch\":0,\"query\":0,\"key\":1,\"query_token\":\"c\","
                "\"key_token\":\"b\",\"weight\":1.0}" TAIL);
}
END_TEST

START_TEST(of_layers)
{
    struct head_link links[4] = {[0] = {0.5f, 0, 1, 0}, [3] = {0.25f, 0, 0, 1}};
    size_t counts[] = {1, 0, 0, 1}, most;
    const struct links_request request = {.top_k = 1};
    const struct links_found found = {.extent = {2, 2}, .links = {links, counts, 1, 0}, .n_rows = 2};
    static const char wanted[] =
        "{\"heads\":[{\"layer\":0,\"head\":0,\"links\":[{\"batch\":0,\"query\":1,\"key\":0,\"weight\":0.5}]},"
        "{\"layer\":0,\"head\":1,\"links\":[]},{\"layer\":1,\"head\":0,\"links\":[]},"
        "{\"layer\":1,\"head\":1,\"links\":[{\"batch\":0,\"query\":0,\"key\":1,\"weight\":0.25}]}],"
        "\"n_rows\":2,\"n_excluded\":0}";
    struct text text = {0};
    struct error error;
    ck_assert(links_answer_bytes(&request, 4, 1, NULL, &most));
    ck_assert(links_answer_encode(&request, &found, NULL, NULL, &text, &error));
    ck_assert_uint_le(text.length, most);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.data, wanted, text.length) == 0, "%.*s",
                  (int)text.length, text.data);
    text_free(&text);
}
END_TEST

START_TEST(of_some_layers)
{
    struct head_link links[2] = {{0.5f, 0, 1, 0}, {0.25f, 0, 0, 1}};
    size_t counts[] = {1, 1};
    uint32_t layers[] = {7, 4};
    const struct links_request request = {.top_k = 1,
                                          .analysis.forward = {.include_layers = layers, .n_include_layers = 2}};
    const struct links_found found = {.extent = {2, 1}, .links = {links, counts, 1, 0}, .n_rows = 2};
    static const char wanted[] =
        "{\"heads\":[{\"layer\":7,\"head\":0,\"links\":[{\"batch\":0,\"query\":1,\"key\":0,\"weight\":0.5}]},"
        "{\"layer\":4,\"head\":0,\"links\":[{\"batch\":0,\"query\":0,\"key\":1,\"weight\":0.25}]}],"
        "\"n_rows\":2,\"n_excluded\":0}";
    struct text text = {0};
    struct error error;
    ck_assert(links_answer_encode(&request, &found, NULL, NULL, &text, &error));
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.data, wanted, text.length) == 0, "%.*s",
                  (int)text.length, text.data);
    text_free(&text);
}
END_TEST

START_TEST(words)
{
    static const char wanted[] = "{\"heads\":[{\"head\":0,\"links\":[{\"batch\":1,\"query\":1,\"key\":0,"
                                 "\"query_token\":\"play##ing\",\"key_token\":\"she\",\"weight\":0.5}" TAIL;
    expect_text(
        ",\"words\":[[[0]],[[0],[2,3]]],\"tokens\":[[\"x\",\"\",\"\",\"\"],[\"she\",\"PAD\",\"play\",\"##ing\"]]", 0,
        &(struct head_link){0.5f, 1, 1, 0}, wanted);
    expect_text(",\"words\":[[[0]],[[0],[2,3]]],\"tokens\":[[\"x\"],[\"she\",\"play##ing\"]]", 0,
                &(struct head_link){0.5f, 1, 1, 0}, wanted);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("links_answer");
    TCase *c = tcase_create("links_answer");
    tcase_add_test(c, labels);
    tcase_add_test(c, of_layers);
    tcase_add_test(c, of_some_layers);
    tcase_add_test(c, words);
    suite_add_tcase(s, c);
    return s;
}
