/* The form of an origin. */
#include "config/origin.h"
#include "suite.h"

#include <string.h>

START_TEST(right_and_wrong)
{
    static const char *const right[] = {"*",
                                        "https://app.example",
                                        "http://localhost:3000",
                                        "http://[::1]:80",
                                        "chrome-extension://abcdef",
                                        "http://10.0.0.1"};
    static const char *const wrong[] = {"",
                                        "app.example",
                                        "https://",
                                        "://a",
                                        "https://a/",
                                        "https://A",
                                        "https://a.example/path",
                                        "https://a b",
                                        "HTTP://a",
                                        "**",
                                        "https://*.example"};
    struct error error;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        ck_assert_msg(origin_check(right[i], strlen(right[i]), &error), "%s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(!origin_check(wrong[i], strlen(wrong[i]), &error), "%s", wrong[i]);
        ck_assert_int_eq(error.code, ERROR_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, "expected an origin"));
    }
}
END_TEST

START_TEST(only_so_much_of_it_is_read)
{
    struct error error;
    ck_assert(origin_check("http://a,http://b", 8, &error));
    ck_assert(!origin_check("http://a", 7, &error));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("origin");
    TCase *c = tcase_create("origin");
    tcase_add_test(c, right_and_wrong);
    tcase_add_test(c, only_so_much_of_it_is_read);
    suite_add_tcase(s, c);
    return s;
}
