/* Counting connections by address. */
#include "server/address_counts.h"
#include "suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct address v4(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 7};
    ck_assert_int_eq(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address_of((struct sockaddr *)&address);
}

static struct address v6(const char *text)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = 7};
    ck_assert_int_eq(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
    return address_of((struct sockaddr *)&address);
}

START_TEST(each_address_has_its_own)
{
    struct address_counts counts = {0};
    const struct address a = v4("10.0.0.1"), b = v4("10.0.0.2"), mapped = v6("::ffff:10.0.0.1"), c = v6("fd00::1");
    ck_assert(address_counts_add(&counts, &a));
    ck_assert(address_counts_add(&counts, &b));
    ck_assert(address_counts_add(&counts, &mapped)); /* the same client */
    ck_assert_uint_eq(address_counts_of(&counts, &a), 2);
    ck_assert_uint_eq(address_counts_of(&counts, &b), 1);
    ck_assert_uint_eq(address_counts_of(&counts, &c), 0);
    address_counts_remove(&counts, &a);
    address_counts_remove(&counts, &a);
    address_counts_remove(&counts, &c); /* was never there */
    ck_assert_uint_eq(address_counts_of(&counts, &a), 0);
    ck_assert_uint_eq(address_counts_of(&counts, &b), 1);
    address_counts_free(&counts);
    ck_assert_uint_eq(address_counts_of(&counts, &b), 0);
}
END_TEST

/* More addresses than buckets. */
START_TEST(many)
{
    struct address_counts counts = {0};
    char text[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            snprintf(text, sizeof text, "10.0.%d.%d", i / 250, i % 250);
            const struct address address = v4(text);
            ck_assert_uint_eq(address_counts_of(&counts, &address), (size_t)round);
            ck_assert(address_counts_add(&counts, &address));
        }
    for (int i = 0; i < 3000; i += 2) {
        snprintf(text, sizeof text, "10.0.%d.%d", i / 250, i % 250);
        const struct address address = v4(text);
        address_counts_remove(&counts, &address);
        address_counts_remove(&counts, &address);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "10.0.%d.%d", i / 250, i % 250);
        const struct address address = v4(text);
        ck_assert_uint_eq(address_counts_of(&counts, &address), i % 2 ? 2 : 0);
    }
    address_counts_free(&counts);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("address_counts");
    TCase *c = tcase_create("address_counts");
    tcase_add_test(c, each_address_has_its_own);
    tcase_add_test(c, many);
    suite_add_tcase(s, c);
    return s;
}
