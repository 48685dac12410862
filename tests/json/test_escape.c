#include "suite.h"
#include "json/escape.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *inside; /* behind the opening quote */
    const char *value;  /* NULL: a fault ... */
    size_t place;       /* ... there */
} strings[] = {
    {"\"", "", 0},
    {"abc\"", "abc", 0},
    {"eight characters and more, then some\"", "eight characters and more, then some", 0},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 0},
    {"\\u0041\\u00e9\\u20AC\"", "A\xC3\xA9\xE2\x82\xAC", 0},
    {"\\ud83d\\uDE00\"", "\xF0\x9F\x98\x80", 0},
    {"\\uD800\\uDC00\\uDBFF\\uDFFF\"", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 0},
    {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 and a tail of ASCII\"",
     "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 and a tail of ASCII", 0},
    {"\x7F\"", "\x7F", 0},
    {"", NULL, 0},
    {"abcdefghijk", NULL, 11},
    {"ab\ncd\"", NULL, 2},
    {"0123456789\x01\"", NULL, 10},
    {"tab\t\"", NULL, 3},
    {"\\", NULL, 0},
    {"ab\\x\"", NULL, 2},
    {"\\U0041\"", NULL, 0},
    {"\\u\"", NULL, 0},
    {"\\u12\"", NULL, 0},
    {"\\u12g4\"", NULL, 0},
    {"\\u+123\"", NULL, 0},
    {"\\u00", NULL, 0},
    {"\\udc00\"", NULL, 0},
    {"\\ud800\"", NULL, 0},
    {"\\ud800x\"", NULL, 0},
    {"\\ud800\\n\"", NULL, 0},
    {"\\ud800\\u0041\"", NULL, 0},
    {"\\ud800\\ud800\"", NULL, 0},
    {"\\ud800\\udc0", NULL, 0},
    {"\x80\"", NULL, 0},
    {"ok\xC3\"", NULL, 2},
    {"\xC0\x80\"", NULL, 0}, /* not the shortest form */
    {"\xE0\x80\x80\"", NULL, 0},
    {"\xED\xA0\x80\"", NULL, 0},     /* a surrogate */
    {"\xF4\x90\x80\x80\"", NULL, 0}, /* above U+10FFFF */
    {"\xF0\x9F\x98", NULL, 0},
    {"01234567\xFF\"", NULL, 8},
};

/* In memory of just this size, so that a sanitizer sees what is read behind the end. */
START_TEST(checks_and_resolves)
{
    size_t length = strlen(strings[_i].inside);
    char *text = malloc(length ? length : 1);
    memcpy(text, strings[_i].inside, length);
    const char *at = text;
    bool escaped;
    const char *expected = escape_check(&at, text + length, &escaped);
    if (!strings[_i].value) {
        ck_assert_msg(expected, "%s", strings[_i].inside);
        ck_assert_uint_eq((size_t)(at - text), strings[_i].place);
        free(text);
        return;
    }
    ck_assert_msg(!expected, "%s: %s", strings[_i].inside, expected);
    ck_assert_ptr_eq(at, text + length - 1);
    ck_assert_int_eq(escaped, memchr(text, '\\', length) != NULL);
    char value[64];
    size_t bytes = 0;
    for (const char *from = text; from < at;)
        bytes += escape_next(&from, value + bytes);
    value[bytes] = '\0';
    ck_assert_str_eq(value, strings[_i].value);
    free(text);
}
END_TEST

START_TEST(every_unit_is_resolved_as_jansson_does)
{
    for (unsigned unit = 1; unit <= 0xFFFF; unit++) {
        char text[16];
        snprintf(text, sizeof text, "\"\\u%04x\"", unit);
        json_t *theirs = json_loads(text, JSON_DECODE_ANY, NULL);
        const char *at = text + 1;
        bool escaped;
        const char *expected = escape_check(&at, text + strlen(text), &escaped);
        ck_assert_msg(!expected == (theirs != NULL), "%s", text);
        if (theirs) {
            char utf8[5] = "";
            const char *from = text + 1;
            utf8[escape_next(&from, utf8)] = '\0';
            ck_assert_str_eq(utf8, json_string_value(theirs));
        }
        json_decref(theirs);
    }
}
END_TEST

/* Each byte at each offset among plain ones: alone it is plain, special, or not UTF-8. */
START_TEST(finds_special_bytes_at_every_offset)
{
    for (unsigned byte = 0; byte < 256; byte++)
        for (size_t offset = 0; offset < 20; offset++) {
            char text[24];
            memset(text, 'x', sizeof text);
            text[22] = '"';
            text[offset] = (char)byte;
            const char *at = text;
            bool escaped;
            const char *expected = escape_check(&at, text + 23, &escaped);
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '\\';
            ck_assert_msg(!expected == plain, "byte 0x%02X at %zu", byte, offset);
            ck_assert_uint_eq((size_t)(at - text), plain && byte != '"' ? 22 : offset);
        }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("escape");
    TCase *cases = tcase_create("escape");
    tcase_add_loop_test(cases, checks_and_resolves, 0, sizeof strings / sizeof *strings);
    tcase_add_test(cases, every_unit_is_resolved_as_jansson_does);
    tcase_add_test(cases, finds_special_bytes_at_every_offset);
    suite_add_tcase(suite, cases);
    return suite;
}
