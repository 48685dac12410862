/* Sums over the rows of two heads for x86-64 with AVX-512. */

#if !defined(__AVX512F__) || !defined(__AVX512DQ__)
#error "compile this file with -mavx512f -mavx512dq"
#endif

#define PAIR_KERNELS pair_kernels_x86_64_v4
#define VECTOR_BYTES 64
/* 32 registers: 24 sums, 4 heads, 1 other. */
#define TILE_A 6

#include "analysis/pair_kernels/body.inc"
