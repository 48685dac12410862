/* Sums over the rows of two heads for aarch64. */

#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "this file is for aarch64 with Advanced SIMD"
#endif

#define PAIR_KERNELS pair_kernels_neon
#define VECTOR_BYTES 16
/* 32 registers: 24 sums, 4 heads, 1 other. */
#define TILE_A 6

#include "analysis/pair_kernels/body.inc"
