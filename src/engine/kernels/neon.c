/* Kernels for aarch64: 16-byte vectors, of which there are 32, and multiply-add; all of it is part of the baseline. */

#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "this file is for aarch64 with Advanced SIMD"
#endif

#include "engine/kernels/tiles.h"

#define VARIANT       neon
#define VARIANT_NAME  "neon"
#define VECTOR_BYTES  16
#define PANEL_VECTORS 4
/* 32 registers: 24 sums, 4 of B, 1 broadcast. */
#define TILES(X)        TILES_1_TO_12(X, 1) TILES_1_TO_12(X, 2) TILES_1_TO_8(X, 3) TILES_1_TO_6(X, 4)
#define TILE_ROWS       0, 12, 12, 8, 6
#define TILES_MOST_ROWS 12

#include "engine/kernels/body.inc"
