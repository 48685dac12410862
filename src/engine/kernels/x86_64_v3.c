/* Kernels for x86-64 with AVX2 and FMA: 32-byte vectors. */

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file with -mavx2 -mfma"
#endif

#include "engine/kernels/tiles.h"

#define VARIANT       x86_64_v3
#define VARIANT_NAME  "x86-64-v3"
#define VECTOR_BYTES  32
#define PANEL_VECTORS 2
/* 16 registers: 12 sums, 2 of B, 1 broadcast. */
#define TILES(X)        TILES_1_TO_12(X, 1) TILES_1_TO_6(X, 2)
#define TILE_ROWS       0, 12, 6
#define TILES_MOST_ROWS 12

#define REGISTER_CONSTRAINT "+x"

#include "engine/kernels/body.inc"
