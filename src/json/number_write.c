/* float32 and double to decimal text: the shortest digits that read back, or a fixed number of places. Any thread; no
 * memory but the stack's; knows no locale.
 *
 * The shortest float32 is found by Schubfach (Giulietti, "The Schubfach way to render doubles", 2021), in 32-bit
 * arithmetic. */
#include "json/number.h"
#include "json/powers_of_ten.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* digits * 10^exponent, without zeros at the end of the digits */
struct digits {
    uint64_t digits;
    int exponent;
};

static struct digits without_zeros(uint64_t digits, int exponent)
{
    for (; digits && digits % 10 == 0; exponent++)
        digits /= 10;
    return (struct digits){digits, exponent};
}

/* floor(g * x / 2^64), its lowest bit set where more than one unit of 2^-32 was cut off: enough to compare it with
 * whole and half numbers, and the unit leaves room for the table's own error (Giulietti, section 9). */
static uint32_t multiply_to_odd(uint64_t g, uint32_t x)
{
    uint64_t product = (uint64_t)((unsigned __int128)g * x >> 32);
    return (uint32_t)(product >> 32) | ((uint32_t)product > 1);
}

/* The shortest decimal in the interval that rounds to the float with these bits (positive, finite, not 0), and the
 * nearest to it of those. */
static struct digits shortest_f32(uint32_t bits)
{
    uint32_t fraction = bits & 0x7FFFFF, field = bits >> 23;
    uint32_t significand = field ? fraction | 0x800000 : fraction;
    int exponent = field ? (int)field - 150 : -149; /* the value is significand * 2^exponent */

    /* The interval, in quarters of the last place: half a place to either side, but only a quarter below a power of
     * two. Its ends round to the float where it is even. */
    bool narrow_below = fraction == 0 && field > 1;
    uint32_t below = 4 * significand - 2 + narrow_below, value = 4 * significand, above = 4 * significand + 2;
    uint32_t odd = significand & 1;

    /* k is the largest with 10^k not above the interval's width: floor(log10(2^exponent)), or of 3/4 of that. 1262611 /
     * 2^22 is log10(2), 524031 / 2^22 is log10(4/3), closely enough for the exponents of float32. */
    int k = (exponent * 1262611 - (narrow_below ? 524031 : 0)) >> 22;

    /* Everything times 10^-k, still in quarters: the interval is now 1 to 10 wide. 10^-k is taken from above. */
    uint64_t g = powers_of_ten[-k - POWER_FIRST] + 1;
    int shift = exponent + power_exponent(-k) + 1;
    uint32_t lower = multiply_to_odd(g, below << shift) + odd, upper = multiply_to_odd(g, above << shift) - odd;
    uint32_t scaled = multiply_to_odd(g, value << shift), floor = scaled / 4;

    /* At most one multiple of ten lies in the interval; if one does, it is the shortest. */
    uint32_t tens = floor / 10;
    bool down_fits = lower <= 40 * tens, up_fits = 40 * tens + 40 <= upper;
    if (down_fits != up_fits)
        return without_zeros(tens + up_fits, k + 1);

    /* Of the two whole numbers around the value the only one inside, or the nearer, or the even one. */
    down_fits = lower <= 4 * floor;
    up_fits = 4 * floor + 4 <= upper;
    if (down_fits != up_fits)
        return without_zeros(floor + up_fits, k);
    uint32_t middle = 4 * floor + 2;
    bool up = scaled > middle || (scaled == middle && (floor & 1));
    return without_zeros(floor + up, k);
}

/* `value` with exactly `count` digits, zeros in front. */
static char *write_digits(char *to, uint64_t value, unsigned count)
{
    for (unsigned i = count; i-- > 0; value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + count;
}

static unsigned count_digits(uint64_t value)
{
    unsigned count = 1;
    while (value >= 10) {
        value /= 10;
        count++;
    }
    return count;
}

/* Plain from 0.0001 to below 1e9, with an exponent outside. */
static char *write_shortest(char *to, struct digits number)
{
    char buffer[20], *digits = buffer + sizeof buffer;
    do
        *--digits = (char)('0' + number.digits % 10);
    while (number.digits /= 10);
    size_t count = (size_t)(buffer + sizeof buffer - digits);
    int leading = number.exponent + (int)count - 1; /* the power of ten of the first digit */

    if (leading < -4 || leading > 8) {
        *to++ = digits[0];
        if (count > 1) {
            *to++ = '.';
            memcpy(to, digits + 1, count - 1);
            to += count - 1;
        }
        *to++ = 'e';
        if (leading < 0)
            *to++ = '-';
        unsigned power = (unsigned)(leading < 0 ? -leading : leading);
        return write_digits(to, power, count_digits(power));
    }
    if (leading < 0) {
        unsigned zeros = (unsigned)-leading - 1;
        memcpy(to, "0.0000", 6);
        to += 2 + zeros;
        memcpy(to, digits, count);
        return to + count;
    }
    size_t whole = (size_t)leading + 1; /* digits before the point */
    for (size_t i = 0; i < whole; i++)
        *to++ = i < count ? digits[i] : '0';
    *to++ = '.';
    if (count <= whole) {
        *to++ = '0';
        return to;
    }
    memcpy(to, digits + whole, count - whole);
    return to + (count - whole);
}

char *number_write_f32(char *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (bits >> 31)
        *to++ = '-';
    bits &= 0x7FFFFFFF;
    if (bits == 0) {
        memcpy(to, "0.0", 3);
        return to + 3;
    }
    return write_shortest(to, shortest_f32(bits));
}

/* value / 2^shift to nearest, ties to even; value < 2^63. */
static uint64_t shift_right_rounded(uint64_t value, unsigned shift)
{
    if (shift == 0)
        return value;
    if (shift > 63)
        return 0;
    uint64_t quotient = value >> shift, rest = value & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    return quotient + (rest > half || (rest == half && (quotient & 1)));
}

static char *write_whole(char *to, unsigned __int128 value)
{
    const uint64_t ten_to_19 = UINT64_C(10000000000000000000);
    if (value < ten_to_19)
        return write_digits(to, (uint64_t)value, count_digits((uint64_t)value));
    /* Below 2^128 < 10^39 the higher part may itself have 20 digits. */
    to = write_whole(to, value / ten_to_19);
    return write_digits(to, (uint64_t)(value % ten_to_19), 19);
}

char *number_write_fixed(char *to, float value, unsigned decimals)
{
    uint64_t scale = 1;
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;

    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
    uint64_t significand = field ? fraction | 0x800000 : fraction;
    int exponent = field ? (int)field - 150 : -149;

    unsigned __int128 whole;
    uint64_t places;
    if (exponent >= 0) {
        whole = (unsigned __int128)significand << exponent; /* exponent <= 104 */
        places = 0;
    } else {
        uint64_t rounded = shift_right_rounded(significand * scale, (unsigned)-exponent); /* 2^24 * 10^9 < 2^54 */
        whole = rounded / scale;
        places = rounded % scale;
    }
    if (bits >> 31 && (whole || places))
        *to++ = '-';
    to = write_whole(to, whole);
    if (decimals == 0)
        return to;
    *to++ = '.';
    return write_digits(to, places, decimals);
}

/* Whether digits * 10^exponent reads back as `value`. */
static bool reads_as(uint64_t digits, int exponent, double value)
{
    char text[40];
    const char *at = text, *end = text + snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exponent);
    double read;
    return number_read_f64(&at, end, &read) == NUMBER_OK && read == value;
}

/* `value` (positive) rounded to `count` digits. Of printf's text only the digits are looked at, not the point that the
 * locale puts in. */
static struct digits rounded_f64(double value, int count)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", count - 1, value);
    struct digits number = {0, 0};
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            number.digits = number.digits * 10 + (uint64_t)(*at - '0');
    bool negative = at[1] == '-';
    for (at += 2; *at; at++)
        number.exponent = number.exponent * 10 + (*at - '0');
    number.exponent = (negative ? -number.exponent : number.exponent) - (count - 1);
    return number;
}

/* Fewer digits than 15 need no search in the normal range: what has at most 15 is found again by rounding to 15. The
 * nearest number of `count` digits may miss the interval that reads as `value` while the one above it is inside, where
 * that reaches twice as far up as down: above a power of two. */
static struct digits shortest_f64(double value)
{
    struct digits number = {0, 0};
    for (int count = value >= DBL_MIN ? 15 : 1; count <= 17; count++) {
        number = rounded_f64(value, count);
        if (reads_as(number.digits, number.exponent, value))
            break;
        if (reads_as(number.digits + 1, number.exponent, value)) {
            number.digits++;
            break;
        }
    }
    return without_zeros(number.digits, number.exponent);
}

char *number_write_f64(char *to, double value)
{
    if (signbit(value))
        *to++ = '-';
    if (value == 0) {
        memcpy(to, "0.0", 3);
        return to + 3;
    }
    return write_shortest(to, shortest_f64(fabs(value)));
}
