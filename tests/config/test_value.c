/* Numbers, booleans and choices, as they are written anywhere. */
#include "config/value.h"
#include "suite.h"

#include <string.h>

static const double untouched = -12345;

static bool read_number(const char *text, bool integer, double minimum, double maximum, double *value,
                        struct error *error)
{
    *value = untouched;
    return value_number(text, strlen(text), integer, minimum, maximum, text, value, error);
}

START_TEST(numbers)
{
    struct error error;
    double value;
    ck_assert(read_number("0.25", false, 0, 1, &value, &error));
    ck_assert_double_eq(value, 0.25);
    ck_assert(read_number("1e2", true, 0, 100, &value, &error));
    ck_assert_double_eq(value, 100);
    ck_assert(read_number("-3.0", true, -3, 3, &value, &error));
    ck_assert_double_eq(value, -3);
    ck_assert(read_number("9007199254740992", true, 0, 9007199254740992.0, &value, &error));
    ck_assert_double_eq(value, 9007199254740992.0);
}
END_TEST

START_TEST(wrong_numbers)
{
    static const char *const cases[] = {"",    "1.5",      "101",  "-1",    "1e400", "-1e400", "nan",
                                        "inf", "Infinity", "0x10", "01",    "+1",    " 1",     "1 ",
                                        "1,2", "true",     "null", "\"1\"", "1e",    "."};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error;
        double value;
        ck_assert_msg(!read_number(cases[i], true, 0, 100, &value, &error), "%s was taken", cases[i]);
        ck_assert_double_eq(value, untouched);
        ck_assert_int_eq(error.code, ERROR_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, "an integer from 0 to 100, got "));
        ck_assert_ptr_nonnull(strstr(error.message, *cases[i] ? cases[i] : "nothing"));
    }
}
END_TEST

START_TEST(ranges_print_exactly)
{
    struct error error;
    double value;
    ck_assert(!read_number("x", false, 1e-9, 9007199254740992.0, &value, &error));
    ck_assert_str_eq(error.message, "expected a number from 1e-09 to 9007199254740992, got x");
}
END_TEST

START_TEST(choices)
{
    static const char *const known[] = {"debug", "info", NULL};
    struct error error;
    size_t index = 7;
    ck_assert(value_choice("info", 4, known, "", &index, &error));
    ck_assert_uint_eq(index, 1);
    index = 7;
    ck_assert(!value_choice("inf", 3, known, "\"inf\"", &index, &error));
    ck_assert_str_eq(error.message, "expected one of \"debug\", \"info\", got \"inf\"; did you mean \"info\"?");
    ck_assert(!value_choice("zzzzz", 5, known, "\"zzzzz\"", &index, &error));
    ck_assert_str_eq(error.message, "expected one of \"debug\", \"info\", got \"zzzzz\"");
    char longest[4096];
    memset(longest, 'i', sizeof longest);
    ck_assert(!value_choice(longest, sizeof longest, known, "much", &index, &error));
    ck_assert(!value_choice("", 0, known, "", &index, &error));
    ck_assert_uint_eq(index, 7);
}
END_TEST

START_TEST(booleans)
{
    static const char *const wrong[] = {"", "True", "1", "tru", "truex", "null"};
    struct error error;
    bool value = false;
    ck_assert(value_bool("truex", 4, "", &value, &error));
    ck_assert(value);
    ck_assert(value_bool("false", 5, "", &value, &error));
    ck_assert(!value);
    value = true;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert(!value_bool(wrong[i], strlen(wrong[i]), wrong[i], &value, &error));
    ck_assert(value);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("value");
    TCase *c = tcase_create("value");
    tcase_add_test(c, numbers);
    tcase_add_test(c, wrong_numbers);
    tcase_add_test(c, ranges_print_exactly);
    tcase_add_test(c, choices);
    tcase_add_test(c, booleans);
    suite_add_tcase(s, c);
    return s;
}
