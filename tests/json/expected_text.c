#include "expected_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_TO_CHARS
/* The shortest digits of a float32 in scientific form, as std::to_chars has them, NUL-terminated. */
void to_chars_f32(float value, char to[64]);

static void shortest_digits(float value, char to[64])
{
    to_chars_f32(value, to);
}
#else
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

    const char *sign = signbit(value) ? "-" : "";
    if (leading < -4 || leading > 8)
        sprintf(to, "%s%c%s%se%d", sign, digits[0], count > 1 ? "." : "", digits + 1, leading);
    else if (leading < 0)
        sprintf(to, "%s0.%.*s%s", sign, -leading - 1, "000", digits);
    else if ((int)count > leading + 1)
        sprintf(to, "%s%.*s.%s", sign, leading + 1, digits, digits + leading + 1);
    else
        sprintf(to, "%s%s%.*s.0", sign, digits, leading + 1 - (int)count, "00000000");
}

void expected_fixed(float value, unsigned decimals, char to[EXPECTED_TEXT_BYTES])
{
    char text[EXPECTED_TEXT_BYTES];
    snprintf(text, sizeof text, "%.*f", (int)decimals, (double)value);
    strcpy(to, text[0] == '-' && !strpbrk(text, "123456789") ? text + 1 : text);
}
