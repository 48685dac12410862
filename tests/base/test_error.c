#include "base/error.h"
#include "suite.h"

#include <string.h>

START_TEST(set_fills_and_returns_false)
{
    struct error error = {.has_pointer = true, .pointer = "/old"};
    ck_assert(!error_set(&error, ERROR_INVALID, "found %d, expected %d", 3, 4));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.message, "found 3, expected 4");
    ck_assert(!error.has_pointer);
    ck_assert(!error_set_at(&error, ERROR_NOT_JSON, "", "x"));
    ck_assert(error.has_pointer);
    ck_assert_str_eq(error.pointer, "");
}
END_TEST

/* Every cut of a text of two-, three- and four-byte characters leaves whole characters. */
START_TEST(long_texts_are_cut_between_characters)
{
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t k = 0; k < 3; k++)
        for (size_t shift = 0; shift < 4; shift++) {
            char text[4096];
            struct error error;
            size_t width = strlen(characters[k]), length = 0;
            memset(text, 'a', shift);
            for (length = shift; length + width < sizeof text; length += width)
                memcpy(text + length, characters[k], width);
            text[length] = '\0';
            error_set_at(&error, ERROR_INVALID, text, "%s", text);
            ck_assert_uint_eq((strlen(error.message) - shift) % width, 0);
            ck_assert_uint_gt(strlen(error.message), sizeof error.message - 1 - width);
            ck_assert_uint_eq((strlen(error.pointer) - shift) % width, 0);
        }
}
END_TEST

START_TEST(words_before_a_message)
{
    struct error error;
    char wanted[sizeof error.message + 32] = "layer 7: ";
    error_set_at(&error, ERROR_NOT_FINITE, "/x", "of \xC3\xA9");
    ck_assert(!error_precede(&error, "layer %d: ", 7));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_str_eq(error.message, "layer 7: of \xC3\xA9");
    ck_assert_str_eq(error.pointer, "/x");
    memset(wanted + 9, 'm', sizeof error.message);
    error_set(&error, ERROR_IO, "%s", wanted + 9);
    error_precede(&error, "layer %d: ", 7);
    wanted[sizeof error.message - 1] = '\0';
    ck_assert_str_eq(error.message, wanted);
}
END_TEST

START_TEST(every_code_has_a_slug_of_its_own)
{
    for (int a = 0; a < ERROR_CODE_COUNT; a++) {
        ck_assert_uint_gt(strlen(error_slug((enum error_code)a)), 0);
        for (int b = 0; b < a; b++)
            ck_assert_str_ne(error_slug((enum error_code)a), error_slug((enum error_code)b));
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("error");
    TCase *c = tcase_create("error");
    tcase_add_test(c, set_fills_and_returns_false);
    tcase_add_test(c, long_texts_are_cut_between_characters);
    tcase_add_test(c, words_before_a_message);
    tcase_add_test(c, every_code_has_a_slug_of_its_own);
    suite_add_tcase(s, c);
    return s;
}
