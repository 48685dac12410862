/* Kernels for the processor family's baseline: 16-byte vectors (SSE2 on x86-64), no multiply-add assumed. */

#include "engine/kernels/tiles.h"

#define VARIANT       generic
#define VARIANT_NAME  "generic"
#define VECTOR_BYTES  16
#define PANEL_VECTORS 2
/* 16 registers: 8 sums, 2 of B, 1 broadcast, 1 product. */
#define TILES(X)        TILES_1_TO_8(X, 1) TILES_1_TO_4(X, 2)
#define TILE_ROWS       0, 8, 4
#define TILES_MOST_ROWS 8

#include "engine/kernels/body.inc"
