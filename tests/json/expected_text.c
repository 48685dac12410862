#include "expected_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_TO_CHARS
/* The shortest digits of a float32 in scientific form, as std::to_chars has them, NUL-terminated. */
void to_chars_f32(float value, char to[64]);

const char *expected_shortest_source(void)
{
    return "std::to_chars";
}

static void shortest_digits(float value, char to[64])
{
    to_chars_f32(value, to);
}
#else
const char *expected_shortest_source(void)
{
    return "a search with printf and strtof";
}

/* By a search: the fewest digits that read back, rounded, or one above where that reads back only. */
static void shortest_digits(float value, char to[64])
{
    for (int count = 1; count <= 9; count++) {
        snprintf(to, 64, "%.*e", count - 1, (double)value);
        if (strtof(to, NULL) == value)
            return;
        char *last = strchr(to, 'e') - 1;
        if (*last < '9') {
            ++*last;
            if (strtof(to, NULL) == value)
                return;
        }
    }
}
#endif

static char *append(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    return to + length;
}

void expected_shortest(float value, char to[EXPECTED_TEXT_BYTES])
{
    char text[64], digits[16] = "";
    shortest_digits(fabsf(value), text);
    const int leading = value == 0 ? 0 : atoi(strchr(text, 'e') + 1);
    size_t count = 0;
    for (const char *at = text; *at != 'e'; at++)
        if (*at != '.')
            digits[count++] = *at;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';

    if (signbit(value))
        *to++ = '-';
    if (leading < -4 || leading > 8) {
        *to++ = digits[0];
        if (count > 1)
            *to++ = '.';
        to = append(to, digits + 1, count - 1);
        sprintf(to, "e%d", leading);
        return;
    }
    const size_t whole = leading < 0 ? 0 : (size_t)leading + 1;
    if (leading < 0) {
        to = append(to, "0.000", 1 + (size_t)-leading);
        to = append(to, digits, count);
    } else if (count > whole) {
        to = append(to, digits, whole);
        *to++ = '.';
        to = append(to, digits + whole, count - whole);
    } else {
        to = append(to, digits, count);
        to = append(to, "00000000", whole - count);
        to = append(to, ".0", 2);
    }
    *to = '\0';
}

void expected_fixed(float value, unsigned decimals, char to[EXPECTED_TEXT_BYTES])
{
    char text[EXPECTED_TEXT_BYTES];
    snprintf(text, sizeof text, "%.*f", (int)decimals, (double)value);
    strcpy(to, text[0] == '-' && !strpbrk(text, "123456789") ? text + 1 : text);
}
