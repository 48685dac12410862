/* Lists of register tiles for TILES (body.inc): X(rows, vectors) for 1 to n rows. */
#ifndef ATTND_ENGINE_KERNELS_TILES_H
#define ATTND_ENGINE_KERNELS_TILES_H

#define TILES_1_TO_4(X, vectors)  X(1, vectors) X(2, vectors) X(3, vectors) X(4, vectors)
#define TILES_1_TO_6(X, vectors)  TILES_1_TO_4(X, vectors) X(5, vectors) X(6, vectors)
#define TILES_1_TO_8(X, vectors)  TILES_1_TO_6(X, vectors) X(7, vectors) X(8, vectors)
#define TILES_1_TO_12(X, vectors) TILES_1_TO_8(X, vectors) X(9, vectors) X(10, vectors) X(11, vectors) X(12, vectors)

#endif
