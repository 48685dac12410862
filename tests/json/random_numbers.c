#include "random_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* splitmix64 */
uint64_t random_u64(struct random *random)
{
    uint64_t x = random->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

unsigned random_below(struct random *random, unsigned n)
{
    return (unsigned)((random_u64(random) >> 32) * n >> 32);
}

float random_f32(struct random *random)
{
    float value;
    do {
        uint32_t bits = (uint32_t)random_u64(random);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

double random_f64(struct random *random)
{
    double value;
    do {
        uint64_t bits = random_u64(random);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static size_t digits(struct random *random, char *to, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = (char)('0' + random_below(random, 10));
    return count;
}

/* An integer part without a leading zero, a fraction and an exponent, each of them or not. */
static size_t assembled(struct random *random, char *to, unsigned most_digits, int least_power, int most_power)
{
    size_t n = 0;
    unsigned whole = random_below(random, most_digits / 2 + 1), fraction = random_below(random, most_digits / 2 + 1);
    if (random_below(random, 2))
        to[n++] = '-';
    if (whole == 0) {
        to[n++] = '0';
    } else {
        to[n++] = (char)('1' + random_below(random, 9));
        n += digits(random, to + n, whole - 1);
    }
    if (fraction) {
        to[n++] = '.';
        unsigned zeros = random_below(random, 4) ? 0 : random_below(random, fraction);
        memset(to + n, '0', zeros);
        n += zeros;
        n += digits(random, to + n, fraction - zeros);
    }
    if (random_below(random, 3)) {
        int power =
            (int)(least_power + (int64_t)random_below(random, (unsigned)most_power - (unsigned)least_power + 1));
        n += (size_t)snprintf(to + n, 16, random_below(random, 2) ? "e%+d" : "E%d", power);
    }
    return n;
}

/* The point halfway from a float32 to the next, with all its digits (double holds it), or cut, or a little beside it.
 */
static size_t halfway(struct random *random, char *to)
{
    uint32_t bits;
    float value;
    do {
        value = fabsf(random_f32(random));
        memcpy(&bits, &value, sizeof bits);
        if (random_below(random, 4) == 0)
            bits &= 0x00FFFFFF; /* subnormal, or hardly more */
    } while (bits >= 0x7F7FFFFF);
    float lower, upper;
    memcpy(&lower, &bits, sizeof lower);
    bits++;
    memcpy(&upper, &bits, sizeof upper);
    double middle = ((double)lower + (double)upper) / 2;

    char text[160];
    snprintf(text, sizeof text, "%.*e", 112, middle);
    size_t mantissa = strcspn(text, "e"), kept = mantissa, n = 0;
    if (random_below(random, 2))
        to[n++] = '-';
    if (random_below(random, 3) == 0)
        kept = 3 + random_below(random, (unsigned)mantissa - 3);
    memcpy(to + n, text, kept);
    n += kept;
    switch (random_below(random, 4)) {
    case 0:
        break;
    case 1:
        n += digits(random, to + n, random_below(random, 20));
        break;
    case 2: {
        unsigned zeros = random_below(random, 80);
        memset(to + n, '0', zeros);
        n += zeros;
        to[n++] = '1';
        break;
    }
    default: /* one less in the last digit that is not 0 */
        for (size_t i = n; i-- > n - kept;)
            if (to[i] > '0' && to[i] <= '9') {
                to[i]--;
                break;
            }
    }
    return n + (size_t)sprintf(to + n, "%s", text + mantissa);
}

size_t random_decimal(struct random *random, char to[RANDOM_DECIMAL_BYTES])
{
    size_t n;
    switch (random_below(random, 8)) {
    case 0:
        n = assembled(random, to, 16, -20, 20);
        break;
    case 1:
        n = assembled(random, to, 40, -70, 45);
        break;
    case 2:
        n = assembled(random, to, 200, -250, 60);
        break;
    case 3:
        n = assembled(random, to, 8, -2000000000, 2000000000);
        break;
    case 4: /* zeros behind the point, and an exponent that takes them back */
        n = (size_t)sprintf(to, "0.%0*d", (int)(1 + random_below(random, 150)), 0);
        n += digits(random, to + n, 1 + random_below(random, 30));
        n += (size_t)sprintf(to + n, "e%u", random_below(random, 190));
        break;
    case 5:
        n = (size_t)sprintf(to, "%.*e", (int)random_below(random, 30), (double)random_f32(random));
        break;
    default:
        n = halfway(random, to);
    }
    to[n] = '\0';
    return n;
}
