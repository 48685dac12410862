/* The comparison that decides how a number rounds when its first 64 bits do not: in whole numbers of any size, nothing
 * rounded. Any thread; no memory but the stack's. */
#include "json/decimal.h"

#include <assert.h>

/* No more digits than these decide. A point halfway between two doubles, (2m + 1) * 2^-1075 at the smallest, has at
 * most 768 significant digits (float32: 113), so a longer number is above it, below it or beyond it already in its
 * first 768; behind a tie in those, any digit that is not 0 makes it greater. */
#define DECIDING_DIGITS 768

/* The largest number that occurs. With q the exponent behind DECIDING_DIGITS digits, the digits are below 10^768 <
 * 2^2552; the other side is significand * 5^-q, where -q <= 324 + 768 (the binary number is at least 2^-1075 >
 * 10^-324), so below 2^54 * 5^1092 < 2^2590. The shift that follows makes the two agree in their length, so neither
 * grows beyond the longer, but for one bit. 2591 bits are 41 limbs. */
#define LIMBS 41

struct whole {
    uint64_t limb[LIMBS]; /* the lowest first; the last of `count` is not 0 */
    unsigned count;
};

static void push(struct whole *a, uint64_t limb)
{
    if (limb == 0)
        return;
    assert(a->count < LIMBS);
    a->limb[a->count++] = limb;
}

static void multiply_add(struct whole *a, uint64_t factor, uint64_t summand)
{
    uint64_t carry = summand;
    for (unsigned i = 0; i < a->count; i++) {
        unsigned __int128 product = (unsigned __int128)a->limb[i] * factor + carry;
        a->limb[i] = (uint64_t)product;
        carry = (uint64_t)(product >> 64);
    }
    push(a, carry);
}

static void multiply_by_power_of_5(struct whole *a, unsigned power)
{
    const uint64_t five_to_27 = UINT64_C(7450580596923828125); /* the highest below 2^64 */
    for (; power >= 27; power -= 27)
        multiply_add(a, five_to_27, 0);
    uint64_t rest = 1;
    while (power--)
        rest *= 5;
    multiply_add(a, rest, 0);
}

static void shift_left(struct whole *a, unsigned bits)
{
    unsigned limbs = bits / 64;
    multiply_add(a, UINT64_C(1) << bits % 64, 0);
    assert(a->count + limbs <= LIMBS);
    for (unsigned i = a->count; i-- > 0;)
        a->limb[i + limbs] = a->limb[i];
    for (unsigned i = 0; i < limbs; i++)
        a->limb[i] = 0;
    a->count += limbs;
}

static int compare(const struct whole *a, const struct whole *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (unsigned i = a->count; i-- > 0;)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* The first DECIDING_DIGITS digits as a whole number; *count: how many there were. True when one behind them is not 0.
 */
static bool read_digits(const struct decimal *number, struct whole *digits, unsigned *count)
{
    const char *at = number->text;
    uint64_t block = 0, power = 1;
    *count = 0;
    for (; at < number->text_end && *count < DECIDING_DIGITS; at++) {
        if (*at == '.')
            continue;
        block = 10 * block + (uint64_t)(*at - '0');
        power *= 10;
        if (++*count % DECIMAL_DIGITS == 0) {
            multiply_add(digits, power, block);
            block = 0;
            power = 1;
        }
    }
    multiply_add(digits, power, block);
    for (; at < number->text_end; at++)
        if (*at != '.' && *at != '0')
            return true;
    return false;
}

int decimal_compare(const struct decimal *number, uint64_t significand, int exponent)
{
    struct whole decimal = {.count = 0}, binary = {.count = 0};
    int64_t power = number->exponent;
    bool more = false;
    if (number->cut) {
        unsigned count;
        more = read_digits(number, &decimal, &count);
        power -= (int64_t)count - DECIMAL_DIGITS;
    } else {
        push(&decimal, number->digits);
    }
    push(&binary, significand);

    /* decimal * 5^power * 2^power against binary * 2^exponent */
    if (power >= 0)
        multiply_by_power_of_5(&decimal, (unsigned)power);
    else
        multiply_by_power_of_5(&binary, (unsigned)-power);
    int64_t shift = exponent - power;
    if (shift >= 0)
        shift_left(&binary, (unsigned)shift);
    else
        shift_left(&decimal, (unsigned)-shift);

    int sign = compare(&decimal, &binary);
    return sign == 0 && more ? 1 : sign;
}
