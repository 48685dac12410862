/* What is summed over the rows of two heads, in vectors: one body of C, body.inc, compiled once for each instruction
 * set. Pure functions: any thread.
 *
 * Sums are float32 within blocks of 256 terms and float64 over them. A function's bits depend on its arguments alone,
 * so that equal rows give equal sums. All arrays are aligned to 64 bytes, and counts multiples of KERNEL_PAD. */
#ifndef ATTND_ANALYSIS_PAIR_KERNELS_PAIR_KERNELS_H
#define ATTND_ANALYSIS_PAIR_KERNELS_PAIR_KERNELS_H

#include "base/isa.h"

#include <stddef.h>

/* What will be read next: x [heads, floats], rows `stride` apart. */
struct pair_next {
    const float *x;
    size_t heads, stride, floats;
};

struct pair_kernels {
    /* sums[a][b] += weight * <x_a, x_b> for all heads b <= a: x [heads, depth], rows x_stride apart (a multiple of
     * KERNEL_PAD); sums [heads, heads], whose upper half is not touched. Memory is idle meanwhile: `next`, if not NULL,
     * is brought into the cache. */
    void (*products)(const float *x, size_t x_stride, size_t heads, size_t depth, double weight, double *sums,
                     const struct pair_next *next);
    /* Sum of m ln m with m = (p + q) / 2, 0 ln 0 = 0: less the entropy of m, in nats; of p, where q is p. p, q [count]
     * are at least 0; terms below 1e-38 count as 0. The logarithm is within 1.3e-7 of its value, or 1e-7 near 1. */
    double (*midpoint_log)(const float *p, const float *q, size_t count);
    /* Sum over the rows of ||x_i - y_i||: x, y [n_rows, stride]. */
    double (*row_distances)(const float *x, const float *y, size_t n_rows, size_t stride);
    /* Sum of squares of x [count]. */
    double (*squares)(const float *x, size_t count);
    /* The same in float64 throughout: no square overflows or vanishes. */
    double (*wide_squares)(const float *x, size_t count);
    /* Sum of x [count]. */
    double (*sum)(const float *x, size_t count);
    /* x = sqrt(x), x [count]. */
    void (*square_roots)(float *x, size_t count);
    /* to += x, both [count]. */
    void (*add)(double *to, const float *x, size_t count);
};

const struct pair_kernels *pair_kernels_of(enum isa isa);

#define PAIR_KERNELS_DECLARE(identifier, name) extern const struct pair_kernels pair_kernels_##identifier;
ISA_VARIANTS(PAIR_KERNELS_DECLARE)
#undef PAIR_KERNELS_DECLARE

#endif
