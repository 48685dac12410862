/* The list of faults and its texts. */
#include "config/faults.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

static void expect_text(const struct faults *faults, size_t index, const char *expected)
{
    char *text = fault_text(&faults->items[index]);
    ck_assert_pstr_eq(text, expected);
    free(text);
}

START_TEST(texts)
{
    struct faults faults = {0};
    faults_add(&faults, "a/attnd.json", 3, "/servers", "unknown key; did you mean \"%s\"?", "server");
    faults_add(&faults, "attnd.json", 12, NULL, "bad");
    faults_add(&faults, "ATTND_LISTEN", 0, NULL, "%d", 5);
    ck_assert_uint_eq(faults.count, 3);
    ck_assert(!faults.out_of_memory);
    expect_text(&faults, 0, "a/attnd.json:3: /servers: unknown key; did you mean \"server\"?");
    expect_text(&faults, 1, "attnd.json:12: bad");
    expect_text(&faults, 2, "ATTND_LISTEN: 5");
    faults_free(&faults);
    ck_assert_uint_eq(faults.count, 0);
    faults_free(&faults);
}
END_TEST

START_TEST(many_in_order)
{
    struct faults faults = {0};
    char expected[32];
    for (int i = 0; i < 100; i++)
        faults_add(&faults, "f", 1, NULL, "%d", i);
    faults_move_last(&faults, 40);
    ck_assert_uint_eq(faults.count, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(expected, sizeof expected, "f:1: %d", i < 40 ? i : i == 40 ? 99 : i - 1);
        expect_text(&faults, (size_t)i, expected);
    }
    faults_move_last(&faults, 99);
    faults_move_last(&faults, 100);
    expect_text(&faults, 99, "f:1: 98");
    faults_free(&faults);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("faults");
    TCase *c = tcase_create("faults");
    tcase_add_test(c, texts);
    tcase_add_test(c, many_in_order);
    suite_add_tcase(s, c);
    return s;
}
