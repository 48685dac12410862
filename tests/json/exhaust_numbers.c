/* Numbers against independent implementations, millions of them: reading against strtof and strtod, which are exact in
 * glibc, and writing against std::to_chars where a C++ compiler was there. usage: exhaust_numbers [MILLIONS [SEED]] */
#include "random_numbers.h"
#include "json/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_TO_CHARS
/* The shortest digits of a float32 in scientific form, as std::to_chars has them, NUL-terminated. */
void to_chars_f32(float value, char to[64]);
#endif

struct totals {
    unsigned long long numbers, beyond, faults;
};

static void report(struct totals *totals, const char *what, const char *found, const char *expected)
{
    if (totals->faults++ < 20)
        fprintf(stderr, "%s: %s, expected %s\n", what, found, expected);
}

static void check_reading(struct totals *totals, const char *text, size_t length)
{
    char found[64], expected[64];
    const char *at = text;
    float value = INFINITY, wanted = strtof(text, NULL);
    enum number_status status = number_read_f32(&at, text + length, &value);
    bool beyond = isinf(wanted), right = at == text + length && status == (beyond ? NUMBER_RANGE : NUMBER_OK);
    if (!right || (!beyond && memcmp(&value, &wanted, sizeof value) != 0)) {
        snprintf(found, sizeof found, "status %d, %a", (int)status, (double)value);
        snprintf(expected, sizeof expected, "%a", (double)wanted);
        report(totals, text, found, expected);
    }
    totals->beyond += beyond;

    at = text;
    double number = INFINITY, wanted_number = strtod(text, NULL);
    status = number_read_f64(&at, text + length, &number);
    right = at == text + length && status == (isinf(wanted_number) ? NUMBER_RANGE : NUMBER_OK);
    if (!right || (status == NUMBER_OK && memcmp(&number, &wanted_number, sizeof number) != 0)) {
        snprintf(found, sizeof found, "status %d, %a", (int)status, number);
        snprintf(expected, sizeof expected, "%a", wanted_number);
        report(totals, text, found, expected);
    }
    totals->numbers++;
}

#ifdef HAVE_TO_CHARS
/* A decimal text as digits without zeros at either end, 'e' and the power of ten of the last of them. */
static void normalise(const char *text, char to[64])
{
    char digits[64];
    int count = 0, behind_point = 0, power = 0;
    bool point = false;
    for (; *text && *text != 'e'; text++) {
        if (*text == '.') {
            point = true;
        } else if (*text >= '0' && *text <= '9') {
            if (count || *text != '0')
                digits[count++] = *text;
            behind_point += point;
        }
    }
    if (*text == 'e')
        power = atoi(text + 1);
    for (; count && digits[count - 1] == '0'; count--)
        power++;
    snprintf(to, 64, "%.*se%d", count, digits, count ? power - behind_point : 0);
}
#endif

static void check_writing(struct totals *totals, float value)
{
    char text[NUMBER_F32_BYTES + 2] = "", bits[64];
    char *end = number_write_f32(text, value);
    snprintf(bits, sizeof bits, "%a", (double)value);
    if (end > text + NUMBER_F32_BYTES)
        report(totals, bits, text, "15 bytes at most");
    *end = '\0';
    const char *at = text;
    float back = 0, other = strtof(text, NULL);
    if (number_read_f32(&at, end, &back) != NUMBER_OK || at != end || memcmp(&back, &value, sizeof back) != 0 ||
        memcmp(&other, &value, sizeof other) != 0)
        report(totals, bits, text, "what reads back");
#ifdef HAVE_TO_CHARS
    char shortest[64], ours[64], theirs[64];
    to_chars_f32(value, shortest);
    normalise(text, ours);
    normalise(shortest, theirs);
    if (strcmp(ours, theirs) != 0)
        report(totals, bits, text, shortest);
#endif
    totals->numbers++;
}

int main(int argc, char **argv)
{
    unsigned long millions = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    struct random random = {argc > 2 ? strtoul(argv[2], NULL, 10) : 1};
    struct totals reading = {0}, writing = {0};
    char text[RANDOM_DECIMAL_BYTES];
    if (millions == 0) {
        fprintf(stderr, "usage: %s [MILLIONS [SEED]]\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (unsigned long i = 0; i < millions * 1000000; i++) {
        check_reading(&reading, text, random_decimal(&random, text));
        check_writing(&writing, random_f32(&random));
    }
    printf("read %llu decimals (%llu beyond float32) as strtof and strtod do: %llu faults\n", reading.numbers,
           reading.beyond, reading.faults);
#ifdef HAVE_TO_CHARS
    printf("wrote %llu float32 with the digits of std::to_chars: %llu faults\n", writing.numbers, writing.faults);
#else
    printf("wrote %llu float32 that read back (no C++ compiler, so not compared with std::to_chars): %llu faults\n",
           writing.numbers, writing.faults);
#endif
    return reading.faults || writing.faults ? EXIT_FAILURE : EXIT_SUCCESS;
}
