#include "suite.h"
#include "json/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The error of skipping the whole text. */
static struct error skip_error(const char *text)
{
    struct json_reader r;
    struct error error = {0};
    json_reader_init(&r, text, strlen(text));
    ck_assert_msg(!json_skip(&r, NULL, NULL, &error) || !json_finish(&r, &error), "%s", text);
    return error;
}

static const struct {
    const char *text, *pointer, *message;
} faults[] = {
    {"", "", "not JSON: the text is empty"},
    {" \n\t ", "", "not JSON: the text is empty"},
    {"{\"a\":1", "", "not JSON: the text ends at byte 6; expected ',' or '}'"},
    {"{\"input\":1 \"b\":2}", "", "not JSON: expected ',' or '}' at byte 11, got '\"'"},
    {"{\"a\":[1,2,x]}", "/a/2", "not JSON: expected a value at byte 10, got 'x'"},
    {"[1,]", "/1", "not JSON: expected a value at byte 3, got ']'"},
    {"{\"a\":1,}", "", "not JSON: expected a member's name in double quotes at byte 7, got '}'"},
    {"{'a':1}", "", "not JSON: expected a member's name in double quotes or '}' at byte 1, got \"'\""},
    {"{\"a\" 1}", "", "not JSON: expected ':' at byte 5, got '1'"},
    {"[NaN]", "/0", "not JSON: NaN and Infinity are not JSON numbers, at byte 1"},
    {"{\"a\":{\"b\":-Infinity}}", "/a/b", "not JSON: NaN and Infinity are not JSON numbers, at byte 11"},
    {"nan", "", "not JSON: NaN and Infinity are not JSON numbers, at byte 0"},
    {"nul", "", "not JSON: expected a value at byte 0, got 'n'"},
    {"01", "", "not JSON: expected no digit behind a leading zero at byte 1, got '1'"},
    {"[1.]", "/0", "not JSON: expected a digit at byte 3, got ']'"},
    {"1 2", "", "not JSON: expected the end of the text behind the document at byte 2, got '2'"},
    {"\xEF\xBB\xBF{}", "", "not JSON: the text begins with a byte order mark; leave it out"},
    {"[\xC3\xA9]", "/0", "not JSON: expected a value at byte 1, got '\xC3\xA9'"},
    {"[\xFF]", "/0", "not JSON: expected a value at byte 1, got the byte 0xFF"},
    {"[\"a\nb\"]", "/0",
     "not JSON: expected an escape (\\n, \\t, \\u00XX) instead of a control character at byte 3, got the byte 0x0A"},
    {"[[0,1],[2,{\"a/b~c\":[?]}]]", "/1/1/a~1b~0c/0", "not JSON: expected a value at byte 20, got '?'"},
};

START_TEST(faults_have_their_place)
{
    struct error error = skip_error(faults[_i].text);
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    ck_assert(error.has_pointer);
    ck_assert_str_eq(error.pointer, faults[_i].pointer);
    ck_assert_str_eq(error.message, faults[_i].message);
}
END_TEST

START_TEST(pointers_are_unescaped_names)
{
    struct error error = skip_error("{\"\\u0061~\\/\\ud83d\\ude00\\u0000\\n\": ?}");
    ck_assert_str_eq(error.pointer, "/a~0~1\xF0\x9F\x98\x80\xEF\xBF\xBD\n");
}
END_TEST

START_TEST(pointers_follow_the_walk)
{
    const char *text = "{\"a\":[10,{\"b\":20},[]],\"c\":30}";
    struct json_reader r;
    struct json_key key;
    struct error error;
    char pointer[64];
    json_reader_init(&r, text, strlen(text));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "");
    ck_assert(json_enter_object(&r, &error));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "");
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a");
    ck_assert(json_enter_array(&r, &error));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a");
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a/0");
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a/0");
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a/1");
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a/2");
    ck_assert_int_eq(json_next_element(&r, &error), JSON_DONE);
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/a");
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "/c");
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_DONE);
    ck_assert_str_eq(json_pointer(&r, pointer, sizeof pointer), "");
}
END_TEST

START_TEST(long_pointers_are_cut_between_characters)
{
    const char *text = "{\"abc\":{\"\xC3\xA9~\":1}}", *whole = "/abc/\xC3\xA9~0";
    static const size_t kept[] = {0, 1, 2, 3, 4, 5, 5, 7, 7, 9}; /* bytes of `whole` for each room */
    struct json_reader r;
    struct json_key key;
    struct error error;
    char pointer[16];
    json_reader_init(&r, text, strlen(text));
    for (int level = 0; level < 2; level++) {
        ck_assert(json_enter_object(&r, &error));
        ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    }
    for (size_t room = 0; room < sizeof kept / sizeof *kept; room++) {
        memset(pointer, '#', sizeof pointer);
        json_pointer(&r, pointer, room + 1);
        ck_assert_uint_eq(strlen(pointer), kept[room]);
        ck_assert_int_eq(memcmp(pointer, whole, kept[room]), 0);
        ck_assert_int_eq(pointer[room + 1], '#');
    }
}
END_TEST

START_TEST(lines_count_from_one)
{
    const char *text = "\n{\n  \"a\": 1,\r\n  \"b\": [\n    true,\n\n    \"x\"\n  ]\n}";
    struct json_reader r;
    struct json_key key;
    struct error error;
    json_reader_init(&r, text, strlen(text));
    ck_assert_uint_eq(json_line(&r, text), 1);
    ck_assert(json_enter_object(&r, &error));
    ck_assert_uint_eq(json_line(&r, r.at), 2);
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert_uint_eq(json_line(&r, r.at), 3);
    ck_assert_uint_eq(json_line(&r, key.raw), 3);
    ck_assert(!json_read_bool(&r, &(bool){false}, &error));
    ck_assert_uint_eq(json_line(&r, r.at), 3);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_member(&r, &key, &error), JSON_ITEM);
    ck_assert_uint_eq(json_line(&r, r.at), 4);
    ck_assert(json_enter_array(&r, &error));
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert_uint_eq(json_line(&r, r.at), 5);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_uint_eq(json_line(&r, r.at), 5);
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert_uint_eq(json_line(&r, r.at), 7);
    ck_assert_uint_eq(json_line(&r, r.end), 9);
}
END_TEST

START_TEST(a_member_by_itself_has_its_place)
{
    struct json_reader r;
    struct error error;
    bool value;
    json_reader_init_member(&r, "causal", "[1, true, 7", 11);
    ck_assert(json_enter_array(&r, &error));
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(!json_read_bool(&r, &value, &error));
    ck_assert_str_eq(error.pointer, "/causal/0");
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(json_read_bool(&r, &value, &error));
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(json_skip(&r, NULL, NULL, &error));
    ck_assert_int_eq(json_next_element(&r, &error), JSON_FAILED);
    ck_assert_str_eq(error.pointer, "/causal");
    json_reader_init_member(&r, "causal", "true 1", 6);
    ck_assert(json_read_bool(&r, &value, &error));
    ck_assert(!json_finish(&r, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
}
END_TEST

START_TEST(pointers_of_plain_names)
{
    char pointer[16];
    ck_assert_str_eq(json_pointer_of("a/b~c\\d", pointer, sizeof pointer), "/a~1b~0c\\d");
    ck_assert_str_eq(json_pointer_of("", pointer, sizeof pointer), "/");
    ck_assert_str_eq(json_pointer_of("0123456789abcdefgh", pointer, sizeof pointer), "/0123456789abcd");
    ck_assert_str_eq(json_pointer_of("0123456789abc/", pointer, sizeof pointer), "/0123456789abc");
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("place");
    TCase *cases = tcase_create("place");
    tcase_add_loop_test(cases, faults_have_their_place, 0, sizeof faults / sizeof *faults);
    tcase_add_test(cases, pointers_are_unescaped_names);
    tcase_add_test(cases, pointers_follow_the_walk);
    tcase_add_test(cases, long_pointers_are_cut_between_characters);
    tcase_add_test(cases, lines_count_from_one);
    tcase_add_test(cases, a_member_by_itself_has_its_place);
    tcase_add_test(cases, pointers_of_plain_names);
    suite_add_tcase(suite, cases);
    return suite;
}
