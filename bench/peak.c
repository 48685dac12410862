/* The multiply-adds that one core can do with nothing but registers: what the engine's speed is measured against.
 * Compiled once per instruction set, with the flags of its kernels, VECTOR_BYTES and PEAK (the function's name)
 * defined. */

#include "peak.h"

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));

/* As many as 16 registers hold beside the two operands; enough to hide the latency of a multiply-add. */
#define CHAINS 14

double PEAK(size_t rounds)
{
    vec chains[CHAINS], factor = {0}, term = {0};
    __asm__("" : "+m"(factor), "+m"(term)); /* unknown to the compiler */
    for (int i = 0; i < CHAINS; i++)
        chains[i] = (vec){0};
    for (size_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            chains[i] = chains[i] * factor + term;
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "m"(chains[i]));
    return 2.0 * (double)rounds * CHAINS * (VECTOR_BYTES / 4);
}
