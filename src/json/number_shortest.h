/* The shortest digits of a float32, for one number; number_block.inc does the same in vectors. Pure: any thread.
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

struct number_digits {
    uint32_t digits; /* nine, the first not 0; or 0 */
    int32_t leading; /* the power of ten of the first */
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

    const uint64_t tenths = (f >> 1) + (f >> 3) + (UINT64_C(1) << 59); /* 10 f + 1/2 in units of 2^-60 */
    uint32_t last = (uint32_t)(tenths >> 60) - (tenths << 4 == 0 ? (uint32_t)(tenths >> 60) & 1 : 0);
    last = f < reach ? 0 : last;
    last = f > ~reach ? 10 : last;
    uint32_t digits = 10 * t + last;
    int leading = number_scale(field) + 8;
    if (field == 0)
        for (; digits < 10000000; leading--)
            digits *= 10;
    const uint32_t factor = digits < 10000000 ? 100 : digits < 100000000 ? 10 : 1;
    leading -= (digits < 100000000) + (digits < 10000000);
    return (struct number_digits){digits * factor, leading};
}

#endif
