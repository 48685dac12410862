/* What rows of attention weights add to live sums, in vectors: one body of C, body.inc, compiled once for each
 * instruction set. Pure functions: any thread. */
#ifndef ATTND_ANALYSIS_LIVE_KERNELS_LIVE_KERNELS_H
#define ATTND_ANALYSIS_LIVE_KERNELS_LIVE_KERNELS_H

#include "base/isa.h"

#include <stddef.h>
#include <stdint.h>

/* Rows of one head as attention has them: exp(score - maximum). */
struct live_rows {
    float *weights; /* [n_rows, n_keys], rows `stride` floats apart, aligned to 64 bytes; 0 where not allowed, and
                       behind n_keys up to a whole vector */
    size_t n_rows, n_keys, stride; /* n_keys at least 1; stride: a multiple of KERNEL_PAD, at least KERNEL_PAD more */
    const float *inverse;          /* [n_rows]: 1 / sum of the weights; 0 without an allowed key */
    const float *logs;             /* [n_rows]: sum of weight * ln weight */
    /* Which keys are allowed: to row i those below key_limit + i * key_step (as far as there are so many), and of those
     * where allowed[i * allowed_stride + key] is 1. */
    ptrdiff_t key_limit;
    size_t key_step, allowed_stride;
    const uint8_t *allowed; /* 1 or 0; NULL: all of them */
    ptrdiff_t place;        /* the key at the first row's own position; one further for the next row */
    /* Of the number n of keys that are allowed to each row, [n_rows]. */
    const float *even;              /* 1 / n; 0: there is none */
    const float *inverse_logarithm; /* 1 / ln n; 0 where n < 2 */
    const float *root;              /* sqrt n */
    const float *inverse_root;      /* 1 / (sqrt n - 1); 0 where n < 2 */
    const uint8_t *keys;            /* of row_key (row_facts.h) */
};

/* The float arrays [n_rows] of live_rows can be read, but are not used, up to a multiple of this many elements. */
#define LIVE_ROWS_PADDING ((size_t)16)

/* Sums over rows of what docs/MODEL.md says of a row, with p = weight * inverse. A row's value is float32, from sums
 * that are float32 within chains of 256 terms; values are added up in float64, but for distances, which are float32
 * within 12 rows (48 where keys are within one vector). */
struct live_measures {
    double entropy, normalized_entropy, effective_keys, confidence, hoyer;
    double distance, signed_distance; /* about place, whether or not the rows stand there */
    double masses[4];                 /* on the keys before, at and behind the row's place, and on key 0 */
};

struct live_kernels {
    /* Measures the rows, and leaves p - even in their place for add_products: 0 where not allowed. */
    void (*see_rows)(const struct live_rows *rows, struct live_measures *measures);
    /* products[a (a + 1) / 2 + b] += <x_a, x_b> for all b <= a < n_heads, x as see_rows left it for n_rows rows of
     * n_keys keys, each head head_stride floats behind the one before. Terms are added up in float32 within 12 rows of
     * up to 21 vectors (4 of longer ones, 48 of one vector) and in chains of at most 256, in float64 over those: longer
     * rows have the same sums in one piece and in several, if those are cut at multiples of 12. */
    void (*add_products)(const float *x, size_t head_stride, size_t n_heads, size_t n_rows, size_t n_keys,
                         size_t stride, double *products);
    /* values: the offsets, z, zz and zn of ratio_sums.h for `count` means that have n in common, [4, count]; count is a
     * multiple of LIVE_MEANS_PADDING. All as ratio_sums_add and ratio_sums_merge have it: the first sequence, another
     * one, other sums. */
    void (*begin_means)(double *values, const double *y /* [count] */, double n, size_t count);
    void (*add_means)(double *values, const double *y /* [count] */, double n, size_t count);
    void (*merge_means)(double *values, const double *other /* [4, count] */, double n, double nn, size_t count);
};

#define LIVE_MEANS_PADDING ((size_t)8)

const struct live_kernels *live_kernels_of(enum isa isa);

#define LIVE_KERNELS_DECLARE(identifier, name) extern const struct live_kernels live_kernels_##identifier;
ISA_VARIANTS(LIVE_KERNELS_DECLARE)
#undef LIVE_KERNELS_DECLARE

#endif
