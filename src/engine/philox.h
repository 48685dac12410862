/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, 2011): random numbers that
 * are a function of a counter and a key, so that any order of work draws the same ones. Pure; any thread. */
#ifndef ATTND_ENGINE_PHILOX_H
#define ATTND_ENGINE_PHILOX_H

#include <stdint.h>

#define PHILOX_ROUNDS       10
#define PHILOX_MULTIPLIER_0 UINT32_C(0xD2511F53)
#define PHILOX_MULTIPLIER_1 UINT32_C(0xCD9E8D57)
#define PHILOX_WEYL_0       UINT32_C(0x9E3779B9)
#define PHILOX_WEYL_1       UINT32_C(0xBB67AE85)

/* Four numbers, uniform over 32 bits. The key is the seed's low and high 32 bits. */
void philox(const uint32_t counter[4], uint64_t seed, uint32_t numbers[4]);

#endif
