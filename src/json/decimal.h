/* A JSON number as it stands in its text, and its exact comparison with a binary one: what reading numbers is made of.
 * Any thread. */
#ifndef ATTND_JSON_DECIMAL_H
#define ATTND_JSON_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/* The most digits that always fit in 64 bits. */
#define DECIMAL_DIGITS 19

/* The number is digits * 10^exponent, and above that by less than 10^exponent where it is `cut`. Leading zeros are no
 * digits here. */
struct decimal {
    bool negative, cut; /* cut: there were more than DECIMAL_DIGITS digits, and one of those behind them is not 0 */
    uint64_t digits;    /* the first DECIMAL_DIGITS */
    int64_t exponent;
    const char *text;     /* from the first digit that is not a leading zero ... */
    const char *text_end; /* ... to behind the last; one '.' may stand between them */
};

/* The sign of |number| - significand * 2^exponent, exactly. For numbers near each other, as rounding asks for: the two
 * must agree in their first 40 bits, significand < 2^54, and the binary number be at least 2^-1075 and below 2^1090. */
int decimal_compare(const struct decimal *number, uint64_t significand, int exponent);

#endif
