#include "suite.h"
#include "json/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The name of the first member of `text`, an object. */
static struct json_key first_key(const char *text)
{
    struct json_reader r;
    struct json_key key;
    struct error error;
    json_reader_init(&r, text, strlen(text));
    ck_assert(json_enter_object(&r, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    return key;
}

START_TEST(names_are_compared_with_escapes_resolved)
{
    struct json_key plain = first_key("{\"input\":1}"), escaped = first_key("{\"inpu\\u0074\":1}");
    struct json_key nul = first_key("{\"a\\u0000b\":1}"), empty = first_key("{\"\":1}");
    ck_assert(json_key_is(&plain, "input"));
    ck_assert(!json_key_is(&plain, "inputs"));
    ck_assert(!json_key_is(&plain, "inpu"));
    ck_assert(!json_key_is(&plain, "Input"));
    ck_assert(json_key_is(&escaped, "input"));
    ck_assert(!json_key_is(&escaped, "inputs"));
    ck_assert(!json_key_is(&escaped, "inpu"));
    ck_assert(!json_key_is(&escaped, ""));
    ck_assert(!json_key_is(&nul, "a"));
    ck_assert(json_key_is(&empty, ""));
    ck_assert(!json_key_is(&empty, "a"));
}
END_TEST

START_TEST(copies_are_resolved)
{
    struct json_key key = first_key("{\"\\ud83d\\ude00 a\\u0000b\":1}"), plain = first_key("{\"input\":1}");
    size_t length;
    char *copy = json_key_copy(&key, &length);
    ck_assert_uint_eq(length, 8);
    ck_assert_int_eq(memcmp(copy, "\xF0\x9F\x98\x80 a\0b", 9), 0);
    free(copy);
    char written[64];
    ck_assert_uint_eq(json_key_write(&key, written), 8);
    ck_assert_int_eq(memcmp(written, "\xF0\x9F\x98\x80 a\0b", 9), 0);
    ck_assert_uint_eq(json_key_write(&plain, written), 5);
    ck_assert_str_eq(written, "input");
    copy = json_key_copy(&plain, NULL);
    ck_assert_str_eq(copy, "input");
    free(copy);
}
END_TEST

static const struct {
    const char *text;
    const char *pointer; /* of the second of two; NULL: none are the same */
} objects[] = {
    {"{}", NULL},
    {"{\"a\":1,\"b\":2,\"A\":3,\"\":4,\"aa\":5}", NULL},
    {"{\"a\":1,\"a\":2}", "/a"},
    {"{\"a\":1,\"b\":2,\"a\":3}", "/a"},
    {"{\"\":1,\"\":2}", "/"},
    {"{\"input\":1,\"inpu\\u0074\":2}", "/input"},
    {"{\"\\u0069nput\":1,\"input\":2}", "/input"},
    {"{\"\\u00e9\":1,\"\xC3\xA9\":2}", "/\xC3\xA9"},
    {"{\"a\":{\"a\":{\"a\":1}}}", NULL},
    {"{\"a\":{\"b\":1},\"b\":{\"a\":1}}", NULL},
    {"[{\"a\":1},{\"a\":1}]", NULL},
    {"[0,{\"x\":{\"b\":1,\"c\":[{\"b\":1}],\"b\":1}}]", "/1/x/b"},
    {"{\"a\":{\"b\":1},\"a\":1}", "/a"},
    {"{\"a\\u0000b\":1,\"a\\u0000c\":1}", NULL},
    {"{\"a\\u0000b\":1,\"a\\u0000b\":1}", "/a\xEF\xBF\xBD"
                                          "b"},
};

START_TEST(duplicates_are_found)
{
    struct json_reader r;
    struct error error;
    json_reader_init(&r, objects[_i].text, strlen(objects[_i].text));
    bool good = json_skip(&r, NULL, NULL, &error);
    ck_assert_int_eq(good, !objects[_i].pointer);
    if (!good) {
        ck_assert_int_eq(error.code, ERROR_DUPLICATE_MEMBER);
        ck_assert_str_eq(error.pointer, objects[_i].pointer);
    }
}
END_TEST

START_TEST(reading_goes_on_behind_a_duplicate)
{
    const char *text = "{\"a\":1, \"a\":[{}], \"b\":3, \"b\":4}";
    struct json_reader r;
    struct json_key key;
    struct error error;
    int64_t value;
    json_reader_init(&r, text, strlen(text));
    ck_assert(json_enter_object(&r, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_FAILED);
    ck_assert_int_eq(error.code, ERROR_DUPLICATE_MEMBER);
    ck_assert_str_eq(error.message, "the object has the member \"a\" twice; remove one");
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert(json_key_is(&key, "b"));
    ck_assert(json_read_integer(&r, 0, 9, &value, &error));
    ck_assert_int_eq(value, 3);
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_FAILED);
    ck_assert_int_eq(error.code, ERROR_DUPLICATE_MEMBER);
    ck_assert(json_read_integer(&r, 0, 9, &value, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_DONE);
    ck_assert(json_finish(&r, &error));
}
END_TEST

/* {"k0":0,"k1":0,...} of `count` members, `copies` times in an array. Free it. */
static char *object_text(unsigned count, unsigned copies, size_t *length)
{
    char *text = malloc((size_t)count * copies * 16 + 16), *to = text;
    *to++ = '[';
    for (unsigned copy = 0; copy < copies; copy++) {
        to += sprintf(to, copy ? ",{" : "{");
        for (unsigned i = 0; i < count; i++)
            to += sprintf(to, "%s\"k%u\":0", i ? "," : "", i);
        *to++ = '}';
    }
    *to++ = ']';
    *length = (size_t)(to - text);
    return text;
}

START_TEST(the_number_of_members_is_limited)
{
    struct json_reader r;
    struct error error;
    size_t length;
    char *text = object_text(JSON_MAX_MEMBERS, 2, &length);
    json_reader_init(&r, text, length);
    ck_assert_msg(json_skip(&r, NULL, NULL, &error), "%s", error.message);
    ck_assert_uint_eq(r.num_names, 0);
    free(text);

    text = object_text(JSON_MAX_MEMBERS + 1, 1, &length);
    json_reader_init(&r, text, length);
    ck_assert(!json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    ck_assert_str_eq(error.pointer, "/0/k256");
    ck_assert_ptr_nonnull(strstr(error.message, "at most 256"));
    free(text);
}
END_TEST

/* What a hostile text can cost: objects as large as they may be, many times over. 2 s are far more than is needed, and
 * far less than members compared with all before them in one object would take. */
START_TEST(many_members_cost_little)
{
    struct json_reader r;
    struct error error;
    size_t length;
    char *text = object_text(JSON_MAX_MEMBERS, 1000, &length);
    clock_t start = clock();
    json_reader_init(&r, text, length);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 10);
    free(text);

    text = object_text(1000000, 1, &length);
    start = clock();
    json_reader_init(&r, text, length);
    ck_assert(!json_skip(&r, NULL, NULL, &error));
    ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 10);
    free(text);
}
END_TEST

START_TEST(shown_names_are_cut_between_characters)
{
    char text[256], shown[NAMES_SHOWN_BYTES];
    strcpy(text, "{\"\\n");
    for (int i = 0; i < 50; i++)
        strcat(text, "\xC3\xA9");
    strcat(text, "\":1}");
    struct json_key key = first_key(text);
    names_show(&key, shown);
    ck_assert_uint_lt(strlen(shown), sizeof shown);
    ck_assert_uint_eq(strlen(shown), 1 + 2 * 33 + 3);
    ck_assert_int_eq(shown[0], '?');
    ck_assert_str_eq(shown + strlen(shown) - 5, "\xC3\xA9...");
}
END_TEST

START_TEST(plain_names_are_shown_as_they_are)
{
    char shown[NAMES_SHOWN_BYTES], text[256] = "";
    names_show_plain("a\\u0041\"\n\xC3\xA9", shown);
    ck_assert_str_eq(shown, "a\\u0041\"?\xC3\xA9");
    for (int i = 0; i < 50; i++)
        strcat(text, "\xC3\xA9");
    names_show_plain(text, shown);
    ck_assert_uint_eq(strlen(shown), 2 * 34 + 3);
    ck_assert_str_eq(shown + strlen(shown) - 5, "\xC3\xA9...");
    names_show_plain("", shown);
    ck_assert_str_eq(shown, "");
}
END_TEST

START_TEST(unknown_names_are_explained)
{
    static const char *const known[] = {"input", "bias"};
    char text[128], little[20];
    names_unknown("tensor", "inptu", known, 2, text, sizeof text);
    ck_assert_str_eq(text, "unknown tensor \"inptu\"; did you mean \"input\"?");
    names_unknown("tensor", "zzzz", known, 2, text, sizeof text);
    ck_assert_str_eq(text, "unknown tensor \"zzzz\"; the tensors here are \"input\", \"bias\"");
    names_unknown("member", "zzzz", known, 0, text, sizeof text);
    ck_assert_str_eq(text, "unknown member \"zzzz\"; there are no members here");
    for (size_t size = 1; size <= sizeof little; size++) {
        names_unknown("tensor", "zzzz", known, 2, little, size);
        ck_assert_uint_eq(strlen(little), size - 1);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("names");
    TCase *cases = tcase_create("names");
    tcase_add_test(cases, names_are_compared_with_escapes_resolved);
    tcase_add_test(cases, copies_are_resolved);
    tcase_add_loop_test(cases, duplicates_are_found, 0, sizeof objects / sizeof *objects);
    tcase_add_test(cases, reading_goes_on_behind_a_duplicate);
    tcase_add_test(cases, the_number_of_members_is_limited);
    tcase_add_test(cases, many_members_cost_little);
    tcase_add_test(cases, shown_names_are_cut_between_characters);
    tcase_add_test(cases, plain_names_are_shown_as_they_are);
    tcase_add_test(cases, unknown_names_are_explained);
    suite_add_tcase(suite, cases);
    return suite;
}
