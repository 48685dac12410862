/* Excerpts: short, one line, valid UTF-8. */
#include "config/excerpt.h"
#include "suite.h"

#include <string.h>

START_TEST(what_fits_stays)
{
    char shown[EXCERPT_BYTES];
    excerpt_write(shown, "", 0);
    ck_assert_str_eq(shown, "");
    excerpt_write(shown, "h\xC3\xA9llo", 6);
    ck_assert_str_eq(shown, "h\xC3\xA9llo");
    excerpt_write(shown, "a\n\x1B[31m\x7F\xFF\x00z", 11);
    ck_assert_str_eq(shown, "a??[31m???z");
}
END_TEST

START_TEST(what_does_not_is_cut_between_characters)
{
    for (size_t length = EXCERPT_BYTES - 4; length < EXCERPT_BYTES + 4; length++) {
        for (size_t before = 0; before < 3; before++) {
            char text[2 * EXCERPT_BYTES], shown[EXCERPT_BYTES + 1];
            memset(text, 'x', before);
            size_t used = before;
            for (; used + 3 <= length; used += 3)
                memcpy(text + used, "\xE2\x82\xAC", 3);
            shown[EXCERPT_BYTES] = '#';
            excerpt_write(shown, text, used);
            ck_assert_int_eq(shown[EXCERPT_BYTES], '#');
            if (used < EXCERPT_BYTES) {
                ck_assert_uint_eq(strlen(shown), used);
                continue;
            }
            size_t kept = strlen(shown);
            ck_assert_uint_ge(kept, EXCERPT_BYTES - 4);
            ck_assert_str_eq(shown + kept - 3, "...");
            ck_assert_uint_eq((kept - 3 - before) % 3, 0);
            ck_assert_int_eq(memcmp(shown, text, kept - 3), 0);
        }
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("excerpt");
    TCase *c = tcase_create("excerpt");
    tcase_add_test(c, what_fits_stays);
    tcase_add_test(c, what_does_not_is_cut_between_characters);
    suite_add_tcase(s, c);
    return s;
}
