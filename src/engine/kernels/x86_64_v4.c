/* Kernels for x86-64 with AVX-512 (F, BW, CD, DQ, VL): 64-byte vectors. */

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512CD__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
#error "compile this file with -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl"
#endif

#include "engine/kernels/tiles.h"

#define VARIANT       x86_64_v4
#define VARIANT_NAME  "x86-64-v4"
#define VECTOR_BYTES  64
#define PANEL_VECTORS 4
/* 32 registers: 24 sums, 4 of B, 1 broadcast. */
#define TILES(X)        TILES_1_TO_12(X, 1) TILES_1_TO_12(X, 2) TILES_1_TO_8(X, 3) TILES_1_TO_6(X, 4)
#define TILE_ROWS       0, 12, 12, 8, 6
#define TILES_MOST_ROWS 12

#define REGISTER_CONSTRAINT "+v"

#include "engine/kernels/body.inc"
