/* Sums over the rows of two heads for x86-64 with AVX2 and FMA. */

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file with -mavx2 -mfma"
#endif

#define PAIR_KERNELS pair_kernels_x86_64_v3
#define VECTOR_BYTES 32
/* 16 registers: 8 sums, 4 heads, 1 other. */
#define TILE_A 2

#include "analysis/pair_kernels/body.inc"
