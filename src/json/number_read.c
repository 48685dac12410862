/* Decimal text to float32, double and integers: once over the digits, one multiplication by a power of ten, one
 * rounding. Any thread; no memory but the stack's; knows no locale.
 *
 * The multiplication is that of Lemire's "Number parsing at a gigabyte per second" (2021), with half of its table: the
 * product is known to within a few units of its 64th bit, which settles the rounding unless the number lies that close
 * to a halfway point; then decimal_compare settles it exactly. */
#include "json/decimal.h"
#include "json/number.h"
#include "json/powers_of_ten.h"

#include <endian.h>
#include <string.h>

/* A binary format of IEEE 754. */
struct format {
    int fraction_bits;  /* stored, so without the leading one */
    int bias;           /* 2^0 has this exponent field */
    int exponent_field; /* that of infinity */
    int first_power;    /* 1e19 times a lower power of ten is below half the smallest number ... */
    int last_power;     /* ... and a higher power itself is beyond the largest */
};

static const struct format binary32 = {23, 127, 255, -64, 38}; /* 1e-46 < 2^-150, 1e39 > 2^128 */
static const struct format binary64 = {52, 1023, 2047, POWER_FIRST, POWER_LAST};

/* Of an exponent beyond this, further digits do not matter: no text is long enough for its other digits to make up for
 * it. */
#define EXPONENT_LIMIT INT64_C(100000000000000000)

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static uint64_t load_8(const char *at)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return le64toh(bytes);
}

/* Each byte is '0'..'9': its high half is 3, and stays 3 when 6 is added. */
static bool all_digits(uint64_t bytes)
{
    const uint64_t high_halves = 0xF0F0F0F0F0F0F0F0, threes = 0x3030303030303030;
    return (bytes & high_halves) == threes && ((bytes + 0x0606060606060606) & high_halves) == threes;
}

/* Eight digits, the first in the lowest byte, joined to pairs, fours and the whole. */
static uint64_t value_of_8(uint64_t bytes)
{
    bytes -= 0x3030303030303030;
    bytes = (bytes * 10 + (bytes >> 8)) & 0x00FF00FF00FF00FF;
    bytes = (bytes * 100 + (bytes >> 16)) & 0x0000FFFF0000FFFF;
    return (bytes * 10000 + (bytes >> 32)) & 0xFFFFFFFF;
}

/* Passes digits and appends them to *value, which wraps around when there are more than 19. */
static const char *read_digits(const char *at, const char *end, uint64_t *value)
{
    uint64_t v = *value;
    for (; end - at >= 8; at += 8) {
        uint64_t bytes = load_8(at);
        if (!all_digits(bytes))
            break;
        v = v * 100000000 + value_of_8(bytes);
    }
    for (; at < end && is_digit(*at); at++)
        v = v * 10 + (uint64_t)(*at - '0');
    *value = v;
    return at;
}

/* The digits again, where there may be more than 64 bits hold: the first ones only, and what stands behind them. */
static void cut_digits(struct decimal *number, const char *point)
{
    const char *at = number->text, *end = number->text_end;
    unsigned count = 0;
    number->digits = 0;
    for (; at < end && count < DECIMAL_DIGITS; at++)
        if (*at != '.') {
            number->digits = number->digits * 10 + (uint64_t)(*at - '0');
            count++;
        }
    /* The exponent counts from the end of the text; each digit that is left out makes it one greater. */
    number->exponent += end - at - (point && at <= point);
    for (; at < end && !number->cut; at++)
        number->cut = *at != '.' && *at != '0';
}

/* The exponent behind its 'e'; *at is moved as for number_read_f32. */
static bool read_exponent(const char **at, const char *end, int64_t *exponent)
{
    const char *p = *at;
    int64_t value = 0;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    const char *first = p;
    for (; p < end && is_digit(*p); p++)
        if (value < EXPONENT_LIMIT)
            value = value * 10 + (*p - '0');
    *at = p;
    *exponent += negative ? -value : value;
    return p > first;
}

/* Takes a number apart. False where it is none; *at as number_read_f32 has it, in both cases. */
static inline bool scan(const char **at, const char *end, struct decimal *number)
{
    const char *p = *at, *point = NULL;
    *number = (struct decimal){.negative = p < end && *p == '-'};
    p += number->negative;
    const char *integer = p;
    p = read_digits(p, end, &number->digits);
    if (p == integer || (*integer == '0' && p > integer + 1)) {
        *at = p == integer ? p : integer + 1;
        return false;
    }
    if (p < end && *p == '.') {
        point = p;
        p = read_digits(point + 1, end, &number->digits);
        number->exponent = point + 1 - p;
    }
    number->text = integer;
    number->text_end = p;
    *at = p;
    if (number->exponent == 0 && point)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        ++*at;
        if (!read_exponent(at, end, &number->exponent))
            return false;
    }
    if (number->text_end - integer > DECIMAL_DIGITS) {
        while (number->text < number->text_end && (*number->text == '0' || *number->text == '.'))
            number->text++;
        if (number->text_end - number->text > DECIMAL_DIGITS)
            cut_digits(number, point);
    }
    return true;
}

/* The bits of |number| rounded to nearest, ties to even; NUMBER_RANGE where that is infinity. */
static inline enum number_status round_to(const struct format *format, const struct decimal *number, uint64_t *bits)
{
    *bits = 0;
    if (number->digits == 0 || number->exponent < format->first_power)
        return NUMBER_OK;
    if (number->exponent > format->last_power)
        return NUMBER_RANGE;
    int power = (int)number->exponent;

    /* |number| = P * 2^(scale), where P is in [high, high + slack): the table's cut costs less than one unit of 2^64 in
     * the product and the cut of the product itself another, and what was cut from the digits, less than 1 in at least
     * 10^18 > 2^59, so shifted by at most 4, less than 2^4 more. */
    int shift = __builtin_clzll(number->digits);
    uint64_t high = (uint64_t)((unsigned __int128)(number->digits << shift) * powers_of_ten[power - POWER_FIRST] >> 64);
    uint64_t slack = number->cut ? 18 : 2;
    int scale = power_exponent(power) + 1 - shift;

    /* The low `drop` bits of `high` are behind the last place; below the normal numbers that place is fixed. */
    int top = 62 + (int)(high >> 63), drop = top - format->fraction_bits;
    int biased = top + scale + format->bias;
    if (biased <= 0) {
        drop += 1 - biased;
        biased = 1;
        if (drop > 64)
            return NUMBER_OK; /* below half the smallest number: P < 2^64 */
    }
    uint64_t significand = drop < 64 ? high >> drop : 0;
    uint64_t rest = drop < 64 ? high & ((UINT64_C(1) << drop) - 1) : high, half = UINT64_C(1) << (drop - 1);
    bool up = rest > half;
    if (__builtin_expect(!up && half - rest < slack, 0)) {
        int side = decimal_compare(number, 2 * significand + 1, scale + drop - 1);
        up = side > 0 || (side == 0 && (significand & 1));
    }
    /* A normal significand has its leading one, which adds 1 to the exponent field; so does a carry out of its top. */
    uint64_t rounded = ((uint64_t)(biased - 1) << format->fraction_bits) + significand + up;
    if (rounded >= (uint64_t)format->exponent_field << format->fraction_bits)
        return NUMBER_RANGE;
    *bits = rounded;
    return NUMBER_OK;
}

enum number_status number_read_f32(const char **at, const char *end, float *value)
{
    struct decimal number;
    uint64_t magnitude;
    if (__builtin_expect(!scan(at, end, &number), 0))
        return NUMBER_SYNTAX;
    if (__builtin_expect(round_to(&binary32, &number, &magnitude) != NUMBER_OK, 0))
        return NUMBER_RANGE;
    uint32_t bits = (uint32_t)magnitude | (uint32_t)number.negative << 31;
    memcpy(value, &bits, sizeof bits);
    return NUMBER_OK;
}

enum number_status number_round_f32(uint64_t digits, int64_t power, float *value)
{
    const struct decimal number = {.digits = digits, .exponent = power};
    uint64_t magnitude;
    if (round_to(&binary32, &number, &magnitude) != NUMBER_OK)
        return NUMBER_RANGE;
    uint32_t bits = (uint32_t)magnitude;
    memcpy(value, &bits, sizeof bits);
    return NUMBER_OK;
}

enum number_status number_read_f64(const char **at, const char *end, double *value)
{
    struct decimal number;
    uint64_t magnitude;
    if (!scan(at, end, &number))
        return NUMBER_SYNTAX;
    if (round_to(&binary64, &number, &magnitude) != NUMBER_OK)
        return NUMBER_RANGE;
    uint64_t bits = magnitude | (uint64_t)number.negative << 63;
    memcpy(value, &bits, sizeof bits);
    return NUMBER_OK;
}

enum number_status number_read_i64(const char **at, const char *end, int64_t *value)
{
    struct decimal number;
    if (!scan(at, end, &number))
        return NUMBER_SYNTAX;
    uint64_t magnitude = number.digits;
    for (; number.exponent < 0 && magnitude && magnitude % 10 == 0; number.exponent++)
        magnitude /= 10;
    if (number.cut || (number.exponent < 0 && magnitude))
        return NUMBER_RANGE;
    for (; number.exponent > 0 && magnitude; number.exponent--)
        if (__builtin_mul_overflow(magnitude, UINT64_C(10), &magnitude))
            return NUMBER_RANGE;
    if (magnitude > (uint64_t)INT64_MAX + number.negative)
        return NUMBER_RANGE;
    *value = (int64_t)(number.negative ? -magnitude : magnitude);
    return NUMBER_OK;
}

bool number_skip(const char **at, const char *end)
{
    struct decimal number;
    return scan(at, end, &number);
}
