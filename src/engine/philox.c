/* The scalar form of the generator. */

#include "engine/philox.h"

void philox(const uint32_t counter[4], uint64_t seed, uint32_t numbers[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_MULTIPLIER_0 * c0, p1 = (uint64_t)PHILOX_MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    numbers[0] = c0;
    numbers[1] = c1;
    numbers[2] = c2;
    numbers[3] = c3;
}
