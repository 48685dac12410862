#include "config/string_list.h"
#include "suite.h"

START_TEST(adds_copies)
{
    struct string_list list = {0};
    char text[] = "abcdef";
    ck_assert(string_list_add(&list, text, 3));
    ck_assert(string_list_add(&list, text, 0));
    text[0] = 'x';
    ck_assert_uint_eq(list.count, 2);
    ck_assert_str_eq(list.items[0], "abc");
    ck_assert_str_eq(list.items[1], "");
    ck_assert(string_list_has(&list, "abcd", 3));
    ck_assert(!string_list_has(&list, "abcd", 4));
    ck_assert(!string_list_has(&list, "ab", 2));
    string_list_free(&list);
    ck_assert_uint_eq(list.count, 0);
    ck_assert(!string_list_has(&list, "", 0));
    string_list_free(&list);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("string_list");
    TCase *c = tcase_create("string_list");
    tcase_add_test(c, adds_copies);
    suite_add_tcase(s, c);
    return s;
}
