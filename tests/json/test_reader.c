#include "jansson_accepts.h"
#include "suite.h"
#include "json/reader.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool skip(const char *text, size_t length, struct error *error)
{
    struct json_reader r;
    json_reader_init(&r, text, length);
    return json_skip(&r, NULL, NULL, error) && json_finish(&r, error);
}

static const struct {
    const char *text;
    bool valid;
} texts[] = {
    {"{}", true},
    {"[]", true},
    {"\"\"", true},
    {"0", true},
    {"true", true},
    {"false", true},
    {"null", true},
    {" \t\r\n{ \"a\" : [ 1 , -2.5e-3 , \"x\" , null , true , false , { } , [ ] ] }\n", true},
    {"[[[[]]],{\"a\":{\"b\":[{}]}}]", true},
    {"-0", true},
    {"1E5", true},
    {"1e400", true},
    {"[0]", true},
    {"", false},
    {" ", false},
    {"{", false},
    {"[", false},
    {"}", false},
    {"]", false},
    {"[1,2", false},
    {"{\"a\"", false},
    {"{\"a\":", false},
    {"{\"a\":}", false},
    {"{\"a\":1", false},
    {"{\"a\":1,", false},
    {"{,}", false},
    {"[,]", false},
    {"[1,]", false},
    {"[1,,2]", false},
    {"[1 2]", false},
    {"{\"a\":1,}", false},
    {"{\"a\":1 \"b\":2}", false},
    {"{\"a\",1}", false},
    {"{\"a\"}", false},
    {"{1:2}", false},
    {"{a:1}", false},
    {"{'a':1}", false},
    {"[1}", false},
    {"{\"a\":1]", false},
    {"[]]", false},
    {"{}{}", false},
    {"1 1", false},
    {"1,", false},
    {"tru", false},
    {"truE", false},
    {"True", false},
    {"nul", false},
    {"nulll", false},
    {"fals", false},
    {"undefined", false},
    {"NaN", false},
    {"[NaN]", false},
    {"Infinity", false},
    {"-Infinity", false},
    {"+1", false},
    {"01", false},
    {"-01", false},
    {".5", false},
    {"-.5", false},
    {"1.", false},
    {"1e", false},
    {"1e+", false},
    {"0x1", false},
    {"--1", false},
    {"1.2.3", false},
    {"1e2e3", false},
    {"1f", false},
    {"\"", false},
    {"\"a", false},
    {"'a'", false},
    {"\"\n\"", false},
    {"\"\\x\"", false},
    {"\"\\ud800\"", false},
    {"\"\xFF\"", false},
    {"// c\n1", false},
    {"/* */1", false},
    {"\xEF\xBB\xBF{}", false},
    {"[1]\x0b", false},
    {"\xC2\xA0"
     "1",
     false},
    {"[\"a\":1]", false},
    {"{\"a\":1,\"b\"}", false},
};

/* jansson, an independent reader, agrees, but for numbers beyond double. */
START_TEST(only_json_is_accepted)
{
    const char *text = texts[_i].text;
    struct error error = {0};
    bool valid = skip(text, strlen(text), &error);
    ck_assert_msg(valid == texts[_i].valid, "%s: %s", text, error.message);
    ck_assert(valid || error.code == ERROR_NOT_JSON);
    ck_assert_msg(jansson_accepts(text, strlen(text)) == valid || strcmp(text, "1e400") == 0, "%s", text);
}
END_TEST

START_TEST(a_zero_byte_is_no_end)
{
    struct error error;
    ck_assert(!skip("1\0", 2, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    ck_assert(!skip("\"\0\"", 3, &error));
    ck_assert(!skip("[\0]", 3, &error));
}
END_TEST

/* Where every integer will do, none is named as the least. */
START_TEST(any_integer_is_asked_for)
{
    struct json_reader r;
    struct error error;
    int64_t integer;
    json_reader_init(&r, "[]", 2);
    ck_assert(!json_read_integer(&r, INT64_MIN, INT64_MAX, &integer, &error));
    ck_assert_str_eq(error.message, "expected an integer, got an array");
}
END_TEST

/* Cut anywhere, the document is no JSON; in memory of just that size, so that a sanitizer sees what is read behind the
 * end. */
START_TEST(a_cut_document_is_refused)
{
    const char *text = "{\"input\": [[-1.25e-3, 20], [true, null]], \"\\ud83d\\ude00\\n\": {\"a\": "
                       "\"\xC3\xA9\xE2\x82\xAC tail\", \"b\": false}, \"c\": []}";
    size_t length = strlen(text);
    struct error error;
    for (size_t cut = 0; cut < length; cut++) {
        char *copy = malloc(cut ? cut : 1);
        memcpy(copy, text, cut);
        ck_assert_msg(!skip(copy, cut, &error), "cut to %zu bytes", cut);
        ck_assert_int_eq(error.code, ERROR_NOT_JSON);
        free(copy);
    }
    ck_assert(skip(text, length, &error));
}
END_TEST

START_TEST(depth_is_limited)
{
    char text[2 * JSON_MAX_DEPTH + 3] = "";
    struct error error;
    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    ck_assert(skip(text, 2 * JSON_MAX_DEPTH, &error));
    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    ck_assert(!skip(text, 2 * JSON_MAX_DEPTH + 2, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    ck_assert_str_eq(error.message, "objects and arrays are nested deeper than 32, at byte 32");
    ck_assert_uint_eq(strlen(error.pointer), 2 * JSON_MAX_DEPTH);

    static const char *const units[] = {"[", "{\"a\":", "[{\"\":"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]), count = 1000000 / unit;
        char *deep = malloc(unit * count);
        for (size_t k = 0; k < count; k++)
            memcpy(deep + k * unit, units[i], unit);
        ck_assert(!skip(deep, unit * count, &error));
        ck_assert_ptr_nonnull(strstr(error.message, "nested deeper than 32"));
        free(deep);
    }
}
END_TEST

START_TEST(peeks_at_types)
{
    static const struct {
        const char *text;
        enum json_type type;
        const char *name;
    } values[] = {
        {"{", JSON_OBJECT, "an object"}, {" [", JSON_ARRAY, "an array"}, {"\"", JSON_STRING, "a string"},
        {"-1", JSON_NUMBER, "a number"}, {"9", JSON_NUMBER, "a number"}, {"\ttrue", JSON_TRUE, "true"},
        {"false", JSON_FALSE, "false"},  {"null", JSON_NULL, "null"},    {"", JSON_END, "the end of the text"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct json_reader r;
        json_reader_init(&r, values[i].text, strlen(values[i].text));
        ck_assert_int_eq(json_peek(&r), values[i].type);
        ck_assert_str_eq(json_type_name(values[i].type), values[i].name);
    }
    static const char *const invalid[] = {"x", "+", ".", "N", "I", "'", "}", "]", ",", ":", "\xFF"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        struct json_reader r;
        json_reader_init(&r, invalid[i], 1);
        ck_assert_int_eq(json_peek(&r), JSON_INVALID);
    }
}
END_TEST

START_TEST(reads_values)
{
    const char *text = "[\"a\\u00e9\\u0000b\", true, false, null, 1.5, -0.0, 1e2, 9007199254740993, \"\"]";
    struct json_reader r;
    struct error error;
    char *string;
    size_t length;
    bool truth;
    double number;
    int64_t integer;
    json_reader_init(&r, text, strlen(text));
    ck_assert(json_enter_array(&r, &error));
#define NEXT() ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM)
    NEXT();
    ck_assert(!json_read_string(&r, &string, NULL, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/0");
    struct json_reader ahead = r;
    struct json_key in_place;
    ck_assert(json_read_in_place(&ahead, &in_place, &error));
    ck_assert_ptr_eq(in_place.raw, text + 2);
    ck_assert_uint_eq(in_place.length, strlen("a\\u00e9\\u0000b"));
    ck_assert(in_place.escaped);
    ck_assert_int_eq(json_next_element(&ahead, &error), JSON_ITEM);
    ck_assert(!json_read_in_place(&ahead, &in_place, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/1");
    ck_assert(json_read_string(&r, &string, &length, &error)); /* the reader still stood before it */
    ck_assert_uint_eq(length, 5);
    ck_assert_int_eq(memcmp(string, "a\xC3\xA9\0b", 6), 0);
    free(string);
    NEXT();
    ck_assert(json_read_bool(&r, &truth, &error) && truth);
    NEXT();
    ck_assert(json_read_bool(&r, &truth, &error) && !truth);
    NEXT();
    ck_assert(json_read_null(&r, &error));
    NEXT();
    ck_assert(json_read_double(&r, &number, &error));
    ck_assert_double_eq(number, 1.5);
    NEXT();
    ck_assert(json_read_double(&r, &number, &error));
    ck_assert(number == 0 && __builtin_signbit(number));
    NEXT();
    ck_assert(json_read_integer(&r, 0, 1000, &integer, &error));
    ck_assert_int_eq(integer, 100);
    NEXT();
    ck_assert(json_read_integer(&r, INT64_MIN, INT64_MAX, &integer, &error));
    ck_assert_int_eq(integer, INT64_C(9007199254740993));
    NEXT();
    ck_assert(json_read_string(&r, &string, NULL, &error));
    ck_assert_str_eq(string, "");
    free(string);
    ck_assert_int_eq(json_next_element(&r, &error), JSON_DONE);
    ck_assert(json_finish(&r, &error));
#undef NEXT
}
END_TEST

enum reading { OBJECT, ARRAY, STRING, BOOL, DOUBLE, INTEGER, NOTHING };

static const struct {
    const char *text;
    enum reading reading;
    enum error_code code;
    const char *message;
} wrong[] = {
    {"[]", OBJECT, ERROR_INVALID, "expected an object, got an array"},
    {"{}", ARRAY, ERROR_INVALID, "expected an array, got an object"},
    {"1", STRING, ERROR_INVALID, "expected a string, got a number"},
    {"\"true\"", BOOL, ERROR_INVALID, "expected true or false, got a string"},
    {"null", DOUBLE, ERROR_INVALID, "expected a number, got null"},
    {"true", NOTHING, ERROR_INVALID, "expected null, got true"},
    {"\"5\"", INTEGER, ERROR_INVALID, "expected an integer from -5 to 10, got a string"},
    {"1.5", INTEGER, ERROR_INVALID, "expected an integer from -5 to 10, got 1.5"},
    {"11", INTEGER, ERROR_INVALID, "expected an integer from -5 to 10, got 11"},
    {"-6e0", INTEGER, ERROR_INVALID, "expected an integer from -5 to 10, got -6e0"},
    {"1e400", DOUBLE, ERROR_INVALID,
     "expected a number from -1.7976931348623157e308 to 1.7976931348623157e308, got 1e400"},
    {"10000000000000000000000000000000000000000000000000", INTEGER, ERROR_INVALID,
     "expected an integer from -5 to 10, got 1000000000000000000000000000000000000000..."},
    {"", STRING, ERROR_NOT_JSON, "not JSON: the text is empty"},
    {"x", OBJECT, ERROR_NOT_JSON, "not JSON: expected a value at byte 0, got 'x'"},
    {"tru", DOUBLE, ERROR_NOT_JSON, "not JSON: expected a value at byte 0, got 't'"},
    {"truf", BOOL, ERROR_NOT_JSON, "not JSON: expected a value at byte 0, got 't'"},
    {"nil", NOTHING, ERROR_NOT_JSON, "not JSON: expected a value at byte 0, got 'n'"},
    {"01", DOUBLE, ERROR_NOT_JSON, "not JSON: expected no digit behind a leading zero at byte 1, got '1'"},
    {"-", INTEGER, ERROR_NOT_JSON, "not JSON: the text ends at byte 1; expected a digit"},
    {"\"a", STRING, ERROR_NOT_JSON, "not JSON: the text ends at byte 2; expected the string's closing quote"},
    {"NaN", DOUBLE, ERROR_NOT_JSON, "not JSON: NaN and Infinity are not JSON numbers, at byte 0"},
};

START_TEST(wrong_values_leave_all_as_it_was)
{
    struct json_reader r;
    struct error error = {0};
    char *string = NULL;
    bool truth = true, good = false;
    double number = 7;
    int64_t integer = 7;
    json_reader_init(&r, wrong[_i].text, strlen(wrong[_i].text));
    switch (wrong[_i].reading) {
    case OBJECT:
        good = json_enter_object(&r, &error);
        break;
    case ARRAY:
        good = json_enter_array(&r, &error);
        break;
    case STRING:
        good = json_read_string(&r, &string, NULL, &error);
        break;
    case BOOL:
        good = json_read_bool(&r, &truth, &error);
        break;
    case DOUBLE:
        good = json_read_double(&r, &number, &error);
        break;
    case INTEGER:
        good = json_read_integer(&r, -5, 10, &integer, &error);
        break;
    case NOTHING:
        good = json_read_null(&r, &error);
    }
    ck_assert(!good);
    ck_assert_int_eq(error.code, wrong[_i].code);
    ck_assert_str_eq(error.message, wrong[_i].message);
    ck_assert(error.has_pointer);
    ck_assert_str_eq(error.pointer, "");
    ck_assert_ptr_null(string);
    ck_assert(truth && number == 7 && integer == 7 && r.depth == 0);
    if (error.code == ERROR_INVALID)
        ck_assert_ptr_eq(r.at, r.begin);
}
END_TEST

START_TEST(skipping_tells_where_the_value_was)
{
    const char *text = "[ 1 , {\"a\": [2]} ,\"x\" ]", *begin, *end;
    static const char *const values[] = {"1", "{\"a\": [2]}", "\"x\""};
    struct json_reader r;
    struct error error;
    json_reader_init(&r, text, strlen(text));
    ck_assert(json_enter_array(&r, &error));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
        ck_assert(json_skip(&r, &begin, &end, &error));
        ck_assert_uint_eq((size_t)(end - begin), strlen(values[i]));
        ck_assert_int_eq(memcmp(begin, values[i], strlen(values[i])), 0);
        ck_assert_uint_eq(r.depth, 1);
    }
    ck_assert_int_eq(json_next_element(&r, &error), JSON_DONE);
}
END_TEST

/* What is ignored may have any number of members, even the same; its syntax is that of JSON. */
START_TEST(ignoring_checks_the_syntax_only)
{
    struct json_reader r;
    struct error error;
    char *text = malloc(32 * (JSON_MAX_MEMBERS + 2)), *at = text;
    at += sprintf(at, "[{");
    for (int i = 0; i <= JSON_MAX_MEMBERS; i++)
        at += sprintf(at, "%s\"name%d\": {}", i ? ", " : "", i);
    at += sprintf(at, "}, {\"a\": 1, \"a\": {\"b\": 1, \"b\": [2]}}, 3, {\"a\": 1 2}]");
    json_reader_init(&r, text, (size_t)(at - text));
    ck_assert(json_enter_array(&r, &error));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
        struct json_reader other = r;
        ck_assert(json_skip(&other, NULL, NULL, &error) == (i == 2));
        ck_assert(json_ignore(&r, &error));
        ck_assert_uint_eq(r.depth, 1);
        ck_assert_uint_eq(r.num_names, 0);
    }
    ck_assert_int_eq(json_next_element(&r, &error), JSON_ITEM);
    ck_assert(!json_ignore(&r, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_JSON);
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("reader");
    TCase *cases = tcase_create("reader");
    tcase_add_loop_test(cases, only_json_is_accepted, 0, sizeof texts / sizeof *texts);
    tcase_add_test(cases, a_zero_byte_is_no_end);
    tcase_add_test(cases, any_integer_is_asked_for);
    tcase_add_test(cases, a_cut_document_is_refused);
    tcase_add_test(cases, depth_is_limited);
    tcase_add_test(cases, peeks_at_types);
    tcase_add_test(cases, reads_values);
    tcase_add_loop_test(cases, wrong_values_leave_all_as_it_was, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(cases, skipping_tells_where_the_value_was);
    tcase_add_test(cases, ignoring_checks_the_syntax_only);
    suite_add_tcase(suite, cases);
    return suite;
}
