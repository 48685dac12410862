/* What is measured of rows of attention weights, many rows at a time: one body of C, body.inc, compiled once for each
 * instruction set. Pure functions: any thread.
 *
 * Rows stand in the lanes of a vector, so that a row is added up in one order, whatever stands beside it: sums are
 * float32 within 32 keys and float64 over those. */
#ifndef ATTND_ANALYSIS_ROW_MEASURES_ROW_MEASURES_H
#define ATTND_ANALYSIS_ROW_MEASURES_ROW_MEASURES_H

#include "base/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows that are measured at once; a multiple of every vector. */
#define MEASURED_ROWS 16

#define MEASURED_KEYS_PADDING 8

/* The share of a row that keys_for_share counts up to, less what rounding may take. */
#define MEASURED_SHARE (0.9 - 1e-6)

/* Neighbouring rows; weights are at least 0, and 0 on keys that are not allowed. */
struct measured_rows {
    const float *weights;          /* [n_rows, n_keys], rows `stride` floats apart */
    size_t stride, n_rows, n_keys; /* n_rows from 1 to MEASURED_ROWS, n_keys at least 1 */
    ptrdiff_t first_place;         /* the key that the first row stands at; the next row's is one more */
};

/* One element a row; those behind n_rows are unspecified. */
struct row_measures {
    double entropy[MEASURED_ROWS];         /* -sum p ln p, in nats; subnormal weights count as 0 */
    double total[MEASURED_ROWS];           /* sum p */
    double squares[MEASURED_ROWS];         /* sum p^2 */
    double distance[MEASURED_ROWS];        /* sum p |key - place| */
    double signed_distance[MEASURED_ROWS]; /* sum p (key - place) */
    float largest[MEASURED_ROWS];          /* max p */
    uint32_t argmax[MEASURED_ROWS];        /* its key, the first of equals */
    /* Of the sorted weights, where they are wanted. */
    double rank_sum[MEASURED_ROWS];         /* sum m p_m, p_1 <= p_2 <= .. <= p_n_keys */
    uint32_t keys_for_share[MEASURED_ROWS]; /* the least k whose k largest weights sum to MEASURED_SHARE; all keys,
                                               where none do */
};

struct row_kernels {
    /* scratch: [n_keys rounded up to MEASURED_KEYS_PADDING, MEASURED_ROWS], aligned as arenas align */
    void (*measure)(const struct measured_rows *rows, bool sorted, float *scratch, struct row_measures *measures);
    /* columns [n_keys] += the sum of the rows, in float64 */
    void (*add_columns)(const struct measured_rows *rows, double *columns);
    /* The sum of weights [count] in float64; *least: the smallest of them and of what it was. */
    double (*sum)(const float *weights, size_t count, float *least);
};

/* Those of this instruction set. */
const struct row_kernels *row_kernels_of(enum isa isa);

#define ROW_KERNELS_DECLARE(identifier, name) extern const struct row_kernels row_kernels_##identifier;
ISA_VARIANTS(ROW_KERNELS_DECLARE)
#undef ROW_KERNELS_DECLARE

#endif
