/* Words as lower-case hexadecimal digits. */
#ifndef ATTND_BASE_HEX_H
#define ATTND_BASE_HEX_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Eight digits, the first of them in the highest byte. */
static inline uint64_t hex_spread(uint32_t word)
{
    uint64_t x = word;
    x = (x << 16 | x) & UINT64_C(0x0000FFFF0000FFFF);
    x = (x << 8 | x) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x << 4 | x) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    const uint64_t letters = (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    return x + UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10);
}

/* Writes 16 digits and no NUL. */
static inline void hex_write(char to[16], uint64_t word)
{
    const uint64_t digits[2] = {htobe64(hex_spread((uint32_t)(word >> 32))), htobe64(hex_spread((uint32_t)word))};
    memcpy(to, digits, sizeof digits);
}

#endif
