/* src/telemetry/log_format.c: lines that jansson reads back, of bounded length. */
#include "suite.h"

#include "telemetry/log_format.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct timespec NOW = {.tv_sec = 1769860800,
                                    .tv_nsec = 123456789}; /* date -u -d 2026-01-31T12:00:00 +%s */

static char line[LOG_LINE_BYTES + 1];

static const char *format_line(enum log_format format, const char *event, const struct log_field *fields, size_t count)
{
    size_t length = log_format_line(line, format, &NOW, LOG_INFO, event, fields, count);
    ck_assert_uint_le(length, LOG_LINE_BYTES);
    ck_assert_uint_gt(length, 0);
    line[length] = '\0';
    ck_assert_uint_eq(strlen(line), length);
    ck_assert_int_eq(line[length - 1], '\n');
    ck_assert_ptr_eq(strchr(line, '\n'), line + length - 1);
    return line;
}

#define JSON_LINE(event, ...)                                             \
    format_line(LOG_JSON, event, (const struct log_field[]){__VA_ARGS__}, \
                sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
#define TEXT_LINE(event, ...)                                             \
    format_line(LOG_TEXT, event, (const struct log_field[]){__VA_ARGS__}, \
                sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(document != NULL, "%s in %s", error.text, text);
    return document;
}

START_TEST(json_line)
{
    static const char *const weights[] = {"demo", "layer 3"};
    ck_assert_str_eq(JSON_LINE("listening", LOG_STRING("address", "127.0.0.1:8080"), LOG_STRING("none", NULL),
                               LOG_INTEGER("port", 8080), LOG_NUMBER("ms", 1.25), LOG_BOOL("tls", false),
                               LOG_STRINGS("weights", weights, 2), LOG_STRINGS("no", NULL, 0),
                               LOG_STRINGS("empty", weights, 0)),
                     "{\"ts\":\"2026-01-31T12:00:00.123Z\",\"level\":\"info\",\"event\":\"listening\","
                     "\"address\":\"127.0.0.1:8080\",\"port\":8080,\"ms\":1.25,\"tls\":false,"
                     "\"weights\":[\"demo\",\"layer 3\"],\"empty\":[]}\n");
    ck_assert_str_eq(format_line(LOG_JSON, "stopped", NULL, 0),
                     "{\"ts\":\"2026-01-31T12:00:00.123Z\",\"level\":\"info\",\"event\":\"stopped\"}\n");
}
END_TEST

START_TEST(text_line)
{
    static const char *const weights[] = {"demo", "layer 3", "a,b"};
    ck_assert_str_eq(TEXT_LINE("listening", LOG_STRING("address", "[::1]:8080"), LOG_STRING("none", NULL),
                               LOG_INTEGER("port", -1), LOG_NUMBER("ms", 0.5), LOG_BOOL("tls", true),
                               LOG_STRINGS("weights", weights, 3)),
                     "2026-01-31T12:00:00.123Z info listening address=[::1]:8080 port=-1 ms=0.5 tls=true "
                     "weights=demo,\"layer 3\",\"a,b\"\n");
    ck_assert_str_eq(TEXT_LINE("e", LOG_STRING("a", "two words"), LOG_STRING("b", ""), LOG_STRING("c", "x=y"),
                               LOG_STRING("d", "say \"hi\""), LOG_STRING("e", "one\ntwo\033[31m")),
                     "2026-01-31T12:00:00.123Z info e a=\"two words\" b=\"\" c=\"x=y\" d=\"say \\\"hi\\\"\" "
                     "e=\"one\\ntwo\\u001b[31m\"\n");
}
END_TEST

START_TEST(strings_are_escaped)
{
    char every[256]; /* the byte values 1..127 */
    for (int c = 1; c < 128; c++)
        every[c - 1] = (char)c;
    every[127] = '\0';
    json_t *document =
        parse(JSON_LINE("e", LOG_STRING("every", every), LOG_STRING("wide", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80")));
    ck_assert_str_eq(json_string_value(json_object_get(document, "every")), every);
    ck_assert_str_eq(json_string_value(json_object_get(document, "wide")), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    json_decref(document);
}
END_TEST

#define FFFD "\xEF\xBF\xBD"

START_TEST(invalid_utf8_is_replaced)
{
    static const char *const cases[][2] = {
        {"a\xFFz", "a" FFFD "z"},
        {"\xC0\xAF", FFFD FFFD},                   /* overlong */
        {"\xED\xA0\x80", FFFD FFFD FFFD},          /* a surrogate */
        {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* above U+10FFFF */
        {"cut \xE2\x82", "cut " FFFD FFFD},
        {"\x80", FFFD},
        {"\xC3(", FFFD "("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = parse(JSON_LINE("e", LOG_STRING("s", cases[i][0])));
        ck_assert_str_eq(json_string_value(json_object_get(document, "s")), cases[i][1]);
        json_decref(document);
    }
}
END_TEST

START_TEST(numbers_have_up_to_three_decimals)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.001, "0.001"},
        {0.0004, "0"},
        {-0.0004, "0"},
        {0.0006, "0.001"},
        {12.340, "12.34"},
        {12.3456, "12.346"},
        {0.9996, "1"},
        {100, "100"},
        {7.05, "7.05"},
        {123456789.125, "123456789.125"},
        {999999999999999, "999999999999999"},
        {1e15, "1000000000000000.0"},
        {999999999999998.875, "999999999999998.875"},
        {-1e18, "-1000000000000000000.0"},
        {1e22, "10000000000000000000000.0"},
        {NAN, "null"},
        {INFINITY, "null"},
    };
    /* A comma in the locale, where there is such a one, changes nothing. */
    const char *locales[] = {"C", "de_DE.UTF-8"};
    for (size_t l = 0; l < 2; l++) {
        setlocale(LC_ALL, locales[l]);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char expected[128] = " n=";
            strcat(strcat(expected, cases[i].text), "\n");
            const char *text = TEXT_LINE("e", LOG_NUMBER("n", cases[i].value));
            ck_assert_str_eq(strstr(text, " n="), expected);
        }
    }
    json_decref(parse(JSON_LINE("e", LOG_NUMBER("most", 1.7976931348623157e308), LOG_NUMBER("none", NAN))));
}
END_TEST

START_TEST(integers)
{
    json_t *document = parse(JSON_LINE("e", LOG_INTEGER("least", INT64_MIN), LOG_INTEGER("most", INT64_MAX),
                                       LOG_INTEGER("zero", 0), LOG_INTEGER("minus", -10)));
    ck_assert(json_integer_value(json_object_get(document, "least")) == INT64_MIN);
    ck_assert(json_integer_value(json_object_get(document, "most")) == INT64_MAX);
    ck_assert(json_integer_value(json_object_get(document, "minus")) == -10);
    ck_assert(json_is_integer(json_object_get(document, "zero")));
    json_decref(document);
}
END_TEST

/* Against the C library's calendar. */
START_TEST(time_is_utc_with_milliseconds)
{
    /* Each day of 400 years, after which the calendar repeats itself, and each second of a day. */
    for (time_t time = 0; time < INT64_C(146097) * 86400; time += 86399) {
        struct timespec now = {.tv_sec = time, .tv_nsec = 7999999};
        struct tm calendar;
        char expected[64];
        gmtime_r(&time, &calendar);
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.007Z error e\n", &calendar);
        size_t length = log_format_line(line, LOG_TEXT, &now, LOG_ERROR, "e", NULL, 0);
        line[length] = '\0';
        ck_assert_str_eq(line, expected);
    }
}
END_TEST

START_TEST(longest_strings_are_cut)
{
    enum { HUGE_BYTES = 1 << 20 };
    char *huge = malloc(HUGE_BYTES + 1), *also = malloc(HUGE_BYTES + 1), middle[2001];
    ck_assert_ptr_nonnull(huge);
    ck_assert_ptr_nonnull(also);
    memset(huge, 'x', HUGE_BYTES);
    huge[HUGE_BYTES] = '\0';
    memset(middle, 'm', 2000);
    middle[2000] = '\0';
    for (size_t i = 0; i < HUGE_BYTES; i++)
        also[i] = "\xE2\x82\xAC"[i % 3]; /* and the last one is cut already */
    also[HUGE_BYTES] = '\0';
    json_t *document = parse(JSON_LINE("e", LOG_STRING("huge", huge), LOG_STRING("middle", middle),
                                       LOG_STRING("also", also), LOG_INTEGER("last", 7)));
    ck_assert_str_eq(json_string_value(json_object_get(document, "middle")), middle);
    ck_assert_int_eq(json_integer_value(json_object_get(document, "last")), 7);
    const char *cut = json_string_value(json_object_get(document, "huge"));
    size_t length = strlen(cut);
    ck_assert_uint_gt(length, 2900); /* (8192 - 2000 - the rest) / 2 */
    ck_assert_uint_lt(length, 3100);
    ck_assert_str_eq(cut + length - 3, "\xE2\x80\xA6");
    cut = json_string_value(json_object_get(document, "also"));
    ck_assert_str_eq(cut + strlen(cut) - 6, "\xE2\x82\xAC\xE2\x80\xA6");
    json_decref(document);
    free(huge);
    free(also);
}
END_TEST

START_TEST(longest_line_that_fits_is_whole)
{
    char text[LOG_LINE_BYTES];
    size_t frame = strlen(JSON_LINE("e", LOG_STRING("s", "")));
    for (size_t more = 0; more < 2; more++) {
        memset(text, 'x', sizeof text);
        text[LOG_LINE_BYTES - frame + more] = '\0';
        size_t length = strlen(JSON_LINE("e", LOG_STRING("s", text)));
        ck_assert_uint_ge(length, LOG_LINE_BYTES - 3 * more);
        ck_assert_int_eq(strstr(line, "\xE2\x80\xA6") != NULL, more > 0);
        json_decref(parse(line));
    }
}
END_TEST

START_TEST(fields_beyond_the_line_are_left_out)
{
    static const char *many[5000];
    for (size_t i = 0; i < 5000; i++)
        many[i] = "name";
    json_t *document =
        parse(JSON_LINE("e", LOG_STRING("first", "1"), LOG_STRINGS("many", many, 5000), LOG_STRING("last", "2")));
    ck_assert_str_eq(json_string_value(json_object_get(document, "first")), "1");
    ck_assert_str_eq(json_string_value(json_object_get(document, "last")), "2");
    ck_assert_ptr_null(json_object_get(document, "many"));
    json_decref(document);
}
END_TEST

START_TEST(names)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    enum log_level level = LOG_ERROR;
    enum log_format format = LOG_JSON;
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(log_level_from_name(levels[i], &level));
        ck_assert_uint_eq(level, i);
        ck_assert_str_eq(log_level_name(level), levels[i]);
    }
    ck_assert(!log_level_from_name("loud", &level));
    ck_assert_uint_eq(level, LOG_ERROR);
    ck_assert(log_format_from_name("text", &format));
    ck_assert_uint_eq(format, LOG_TEXT);
    ck_assert(log_format_from_name("json", &format));
    ck_assert_uint_eq(format, LOG_JSON);
    ck_assert(!log_format_from_name("xml", &format));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("log_format");
    TCase *t = tcase_create("log_format");
    tcase_add_test(t, json_line);
    tcase_add_test(t, text_line);
    tcase_add_test(t, strings_are_escaped);
    tcase_add_test(t, invalid_utf8_is_replaced);
    tcase_add_test(t, numbers_have_up_to_three_decimals);
    tcase_add_test(t, integers);
    tcase_add_test(t, time_is_utc_with_milliseconds);
    tcase_add_test(t, longest_strings_are_cut);
    tcase_add_test(t, longest_line_that_fits_is_whole);
    tcase_add_test(t, fields_beyond_the_line_are_left_out);
    tcase_add_test(t, names);
    suite_add_tcase(s, t);
    return s;
}
