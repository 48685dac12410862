#include "base/size.h"
#include "base/text.h"
#include "base/utf8.h"
#include "suite.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

START_TEST(appends_and_terminates)
{
    struct text text = {0};
    for (int i = 0; i < 1000; i++)
        text_append_format(&text, "%d,", i);
    text_append_string(&text, "end");
    const char *whole = text_terminate(&text);
    ck_assert_ptr_nonnull(whole);
    ck_assert_uint_eq(strlen(whole), text.length);
    ck_assert_uint_eq(text.length, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    ck_assert_str_eq(whole + text.length - 7, "999,end");
    text_free(&text);
    ck_assert_ptr_null(text.data);
}
END_TEST

START_TEST(sizes_are_decimal)
{
    const size_t values[] = {0, 9, 10, 4096, SIZE_MAX};
    struct text text = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        text_append_size(&text, values[i]);
        text_append_string(&text, " ");
    }
    ck_assert_str_eq(text_terminate(&text), "0 9 10 4096 18446744073709551615 ");
    text_free(&text);
}
END_TEST

START_TEST(too_much_fails_once_and_for_all)
{
    struct text text = {0};
    ck_assert_ptr_null(text_reserve(&text, SIZE_MAX));
    ck_assert(text.failed);
    text_append_string(&text, "nothing");
    ck_assert_uint_eq(text.length, 0);
    ck_assert_ptr_null(text_terminate(&text));
    text_free(&text);
}
END_TEST

START_TEST(fixed_memory_is_filled_and_never_left)
{
    char buffer[16];
    struct text text;
    memset(buffer, '#', sizeof buffer);
    text_init_fixed(&text, buffer, 10);
    text_append_string(&text, "12345");
    text_append_format(&text, "%d", 6789);
    ck_assert(!text.failed);
    ck_assert_ptr_eq(text.data, buffer);
    ck_assert_uint_eq(text.length, 9);
    text_append(&text, "0", 1); /* to the last byte */
    ck_assert(!text.failed);
    ck_assert_int_eq(memcmp(buffer, "1234567890######", 16), 0);
    text_append(&text, "x", 1);
    ck_assert(text.failed);
    ck_assert_ptr_null(text_terminate(&text));
    ck_assert_uint_eq(text.length, 10);
    ck_assert_int_eq(memcmp(buffer, "1234567890######", 16), 0);
    text_free(&text);
    ck_assert_ptr_null(text.data);

    text_init_fixed(&text, buffer, 10);
    ck_assert_ptr_null(text_reserve(&text, SIZE_MAX));
    ck_assert(text.failed);
    text_init_fixed(&text, buffer, 10);
    ck_assert_ptr_null(text_reserve(&text, 11));
    text_init_fixed(&text, buffer, 10);
    ck_assert_ptr_eq(text_reserve(&text, 10), buffer);
    text_append_json(&text, "abcdefgh", 8);
    ck_assert(!text.failed);
    ck_assert_int_eq(memcmp(buffer, "\"abcdefgh\"######", 16), 0);
}
END_TEST

/* Every byte value goes through jansson, a reader that is not ours. */
START_TEST(json_strings_read_back)
{
    for (int c = 1; c < 128; c++) {
        char in[4] = {'a', (char)c, 'b', 0};
        struct text text = {0};
        text_append_json(&text, in, 3);
        json_t *value = json_loadb(text.data, text.length, JSON_DECODE_ANY, NULL);
        ck_assert_ptr_nonnull(value);
        ck_assert_str_eq(json_string_value(value), in);
        json_decref(value);
        text_free(&text);
    }
}
END_TEST

START_TEST(utf8_is_strict)
{
    static const struct {
        const char *bytes;
        size_t length, want;
    } cases[] = {{"a", 1, 1},
                 {"\xC3\xA9", 2, 2},
                 {"\xE2\x82\xAC", 3, 3},
                 {"\xF0\x9F\x98\x80", 4, 4},
                 {"\xF4\x8F\xBF\xBF", 4, 4},
                 {"\xC3", 1, 0},             /* ends early */
                 {"\xC0\x80", 2, 0},         /* overlong */
                 {"\xE0\x80\x80", 3, 0},     /* overlong */
                 {"\xED\xA0\x80", 3, 0},     /* a surrogate */
                 {"\xF4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
                 {"\x80", 1, 0},
                 {"\xFF", 1, 0},
                 {"", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(utf8_sequence(cases[i].bytes, cases[i].length), cases[i].want);
}
END_TEST

START_TEST(sizes_do_not_overflow)
{
    size_t bytes = 7;
    ck_assert(!tensor_bytes((size_t[]){(size_t)1 << 32, (size_t)1 << 32}, 2, 4, &bytes));
    ck_assert(!tensor_bytes((size_t[]){(size_t)1 << 61}, 1, 4, &bytes)); /* fits size_t, not an object */
    ck_assert_uint_eq(bytes, 7);
    ck_assert(tensor_bytes((size_t[]){(size_t)1 << 63, (size_t)1 << 63, 0}, 3, 4, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert(tensor_bytes((size_t[]){2, 3, 5}, 3, 4, &bytes));
    ck_assert_uint_eq(bytes, 120);
}
END_TEST

START_TEST(copies_read_no_byte_behind)
{
    const char text[5] = {'a', 'b', '\0', 'c', 'd'}; /* no NUL behind */
    char *copy = text_copy(text, sizeof text);
    ck_assert_ptr_nonnull(copy);
    ck_assert_mem_eq(copy, text, sizeof text);
    ck_assert_int_eq(copy[sizeof text], '\0');
    free(copy);
    ck_assert_ptr_null(text_copy(text, SIZE_MAX));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("text");
    TCase *c = tcase_create("text");
    tcase_add_test(c, appends_and_terminates);
    tcase_add_test(c, sizes_are_decimal);
    tcase_add_test(c, too_much_fails_once_and_for_all);
    tcase_add_test(c, fixed_memory_is_filled_and_never_left);
    tcase_add_test(c, json_strings_read_back);
    tcase_add_test(c, utf8_is_strict);
    tcase_add_test(c, sizes_do_not_overflow);
    tcase_add_test(c, copies_read_no_byte_behind);
    suite_add_tcase(s, c);
    return s;
}
