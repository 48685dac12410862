/* float32 and double to decimal text: the shortest digits that read back, or a fixed number of places. Any thread; no
 * memory but the stack's; knows no locale. */
#include "json/number.h"
#include "json/number_shortest.h"

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

/* The lowest byte first, whatever the machine's order. */
static void store_bytes(char *to, uint64_t bytes, unsigned count)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(to, &bytes, count);
}

/* "e-38" and the like. Four bytes are written, and no branch taken: signs and lengths of neighbours cannot be
 * predicted. */
static char *write_power(char *to, int power)
{
    const unsigned negative = power<0, magnitude = (unsigned)(negative ? -power : power), two = magnitude> 9;
    const uint32_t tens = ('0' + magnitude / 10) & -two, ones = '0' + magnitude % 10;
    const uint32_t digits = tens | ones << 8 * two;
    store_bytes(to, 'e' | (('-' << 8) & -negative) | (uint64_t)digits << 8 << 8 * negative, 4);
    return to + 2 + negative + two;
}

/* No store goes behind the fifteenth byte: the longest text of each form ends there, and a shorter one is stored with
 * as many bytes. */
char *number_write_f32(char *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    *to = '-';
    to += bits >> 31;

    const struct number_digits number = number_shortest(bits);
    const int leading = number.leading;
    const uint64_t digits = number_eight_digits(number.eight), last = (uint64_t)number.ninth;
    const uint64_t text = digits + UINT64_C(0x3030303030303030), last_text = '0' + last;
    const unsigned of_eight = 8 - (unsigned)__builtin_clzll(digits | 1) / 8;
    const unsigned count =
        of_eight + ((9 - of_eight) & -(unsigned)(last != 0)); /* digits up to the last that is not 0 */

    if (leading < -4 || leading > 8) {
        store_bytes(to, (text & 0xFF) | (uint64_t)'.' << 8, 2);
        store_bytes(to + 2, text >> 8 | last_text << 56, 8);
        return write_power(to + (count > 1 ? count + 1 : 1), leading);
    }
    if (leading < 0) {
        memcpy(to, "0.000000", 8);
        to += 1 - leading;
        store_bytes(to, text, 8);
        to[8] = (char)last_text;
        return to + count;
    }
    const unsigned whole = (unsigned)leading + 1; /* digits before the point */
    store_bytes(to, text, 8);
    to[8] = (char)last_text;
    to += whole;
    *to++ = '.';
    if (count <= whole) {
        *to = '0';
        return to + 1;
    }
    const uint64_t behind = text >> 8 * (whole - 1) >> 8 | last_text << (64 - 8 * whole);
    store_bytes(to, behind, whole <= 5 ? 8 : 4);
    return to + (count - whole);
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

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

/* Up to eight digits, of which the first is not 0 unless it is the only one; eight bytes are written. */
static char *write_small_whole(char *to, uint32_t value)
{
    if (value < 10) {
        *to = (char)('0' + value);
        return to + 1;
    }
    const uint64_t digits = number_eight_digits(value);
    const unsigned zeros = (unsigned)__builtin_ctzll(digits) / 8;
    store_bytes(to, (digits + UINT64_C(0x3030303030303030)) >> 8 * zeros, 8);
    return to + 8 - zeros;
}

/* `value` with exactly `count` digits, 1 to 9; at least eight bytes are written. */
static char *write_places(char *to, uint32_t value, unsigned count)
{
    const uint32_t eight = count == 9 ? value / 10 : value * powers[8 - count];
    store_bytes(to, number_eight_digits(eight) + UINT64_C(0x3030303030303030), 8);
    if (count == 9)
        to[8] = (char)('0' + value % 10);
    return to + count;
}

char *number_write_fixed(char *to, float value, unsigned decimals)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t field = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF, negative = bits >> 31;
    const uint32_t significand = field ? fraction | 0x800000 : fraction;
    const int exponent = field ? (int)field - 150 : -149;
    *to = '-';
    if (exponent >= 0) {
        to = write_whole(to + negative, (unsigned __int128)significand << exponent); /* exponent <= 104 */
        if (decimals == 0)
            return to;
        *to++ = '.';
        memset(to, '0', decimals);
        return to + decimals;
    }

    /* What is behind the point, a part of 2^shift, to the nearest place: part * 10^9 < 2^54, so that a shift of 63 and
     * more leaves nothing, and less than half of the last place. */
    const unsigned shift = exponent < -63 ? 63 : (unsigned)-exponent;
    uint32_t whole = shift < 24 ? significand >> shift : 0;
    const uint64_t product = (significand - ((uint64_t)whole << shift)) * powers[decimals];
    const uint64_t odd = (decimals ? product >> shift : whole) & 1, half = UINT64_C(1) << (shift - 1);
    uint32_t places = (uint32_t)((product + half - 1 + odd) >> shift);
    if (places == powers[decimals]) {
        places = 0;
        whole++;
    }
    to = write_small_whole(to + (negative & (whole || places)), whole);
    if (decimals == 0)
        return to;
    *to++ = '.';
    return write_places(to, places, decimals);
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
