/* Sums over the rows of two heads for the processor family's baseline. */

#define PAIR_KERNELS pair_kernels_generic
#define VECTOR_BYTES 16
/* 16 registers: 8 sums, 4 heads, 1 other, 1 product. */
#define TILE_A 2

#include "analysis/pair_kernels/body.inc"
