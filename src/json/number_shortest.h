/* The shortest digits of a float32 and digits as bytes, for one number; number_block.inc does the same in vectors.
 * Pure: any thread.
 *
 * As Schubfach (Giulietti, "The Schubfach way to render doubles", 2021), but with one multiplication: a float32 is
 * c * 2^e with c < 2^24, and the table has w = 2^e / 10^(k + 1) in units of 2^-64, where 10^k is the largest power of
 * ten that is not above 2^e. Then c * w = t + f: t whole, f the fraction, which the product's low 64 bits hold. What
 * reads back as the number reaches w / 2 to either side, so
 *     t is inside when f <= w / 2, and t + 1 when 1 - f <= w / 2: at most one of them, as w < 1, and that one in units
 *         of 10^(k + 1) is the shortest;
 *     else one digit more is enough, because w >= 1/10: the nearest to 10 f, where ties go to the even digit.
 * The ends are inside where c is even. The table is rounded up, so c * w is too large by less than 2^24 units:
 * `NUMBER_SLACK` is more than that, and less than the distance of any other f from an end. That, and that 10 f
 * is rounded the right way, is proved by trying all float32 (tests/json/exhaust_numbers.c). Powers of two, whose
 * interval is half as wide below, have a table of their own. */
#ifndef ATTND_JSON_NUMBER_SHORTEST_H
#define ATTND_JSON_NUMBER_SHORTEST_H

#include <stdbool.h>
#include <stdint.h>

#define NUMBER_SLACK (UINT64_C(1) << 25)

/* 2^exponent / 10^(k + 1) in units of 2^-64, rounded up, by the exponent field of the float's bits. */
extern const uint64_t number_widths[256];

/* Nine digits, zeros behind the last that counts. */
struct number_digits {
    uint32_t eight; /* the first eight, the first of them not 0; or 0 */
    int16_t ninth;
    int16_t leading; /* the power of ten of the first */
};

/* The shortest digits of the power of two with this exponent field; of 0 for field 0. */
extern const struct number_digits number_powers_of_two[256];

/* k of an exponent field: 1262611 / 2^22 is log10(2), closely enough for float32. */
static inline int number_scale(uint32_t field)
{
    return (((int)(field ? field : 1) - 150) * 1262611) >> 22;
}

/* `bits` of a finite number, whatever its sign. */
static inline struct number_digits number_shortest(uint32_t bits)
{
    const uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
    if (fraction == 0)
        return number_powers_of_two[field];
    const uint32_t significand = field ? fraction | 0x800000 : fraction;
    const uint64_t width = number_widths[field];
    const unsigned __int128 product = (unsigned __int128)width * significand;
    const uint64_t f = (uint64_t)product;
    const uint32_t t = (uint32_t)(product >> 64);
    const uint64_t reach = (width >> 1) + NUMBER_SLACK - (uint64_t)(significand & 1) * (2 * NUMBER_SLACK);

    /* Without branches: none of this can be predicted. */
    const uint64_t tenths = (f >> 1) + (f >> 3) + (UINT64_C(1) << 59); /* 10 f + 1/2 in units of 2^-60 */
    const uint32_t tie = tenths << 4 == 0;
    const uint32_t down = f < reach;
    const uint32_t up = f > ~reach;
    const uint32_t nearest = (uint32_t)(tenths >> 60) & ~tie;
    const uint32_t before = t + up, last = nearest & ((down | up) - 1); /* the digits are 10 * before + last */
    int leading = number_scale(field) + 8;
    if (before < 1000000) { /* only seven of them; fewer of subnormal numbers */
        uint32_t digits = 10 * before + last;
        for (leading--; digits < 10000000; leading--)
            digits *= 10;
        return (struct number_digits){digits, 0, (int16_t)leading};
    }
    const uint32_t few = before < 10000000; /* not nine, but eight of them */
    return (struct number_digits){before + few * (9 * before + last), (int16_t)(last & (few - 1)),
                                  (int16_t)(leading - (int)few)};
}

/* Below 10^8, as eight digits, one in a byte, the first lowest: halves, then quarters, then digits side by side. */
static inline uint64_t number_eight_digits(uint32_t value)
{
    const uint64_t fours = value / 10000 + ((uint64_t)(value % 10000) << 32);
    const uint64_t two = fours * 5243 >> 19 & 0x0000007F0000007F, twos = two + ((fours - two * 100) << 16);
    const uint64_t one = twos * 103 >> 10 & 0x000F000F000F000F;
    return (twos << 8) - one * 2559;
}

#endif
