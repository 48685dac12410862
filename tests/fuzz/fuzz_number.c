/* Fuzzes the reading of numbers, against strtof and strtod in the C locale, and writes back what was read. */
#include "json/number.h"

#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_writing(float value)
{
    char text[NUMBER_FIXED_BYTES(9)];
    char *end = number_write_f32(text, value);
    check(end - text <= NUMBER_F32_BYTES);
    const char *at = text;
    float back;
    check(number_read_f32(&at, end, &back) == NUMBER_OK && at == end && memcmp(&back, &value, sizeof back) == 0);
    for (unsigned decimals = 0; decimals <= 9; decimals++) {
        char expected[64];
        int length = snprintf(expected, sizeof expected, "%.*f", (int)decimals, (double)value);
        int signed_zero = expected[0] == '-' && !strpbrk(expected, "123456789");
        end = number_write_fixed(text, value, decimals);
        check(end - text == length - signed_zero && memcmp(text, expected + signed_zero, (size_t)(end - text)) == 0);
    }
}

static void check_double(double value)
{
    char text[33];
    char *end = number_write_f64(text, value);
    const char *at = text;
    double back;
    check(end - text <= 32);
    check(number_read_f64(&at, end, &back) == NUMBER_OK && at == end && memcmp(&back, &value, sizeof back) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *at = text, *at_f64 = text, *at_i64 = text, *skipped = text;
    float value = 7;
    double number = 7;
    int64_t integer = 7;
    enum number_status status = number_read_f32(&at, text + size, &value);
    enum number_status status_f64 = number_read_f64(&at_f64, text + size, &number);
    enum number_status status_i64 = number_read_i64(&at_i64, text + size, &integer);
    bool good = number_skip(&skipped, text + size);
    check(at >= text && at <= text + size && at_f64 == at && at_i64 == at && skipped == at);
    check(good == (status != NUMBER_SYNTAX) && good == (status_f64 != NUMBER_SYNTAX) &&
          good == (status_i64 != NUMBER_SYNTAX));
    check(status == NUMBER_OK || value == 7);
    check(status_f64 == NUMBER_OK || number == 7);
    check(status_i64 == NUMBER_OK || integer == 7);
    if (!good)
        return 0;

    /* A copy of the number alone, with a NUL behind it. */
    size_t length = (size_t)(at - text);
    char *copy = malloc(length + 1), *behind;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (copy && c_locale) {
        memcpy(copy, text, length);
        copy[length] = '\0';
        float expected = strtof_l(copy, &behind, c_locale);
        check(behind == copy + length);
        check(status == (isinf(expected) ? NUMBER_RANGE : NUMBER_OK));
        check(status != NUMBER_OK || memcmp(&value, &expected, sizeof value) == 0);
        double wanted = strtod_l(copy, &behind, c_locale);
        check(status_f64 == (isinf(wanted) ? NUMBER_RANGE : NUMBER_OK));
        check(status_f64 != NUMBER_OK || memcmp(&number, &wanted, sizeof number) == 0);
        check(status_i64 != NUMBER_OK || (double)integer == wanted);
    }
    if (c_locale)
        freelocale(c_locale);
    free(copy);
    if (status == NUMBER_OK)
        check_writing(value);
    if (status_f64 == NUMBER_OK)
        check_double(number);
    return 0;
}
