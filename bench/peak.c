/* The multiply-adds per second of one core, with nothing but registers: what the engine's speed is measured against.
 * Compiled once per instruction set, with the flags of its kernels, VECTOR_BYTES and PEAK (the function's name)
 * defined. */

#include "peak.h"

#include <time.h>

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));

/* As many as 16 registers hold beside the two operands; enough to hide the latency of a multiply-add. */
#define CHAINS 14

double PEAK(void)
{
    const size_t rounds = 2000000;
    vec chains[CHAINS], factor = {0}, term = {0};
    __asm__("" : "+m"(factor), "+m"(term)); /* unknown to the compiler */
    for (int i = 0; i < CHAINS; i++)
        chains[i] = (vec){0};
    struct timespec start, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (size_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            chains[i] = chains[i] * factor + term;
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "m"(chains[i]));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    return 2.0 * (double)rounds * CHAINS * (VECTOR_BYTES / 4) / seconds;
}
