#include "server/request_id.h"
#include "suite.h"

#include <string.h>

START_TEST(made_ids_are_hexadecimal_and_differ)
{
    char a[REQUEST_ID_BYTES], b[REQUEST_ID_BYTES];
    request_id_make(a);
    request_id_make(b);
    ck_assert_uint_eq(strlen(a), 32);
    ck_assert_uint_eq(strspn(a, "0123456789abcdef"), 32);
    ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(sane_ids_are_taken)
{
    static const char *const sane[] = {"x", "4bf92f3577b34da6a3ce929d0e0e4736", "a/b:c=d~[1]{2}"};
    char id[REQUEST_ID_BYTES] = "before", longest[REQUEST_ID_BYTES];
    for (size_t i = 0; i < sizeof sane / sizeof *sane; i++) {
        ck_assert(request_id_take(id, sane[i]));
        ck_assert_str_eq(id, sane[i]);
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert(request_id_take(id, longest));
    ck_assert_str_eq(id, longest);
}
END_TEST

START_TEST(others_are_not_and_leave_the_id)
{
    char too_long[REQUEST_ID_BYTES + 1];
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const wrong[] = {"", "a b", "a\"b", "a\\b", "a\tb", "a\r\nX-Evil: 1", "\x7f", "caf\xc3\xa9", too_long};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char id[REQUEST_ID_BYTES] = "before";
        ck_assert(!request_id_take(id, wrong[i]));
        ck_assert_str_eq(id, "before");
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("request_id");
    TCase *c = tcase_create("request_id");
    tcase_add_test(c, made_ids_are_hexadecimal_and_differ);
    tcase_add_test(c, sane_ids_are_taken);
    tcase_add_test(c, others_are_not_and_leave_the_id);
    suite_add_tcase(s, c);
    return s;
}
