#include "guarded.h"
#include "random_numbers.h"
#include "suite.h"
#include "json/number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZEROS_20 "00000000000000000000"
#define ZEROS_60 ZEROS_20 ZEROS_20 ZEROS_20

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static enum number_status read_all(const char *text, float *value)
{
    const char *at = text;
    enum number_status status = number_read_f32(&at, text + strlen(text), value);
    ck_assert_msg(status == NUMBER_SYNTAX || *at == '\0', "%s: stopped at byte %td", text, at - text);
    return status;
}

static const struct {
    const char *text;
    uint32_t bits; /* as IEEE 754 has them, by exact rational arithmetic */
} values[] = {
    {"0", 0x00000000},
    {"-0", 0x80000000},
    {"-0.0e5", 0x80000000},
    {"0e99999999999", 0x00000000},
    {"0." ZEROS_60, 0x00000000},
    {"1", 0x3F800000},
    {"-2.5", 0xC0200000},
    {"1e0", 0x3F800000},
    {"1E+2", 0x42C80000},
    {"0.1", 0x3DCCCCCD},
    {"123456789", 0x4CEB79A3},
    {"0." ZEROS_60 "1e61", 0x3F800000},
    {"1" ZEROS_60 "e-60", 0x3F800000},
    {"1" ZEROS_60 ".5e-60", 0x3F800000},
    {"1e-400", 0x00000000},
    {"-1e-99999999999999999999", 0x80000000},
    {"16777216", 0x4B800000},
    {"16777217", 0x4B800000}, /* a tie, to even */
    {"16777217." ZEROS_60 "1", 0x4B800001},
    {"16777219", 0x4B800002}, /* a tie, to even */
    {"16777218.99999999999999999999999", 0x4B800001},
    {"1.000000059604644775390625", 0x3F800000},
    {"1.000000059604644775390624", 0x3F800000},
    {"1.000000059604644775390626", 0x3F800001},
    {"1.000000059604644775390625" ZEROS_60 ZEROS_60 ZEROS_60 "1", 0x3F800001},
    {"1.000000178813934326171875", 0x3F800002},
    {"3.4028235e38", 0x7F7FFFFF},
    {"340282356779733661637539395458142568447", 0x7F7FFFFF},
    {"1.1754943508222875e-38", 0x00800000},
    {"1.1754942807573643e-38", 0x00800000},
    {"1.17549428075736429e-38", 0x007FFFFF},
    {"1.4e-45", 0x00000001},
    {"7.0064923216240853546186479164496e-46", 0x00000001},
    {"7.0064923216240853546186479164495e-46", 0x00000000},
    {"2.1019476964872256063855943749349e-45", 0x00000002}, /* above the tie between 1 and 2 in its 33rd digit */
    {"2.1019476964872256063855943749348e-45", 0x00000001},
};

START_TEST(reads_known_values)
{
    float value;
    ck_assert_msg(read_all(values[_i].text, &value) == NUMBER_OK, "%s", values[_i].text);
    ck_assert_msg(bits_of(value) == values[_i].bits, "%s: 0x%08X", values[_i].text, bits_of(value));
}
END_TEST

START_TEST(the_smallest_tie_is_settled_by_its_last_digit)
{
    /* 2^-150 has 105 digits; behind them anything but zeros is above it. */
    char text[400];
    float value;
    snprintf(text, sizeof text, "%.104e", 0x1p-150);
    ck_assert_int_eq(read_all(text, &value), NUMBER_OK);
    ck_assert_uint_eq(bits_of(value), 0);

    size_t mantissa = strcspn(text, "e");
    char exponent[16];
    strcpy(exponent, text + mantissa);
    snprintf(text + mantissa, sizeof text - mantissa, "%0200d1%s", 0, exponent);
    ck_assert_int_eq(read_all(text, &value), NUMBER_OK);
    ck_assert_uint_eq(bits_of(value), 1);
}
END_TEST

START_TEST(refuses_what_is_beyond_the_range)
{
    static const char *const texts[] = {"340282356779733661637539395458142568448",
                                        "-340282356779733661637539395458142568448",
                                        "3.4028236e38",
                                        "1e39",
                                        "1e400",
                                        "1e99999999999999999999",
                                        "-1e309",
                                        "1" ZEROS_60};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float value = 7;
        ck_assert_msg(read_all(texts[i], &value) == NUMBER_RANGE, "%s", texts[i]);
        ck_assert_msg(value == 7, "%s: the output was touched", texts[i]);
    }
}
END_TEST

static const struct {
    const char *text;
    size_t place;
} faults[] = {
    {"", 0},    {"-", 1},    {"--1", 1},  {"+1", 0},  {".5", 0},       {"-.5", 1},       {"01", 1},   {"-01", 2},
    {"00", 1},  {"1.", 2},   {"1.e5", 2}, {"1.x", 2}, {"1e", 2},       {"1e+", 3},       {"1e-x", 3}, {"1E", 2},
    {"NaN", 0}, {"-NaN", 1}, {"nan", 0},  {"inf", 0}, {"Infinity", 0}, {"-Infinity", 1}, {"x", 0},    {" 1", 0},
    {"/", 0},   {":", 0},    {"1.:", 2},  {"1./", 2}, {"\xB1", 0},
};

START_TEST(refuses_what_is_no_number)
{
    const char *text = faults[_i].text, *at = text;
    float value = 7;
    ck_assert_msg(number_read_f32(&at, text + strlen(text), &value) == NUMBER_SYNTAX, "%s", text);
    ck_assert_msg((size_t)(at - text) == faults[_i].place, "%s: at byte %td", text, at - text);
    ck_assert_float_eq(value, 7);
    double number = 7;
    at = text;
    ck_assert_msg(number_read_f64(&at, text + strlen(text), &number) == NUMBER_SYNTAX, "%s", text);
    at = text;
    ck_assert_msg(!number_skip(&at, text + strlen(text)), "%s", text);
    ck_assert_msg((size_t)(at - text) == faults[_i].place, "%s: at byte %td", text, at - text);
}
END_TEST

START_TEST(stops_behind_the_number)
{
    static const struct {
        const char *text;
        size_t length;
    } numbers[] = {{"0x1", 1},   {"1,2", 1},   {"1.5]", 3},      {"-0 ", 2},
                   {"1e5e5", 3}, {"1.2.3", 3}, {"12345678:", 8}, {"0.12345678/", 10}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *at = numbers[i].text;
        float value;
        ck_assert_int_eq(number_read_f32(&at, at + strlen(at), &value), NUMBER_OK);
        ck_assert_uint_eq((size_t)(at - numbers[i].text), numbers[i].length);
    }
}
END_TEST

/* Memory that ends where the text does: reading on is a fault of the processor's. */
START_TEST(reads_nothing_behind_the_end)
{
    struct guarded memory;
    ck_assert(guarded_map(&memory, 64));
    static const char *const texts[] = {"-12345678.12345678123e-12", "0.000000000000000000000000000000001",
                                        "12345678123456781234567812345678", "1.000000059604644775390625"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t length = 0; length <= strlen(texts[i]); length++) {
            char *text = memory.end - length;
            memcpy(text, texts[i], length);
            const char *at = text;
            float value;
            enum number_status status = number_read_f32(&at, text + length, &value);
            ck_assert(at <= text + length);
            if (length && status == NUMBER_OK) {
                char copy[64] = "";
                memcpy(copy, text, length);
                ck_assert_uint_eq(bits_of(value), bits_of(strtof(copy, NULL)));
            }
        }
}
END_TEST

START_TEST(agrees_with_strtof_and_strtod)
{
    struct random random = {20240229};
    char text[RANDOM_DECIMAL_BYTES];
    for (int i = 0; i < 200000; i++) {
        size_t length = random_decimal(&random, text);
        const char *at = text;
        float value = 0, expected = strtof(text, NULL);
        enum number_status status = number_read_f32(&at, text + length, &value);
        ck_assert_msg(at == text + length, "%s", text);
        ck_assert_msg(status == (isinf(expected) ? NUMBER_RANGE : NUMBER_OK), "%s: status %d", text, (int)status);
        ck_assert_msg(status == NUMBER_RANGE || bits_of(value) == bits_of(expected), "%s: %a, not %a", text,
                      (double)value, (double)expected);

        double number = 0, wanted = strtod(text, NULL);
        at = text;
        status = number_read_f64(&at, text + length, &number);
        ck_assert_msg(status == (isinf(wanted) ? NUMBER_RANGE : NUMBER_OK), "%s: status %d", text, (int)status);
        ck_assert_msg(status == NUMBER_RANGE || bits_of_double(number) == bits_of_double(wanted), "%s: %a, not %a",
                      text, number, wanted);
    }
}
END_TEST

/* Ties between doubles, and beside them; their digits are all needed. */
START_TEST(doubles_round_ties_to_even)
{
    static const struct {
        double lower; /* with an even last place */
        double upper;
    } pairs[] = {{1, 1 + DBL_EPSILON},
                 {0, 0x1p-1074},
                 {0x1.ffffffffffffep1022, 0x1.fffffffffffffp1022},
                 {0x1p-1022, 0x1.0000000000001p-1022},
                 {0x1.23456789abcdep-1000, 0x1.23456789abcdfp-1000},
                 {0x1.23456789abcdep300, 0x1.23456789abcdfp300}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[2000];
        snprintf(text, sizeof text, "%.1080Le", ((long double)pairs[i].lower + (long double)pairs[i].upper) / 2);
        size_t mantissa = strcspn(text, "e");
        char exponent[16];
        strcpy(exponent, text + mantissa);
        for (int beside = 0; beside < 2; beside++) {
            if (beside)
                snprintf(text + mantissa, sizeof text - mantissa, "1%s", exponent);
            const char *at = text;
            double value;
            ck_assert_int_eq(number_read_f64(&at, text + strlen(text), &value), NUMBER_OK);
            ck_assert_double_eq(value, beside ? pairs[i].upper : pairs[i].lower);
        }
    }
    double value;
    const char *largest = "1.7976931348623158079372897140530341e308",
               *beyond = "1.7976931348623158079372897140530342e308";
    ck_assert_int_eq(number_read_f64(&largest, largest + strlen(largest), &value), NUMBER_OK);
    ck_assert_double_eq(value, DBL_MAX);
    ck_assert_int_eq(number_read_f64(&beyond, beyond + strlen(beyond), &value), NUMBER_RANGE);
}
END_TEST

START_TEST(reads_whole_numbers)
{
    static const struct {
        const char *text;
        enum number_status status;
        int64_t value;
    } numbers[] = {
        {"0", NUMBER_OK, 0},
        {"-0.0", NUMBER_OK, 0},
        {"1.0", NUMBER_OK, 1},
        {"1e2", NUMBER_OK, 100},
        {"-12.50e1", NUMBER_OK, -125},
        {"0e999999999999", NUMBER_OK, 0},
        {"0e-999999999999", NUMBER_OK, 0},
        {"1" ZEROS_60 "e-60", NUMBER_OK, 1},
        {"1." ZEROS_60, NUMBER_OK, 1},
        {"0." ZEROS_60 "12e61", NUMBER_RANGE, 0},
        {"0." ZEROS_60 "12e62", NUMBER_OK, 12},
        {"9007199254740993", NUMBER_OK, INT64_C(9007199254740993)},
        {"9223372036854775807", NUMBER_OK, INT64_MAX},
        {"9223372036854775808", NUMBER_RANGE, 0},
        {"-9223372036854775808", NUMBER_OK, INT64_MIN},
        {"-9223372036854775809", NUMBER_RANGE, 0},
        {"9223372036854775807.0000", NUMBER_OK, INT64_MAX},
        {"9223372036854775807.0001", NUMBER_RANGE, 0},
        {"92233720368547758070e-1", NUMBER_OK, INT64_MAX},
        {"18446744073709551616", NUMBER_RANGE, 0},
        {"1.5", NUMBER_RANGE, 0},
        {"1e-1", NUMBER_RANGE, 0},
        {"1e19", NUMBER_RANGE, 0},
        {"1e999999999999", NUMBER_RANGE, 0},
        {"1e", NUMBER_SYNTAX, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *at = numbers[i].text;
        int64_t value = 0;
        ck_assert_msg(number_read_i64(&at, at + strlen(at), &value) == numbers[i].status, "%s", numbers[i].text);
        ck_assert_msg(value == numbers[i].value, "%s: %lld", numbers[i].text, (long long)value);
    }
}
END_TEST

START_TEST(the_locale_does_not_matter)
{
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !set; i++)
        set = setlocale(LC_ALL, locales[i]);
    if (!set || strcmp(localeconv()->decimal_point, ",") != 0)
        return; /* no locale with a decimal comma is installed */
    float value;
    ck_assert_int_eq(read_all("1.5", &value), NUMBER_OK);
    ck_assert_float_eq(value, 1.5f);
    ck_assert_int_eq(read_all("1.000000059604644775390626", &value), NUMBER_OK);
    ck_assert_uint_eq(bits_of(value), 0x3F800001);
    const char *text = "1,5", *at = text;
    ck_assert_int_eq(number_read_f32(&at, text + 3, &value), NUMBER_OK);
    ck_assert_ptr_eq(at, text + 1);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("number_read");
    TCase *cases = tcase_create("number_read");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, reads_known_values, 0, sizeof values / sizeof *values);
    tcase_add_test(cases, the_smallest_tie_is_settled_by_its_last_digit);
    tcase_add_test(cases, refuses_what_is_beyond_the_range);
    tcase_add_loop_test(cases, refuses_what_is_no_number, 0, sizeof faults / sizeof *faults);
    tcase_add_test(cases, stops_behind_the_number);
    tcase_add_test(cases, reads_nothing_behind_the_end);
    tcase_add_test(cases, agrees_with_strtof_and_strtod);
    tcase_add_test(cases, doubles_round_ties_to_even);
    tcase_add_test(cases, reads_whole_numbers);
    tcase_add_test(cases, the_locale_does_not_matter);
    suite_add_tcase(suite, cases);
    return suite;
}
