/* What rows of attention weights add to live sums, in vectors: one body of C, body.inc, compiled once for each
 * instruction set. Pure functions: any thread. */
#ifndef ATTND_ANALYSIS_LIVE_KERNELS_LIVE_KERNELS_H
#define ATTND_ANALYSIS_LIVE_KERNELS_LIVE_KERNELS_H

#include "base/isa.h"

#include <stddef.h>
#include <stdint.h>

/* A row as attention has it: exp(score - maximum). */
struct live_row {
    float *weights; /* [width], aligned to 64 bytes; 0 where not allowed, and behind n_keys up to a whole vector */
    size_t n_keys, width;   /* n_keys at least 1; width: a multiple of KERNEL_PAD */
    float inverse;          /* 1 / sum of the weights */
    float even;             /* 1 / number of allowed keys */
    const uint8_t *allowed; /* [n_keys], 1 or 0; NULL: all */
    ptrdiff_t place;        /* the key at the row's own position */
};

/* Of the probabilities p = weight * inverse. Sums are float32 within chains of 256 terms and float64 over them. */
struct live_measures {
    double entropy;                      /* -sum p ln p, in nats; subnormal p count as 0 */
    double squares;                      /* sum p^2 */
    double distance, signed_distance;    /* sum p |key - place|, sum p (key - place) */
    float largest;                       /* max p */
    float previous, next, itself, first; /* p at place - 1, place + 1, place and 0; 0 where there is no such key */
};

struct live_kernels {
    /* Measures the row, and leaves p - even in its place: 0 where not allowed, and from n_keys to width. */
    void (*see_row)(const struct live_row *row, struct live_measures *measures);
    /* products[a (a + 1) / 2 + b] += <x_a, x_b> for all b <= a < n_rows. x: rows x_stride floats apart, aligned to 64
     * bytes; count and x_stride are multiples of KERNEL_PAD. Terms are added up in float32 in chains of 64, and those
     * in float64. */
    void (*add_products)(const float *x /* [n_rows, count] */, size_t x_stride, size_t n_rows, size_t count,
                         double *products);
};

const struct live_kernels *live_kernels_of(enum isa isa);

#define LIVE_KERNELS_DECLARE(identifier, name) extern const struct live_kernels live_kernels_##identifier;
ISA_VARIANTS(LIVE_KERNELS_DECLARE)
#undef LIVE_KERNELS_DECLARE

#endif
