/* Powers of ten with 64 significant bits, for both directions between decimal and binary. Constant data: any thread. */
#ifndef ATTND_JSON_POWERS_OF_TEN_H
#define ATTND_JSON_POWERS_OF_TEN_H

#include <stdint.h>

/* A number of at most 19 digits times a lower power is below half the smallest double (1e19 * 1e-343 < 2^-1075), and
 * anything times a higher one is beyond the largest (1e309 > 2^1024). */
#define POWER_FIRST (-342)
#define POWER_LAST  308

/* powers_of_ten[q - POWER_FIRST] * 2^(power_exponent(q) - 63) is 10^q, cut (never rounded up) to 64 bits with the
 * highest set. */
extern const uint64_t powers_of_ten[POWER_LAST - POWER_FIRST + 1];

/* floor(log2(10^q)) for q in the table: 217706 / 2^16 is log2(10) closely enough, which powers_of_ten.py checks for
 * each. The right shift of a negative number keeps its sign, as GCC and Clang define it. */
static inline int power_exponent(int q)
{
    return (q * 217706) >> 16;
}

#endif
