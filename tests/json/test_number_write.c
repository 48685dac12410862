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

static const char *f32(float value)
{
    static char text[NUMBER_F32_BYTES + 2];
    memset(text, '#', sizeof text);
    char *end = number_write_f32(text, value);
    ck_assert_int_le(end - text, NUMBER_F32_BYTES);
    ck_assert_int_eq(text[NUMBER_F32_BYTES], '#');
    *end = '\0';
    return text;
}

static const char *f64(double value)
{
    static char text[33];
    char *end = number_write_f64(text, value);
    ck_assert_int_le(end - text, 32);
    *end = '\0';
    return text;
}

static const char *fixed(float value, unsigned decimals)
{
    static char text[NUMBER_FIXED_BYTES(9) + 1];
    char *end = number_write_fixed(text, value, decimals);
    ck_assert_int_le(end - text, NUMBER_FIXED_BYTES(decimals));
    *end = '\0';
    return text;
}

START_TEST(writes_known_values)
{
    static const struct {
        float value;
        const char *text;
    } numbers[] = {
        {0.0f, "0.0"},
        {-0.0f, "-0.0"},
        {1.0f, "1.0"},
        {-1.5f, "-1.5"},
        {0.1f, "0.1"},
        {0.3f, "0.3"},
        {1.0f / 3, "0.33333334"},
        {100.0f, "100.0"},
        {1234.5f, "1234.5"},
        {123456789.0f, "123456790.0"},
        {999999999.0f, "1e9"},
        {999999936.0f, "999999940.0"},
        {1e10f, "1e10"},
        {16777216.0f, "16777216.0"},
        {33554432.0f, "33554432.0"},
        {67108864.0f, "67108864.0"},
        {0.0001f, "0.0001"},
        {0.00012345678f, "0.00012345678"},
        {0.00001f, "1e-5"},
        {1.5e-7f, "1.5e-7"},
        {FLT_MIN, "1.1754944e-38"},
        {FLT_MAX, "3.4028235e38"},
        {0x1p-149f, "1e-45"},
        {0x1p-148f, "3e-45"},
        {0x1.fffffcp-127f, "1.1754942e-38"},
        {8388608.0f, "8388608.0"},
        {9.5367431640625e-7f, "9.536743e-7"},
        {4.7019774e-38f, "4.7019774e-38"}, /* a power of two: the interval is narrower below */
        {1.00000012f, "1.0000001"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ck_assert_str_eq(f32(numbers[i].value), numbers[i].text);
}
END_TEST

/* The significant digits of a decimal text, without zeros at the end, and the power of ten of the first. */
static int significant(const char *text, char digits[64])
{
    int count = 0, point = 0, power = 0;
    bool behind = false;
    for (; *text && *text != 'e'; text++) {
        if (*text == '.') {
            behind = true;
        } else if (*text != '-') {
            if (count || *text != '0')
                digits[count++] = *text;
            point += behind ? (count ? 0 : -1) : (count > 0);
        }
    }
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    if (*text == 'e')
        power = atoi(text + 1);
    return point - 1 + power;
}

/* By a search: no count of digits below ours reads back, rounded or next to it; and of that count ours is the nearest.
 */
static void check_shortest(float value)
{
    char ours[64], searched[64], text[64];
    int power = significant(f32(value), ours), length = 1;
    ck_assert_msg(strtof(f32(value), NULL) == value, "%a: %s", (double)value, f32(value));
    for (; length <= 9; length++) {
        snprintf(text, sizeof text, "%.*e", length - 1, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    int searched_power = significant(text, searched);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bool is_power_of_two = (bits & 0x7FFFFF) == 0; /* what reads back may then be above the nearest of that length */
    if (is_power_of_two && strlen(ours) < strlen(searched))
        return;
    ck_assert_msg(strcmp(ours, searched) == 0 && power == searched_power, "%a: %s, by search %s", (double)value,
                  f32(value), text);
}

START_TEST(is_the_shortest)
{
    struct random random = {42};
    for (int i = 0; i < 200000; i++) {
        float value = random_f32(&random);
        if (i % 4 == 1)
            value = (float)random_below(&random, 100000000) / 1e4f;
        else if (i % 4 == 2)
            value = 1.0f / (float)(1 + random_below(&random, 100000));
        check_shortest(value == 0 ? 1 : value);
    }
    for (int exponent = -149; exponent < 128; exponent++)
        check_shortest(ldexpf(1, exponent));
    for (int i = 1; i <= 2000; i++)
        check_shortest((float)i * 0x1p-149f);
}
END_TEST

START_TEST(the_form_is_plain_or_has_an_exponent)
{
    struct random random = {7};
    for (int i = 0; i < 100000; i++) {
        float value =
            i % 2 ? random_f32(&random) : ldexpf((float)random_u64(&random), -80 + (int)random_below(&random, 60));
        const char *text = f32(value);
        char digits[64];
        int power = significant(text, digits);
        bool plain = value == 0 || (power >= -4 && power <= 8);
        ck_assert_msg(plain == !strchr(text, 'e'), "%s", text);
        ck_assert_msg(strpbrk(text, ".e"), "%s", text);
        const char *at = text;
        float back;
        ck_assert_msg(number_read_f32(&at, text + strlen(text), &back) == NUMBER_OK && *at == '\0', "%s", text);
        ck_assert_msg(memcmp(&back, &value, sizeof back) == 0, "%s", text);
    }
}
END_TEST

START_TEST(writes_known_places)
{
    static const struct {
        float value;
        unsigned decimals;
        const char *text;
    } numbers[] = {
        {0.125f, 2, "0.12"},
        {0.375f, 2, "0.38"},
        {1.5f, 2, "1.50"},
        {0.5f, 0, "0"},
        {1.5f, 0, "2"},
        {2.5f, 0, "2"},
        {-2.5f, 0, "-2"},
        {-0.5f, 0, "0"},
        {-0.004f, 2, "0.00"},
        {-0.006f, 2, "-0.01"},
        {-0.0f, 3, "0.000"},
        {0.1f, 9, "0.100000001"},
        {0.999f, 2, "1.00"},
        {0x1p-149f, 9, "0.000000000"},
        {FLT_MAX, 0, "340282346638528859811704183484516925440"},
        {-FLT_MAX, 9, "-340282346638528859811704183484516925440.000000000"},
        {16777216.0f, 1, "16777216.0"},
        {1e20f, 0, "100000002004087734272"},
        {1.8446744e19f, 1, "18446744073709551616.0"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ck_assert_str_eq(fixed(numbers[i].value, numbers[i].decimals), numbers[i].text);
}
END_TEST

/* glibc's printf is exact and rounds ties to even. */
START_TEST(places_agree_with_printf)
{
    struct random random = {99};
    for (int i = 0; i < 200000; i++) {
        float value = random_f32(&random);
        if (i % 4 == 1)
            value = (float)((int)random_below(&random, 2000001) - 1000000) / 1024; /* many ties */
        else if (i % 4 == 2)
            value = ldexpf((float)(random_u64(&random) >> 40), -(int)random_below(&random, 64));
        unsigned decimals = random_below(&random, 10);
        char expected[64];
        snprintf(expected, sizeof expected, "%.*f", (int)decimals, (double)value);
        bool negative_zero = expected[0] == '-' && !strpbrk(expected, "123456789");
        ck_assert_str_eq(fixed(value, decimals), expected + negative_zero);
    }
}
END_TEST

START_TEST(writes_doubles)
{
    static const struct {
        double value;
        const char *text;
    } numbers[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {0.1, "0.1"},
        {-123456789.125, "-123456789.125"},
        {1e9, "1e9"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "5e-324"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {-DBL_MAX, "-1.7976931348623157e308"},
        {1e23, "1e23"},
        {9007199254740993.0, "9.007199254740992e15"},
        {0x1p-44,
         "5.684341886080802e-14"}, /* above a power of two; the nearest of 16 digits ends in 1 and reads as less */
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ck_assert_str_eq(f64(numbers[i].value), numbers[i].text);

    struct random random = {5};
    for (int i = 0; i < 20000; i++) {
        double value = random_f64(&random);
        if (i % 2)
            value = (double)random_below(&random, 1000000) / 1000;
        ck_assert_double_eq(strtod(f64(value), NULL), value);
        char ours[64], searched[64], text[64];
        for (int length = 1; length <= 17; length++) {
            snprintf(text, sizeof text, "%.*e", length - 1, value);
            if (strtod(text, NULL) == value)
                break;
        }
        int power = significant(f64(value), ours);
        ck_assert_int_eq(significant(text, searched), value == 0 ? -1 : power);
        if (value != 0)
            ck_assert_str_eq(ours, searched);
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
    ck_assert_str_eq(f32(1.5f), "1.5");
    ck_assert_str_eq(f64(0.30000000000000004), "0.30000000000000004");
    ck_assert_str_eq(f64(1.5e-300), "1.5e-300");
    ck_assert_str_eq(fixed(1234.5f, 2), "1234.50");
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("number_write");
    TCase *cases = tcase_create("number_write");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, writes_known_values);
    tcase_add_test(cases, is_the_shortest);
    tcase_add_test(cases, the_form_is_plain_or_has_an_exponent);
    tcase_add_test(cases, writes_known_places);
    tcase_add_test(cases, places_agree_with_printf);
    tcase_add_test(cases, writes_doubles);
    tcase_add_test(cases, the_locale_does_not_matter);
    suite_add_tcase(suite, cases);
    return suite;
}
