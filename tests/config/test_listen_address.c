/* Addresses by their shape. */
#include "config/listen_address.h"
#include "suite.h"

#include <string.h>

START_TEST(right)
{
    static const char *const cases[] = {"127.0.0.1:8080", "0.0.0.0:0",           "[::]:80",
                                        "[::1]:65535",    "[fe80::1%eth0]:80",   "[::ffff:1.2.3.4]:1",
                                        "localhost:8080", "a-b.example_1.com:1", "1host:00080"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        ck_assert_msg(listen_address_check(cases[i], strlen(cases[i]), &error), "%s: %s", cases[i], error.message);
    }
}
END_TEST

START_TEST(wrong)
{
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "ADDRESS:PORT"},
                 {"8080", "ADDRESS:PORT"},
                 {"localhost", "ADDRESS:PORT"},
                 {":8080", "0.0.0.0"},
                 {"*:8080", "[::]"},
                 {"127.0.0.1:", "65535"},
                 {"127.0.0.1:65536", "65535"},
                 {"127.0.0.1:-1", "65535"},
                 {"127.0.0.1:80a", "65535"},
                 {"127.0.0.1: 80", "65535"},
                 {"127.0.0.1:000080", "65535"},
                 {"::1:80", "[::1]:8080"},
                 {"[::1]", "[::1]:8080"},
                 {"[:1", "[::1]:8080"},
                 {"[::1:80", "[::1]:8080"},
                 {"[]:80", "IPv6"},
                 {"[::g]:80", "IPv6"},
                 {"[::1%]:80", "IPv6"},
                 {"[127.0.0.1]:80", "IPv6"},
                 {"256.0.0.1:80", "IPv4"},
                 {"1.2.3:80", "IPv4"},
                 {"a b:80", "host name"},
                 {"-a:80", "host name"},
                 {"http://a:80", "brackets"},
                 {"\xC3\xA9:80", "host name"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        ck_assert_msg(!listen_address_check(cases[i].text, strlen(cases[i].text), &error), "%s was taken",
                      cases[i].text);
        ck_assert_int_eq(error.code, ERROR_INVALID);
        ck_assert_msg(strstr(error.message, cases[i].part), "%s: %s", cases[i].text, error.message);
    }
}
END_TEST

START_TEST(long_texts)
{
    char text[4096];
    struct error error;
    memset(text, 'a', sizeof text);
    memcpy(text + 253, ":80", 3);
    ck_assert(listen_address_check(text, 256, &error));
    memset(text, 'a', sizeof text);
    memcpy(text + 254, ":80", 3);
    ck_assert(!listen_address_check(text, 257, &error));
    memset(text, '1', sizeof text);
    text[0] = '[';
    memcpy(text + 4000, "]:80", 4);
    ck_assert(!listen_address_check(text, 4004, &error));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("listen_address");
    TCase *c = tcase_create("listen_address");
    tcase_add_test(c, right);
    tcase_add_test(c, wrong);
    tcase_add_test(c, long_texts);
    suite_add_tcase(s, c);
    return s;
}
