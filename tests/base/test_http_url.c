#include "base/http_url.h"
#include "suite.h"

#include <string.h>

START_TEST(addresses_are_taken)
{
    static const char *const right[] = {"http://a", "https://collector.example:4318", "HTTP://[::1]:4318/base/path",
                                        "http://user:password@host:1/"};
    struct error error;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        ck_assert_msg(http_url_check(right[i], strlen(right[i]), &error), "%s: %s", right[i], error.message);
}
END_TEST

START_TEST(others_are_refused_and_quoted)
{
    static const char *const wrong[] = {
        "",           "host:4318",   "ftp://host",         "http://",         "http:///path",
        "http://:80", "http://a b",  "http://a?query",     "http://a#place",  "http://a\n",
        "https://",   "http:/host/", "http://caf\xC3\xA9", "unix:/run/socket"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {0};
        ck_assert_msg(!http_url_check(wrong[i], strlen(wrong[i]), &error), "\"%s\" was taken", wrong[i]);
        ck_assert_int_eq(error.code, ERROR_INVALID);
        ck_assert_msg(strstr(error.message, wrong[i]), "\"%s\" is not quoted: %s", wrong[i], error.message);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("base/http_url");
    TCase *t = tcase_create("http_url");
    tcase_add_test(t, addresses_are_taken);
    tcase_add_test(t, others_are_refused_and_quoted);
    suite_add_tcase(s, t);
    return s;
}
