/* The hash of a tensor's numbers as float32, the same whatever format and order its file has them in. A tensor comes in
 * pieces, of some rows or of some columns, in order; beside them the hashes of its tiles are held, 1/512 of it. One
 * thread. */
#ifndef ATTND_WEIGHTS_TENSOR_HASH_H
#define ATTND_WEIGHTS_TENSOR_HASH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_HASH_BYTES 32 /* SHA-256 */

/* Rows and columns of a tile. Pieces begin at multiples of it, and end there but the last. */
#define TENSOR_HASH_TILE ((size_t)64)

struct tensor_hash {
    size_t rows, columns;
    bool matrix;                         /* `x @ W`, which most files have by columns: so it is hashed */
    uint8_t (*tiles)[TENSOR_HASH_BYTES]; /* in the order of tensor_hash.c */
};

/* The memory for one of [rows, columns]. False on overflow. */
bool tensor_hash_bytes(size_t rows, size_t columns, size_t *bytes);

/* Of a tensor [rows, columns]. ERROR_OUT_OF_MEMORY. */
bool tensor_hash_create(size_t rows, size_t columns, bool matrix, struct tensor_hash *hash, struct error *error);
void tensor_hash_free(struct tensor_hash *hash);

/* Its rows, or columns, first .. first + count - 1: lines [count, columns or rows], one behind the other. */
void tensor_hash_add(const struct tensor_hash *hash, bool by_columns, size_t first, size_t count, const float *lines);

/* Once all of it was added. */
void tensor_hash_write(const struct tensor_hash *hash, uint8_t bytes[TENSOR_HASH_BYTES]);

#endif
