#include "base/percent.h"
#include "suite.h"

#include <string.h>

START_TEST(what_is_escaped_is_decoded)
{
    static const struct {
        const char *from, *to;
    } cases[] = {{"", ""},     {"plain", "plain"}, {"a%20b", "a b"}, {"%2f%2F", "//"}, {"%C3%A9", "\xC3\xA9"},
                 {"%25", "%"}, {"+", "+"},         {"%255", "%5"},   {"a%41", "aA"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[32], own[32];
        char *end = percent_decode(cases[i].from, strlen(cases[i].from), to, sizeof to);
        ck_assert_msg(end, "%s", cases[i].from);
        ck_assert_str_eq(to, cases[i].to);
        ck_assert_ptr_eq(end, to + strlen(cases[i].to) + 1);
        strcpy(own, cases[i].from); /* where it lies */
        ck_assert_ptr_nonnull(percent_decode(own, strlen(own), own, sizeof own));
        ck_assert_str_eq(own, cases[i].to);
    }
}
END_TEST

START_TEST(broken_escapes_are_refused)
{
    static const char *const broken[] = {"%", "%4", "a%", "%zz", "%4g", "%g4", "%%41", "% 41", "%00", "a%00b"};
    char to[32];
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        ck_assert_msg(!percent_decode(broken[i], strlen(broken[i]), to, sizeof to), "%s", broken[i]);
    ck_assert(!percent_decode("a\0b", 3, to, sizeof to));
    ck_assert(!percent_decode("%41", 2, to, sizeof to)); /* the second digit is not the text's */
}
END_TEST

START_TEST(nothing_is_written_beyond)
{
    char to[5] = "....";
    ck_assert(!percent_decode("abcd", 4, to, 4));
    ck_assert_int_eq(to[4], '\0');
    ck_assert_ptr_eq(percent_decode("%61bc", 5, to, 4), to + 4);
    ck_assert_str_eq(to, "abc");
    ck_assert(!percent_decode("", 0, to, 0));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/percent");
    TCase *t = tcase_create("percent");
    tcase_add_test(t, what_is_escaped_is_decoded);
    tcase_add_test(t, broken_escapes_are_refused);
    tcase_add_test(t, nothing_is_written_beyond);
    suite_add_tcase(s, t);
    return s;
}
