/* Owns what the hash of a tensor is made of: part of what model_digest.c describes, and as lasting.
 *
 * A matrix is hashed as its transpose [columns, rows], tables of embeddings and vectors as they are. What is hashed is
 * cut into tiles of 64 by 64, smaller at its ends; the hash is the SHA-256 of the tiles' SHA-256, row of tiles by row
 * of tiles; a tile's is over its float32 numbers, row by row, little-endian. By tiles, so that pieces of either order
 * can be hashed as they come. */
#include "weights/tensor_hash.h"

#include "base/size.h"

#include <nettle/sha2.h>
#include <stdlib.h>

_Static_assert(TENSOR_HASH_BYTES == SHA256_DIGEST_SIZE, "a tensor's hash");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers are hashed as they lie in memory");

#define TILE TENSOR_HASH_TILE

static size_t tiles_of(size_t length)
{
    return length / TILE + (length % TILE > 0);
}

bool tensor_hash_bytes(size_t rows, size_t columns, size_t *bytes)
{
    return size_multiply(tiles_of(rows), tiles_of(columns), bytes) && size_multiply(*bytes, TENSOR_HASH_BYTES, bytes);
}

bool tensor_hash_create(size_t rows, size_t columns, bool matrix, struct tensor_hash *hash, struct error *error)
{
    size_t bytes;
    *hash = (struct tensor_hash){.rows = rows, .columns = columns, .matrix = matrix};
    if (tensor_hash_bytes(rows, columns, &bytes))
        hash->tiles = malloc(bytes);
    return hash->tiles || error_out_of_memory(error);
}

void tensor_hash_free(struct tensor_hash *hash)
{
    free(hash->tiles);
    hash->tiles = NULL;
}

/* [height, width], rows `stride` apart. */
static void hash_tile(const float *rows, size_t stride, size_t height, size_t width, uint8_t bytes[TENSOR_HASH_BYTES])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    for (size_t i = 0; i < height; i++)
        sha256_update(&sha, width * sizeof *rows, (const uint8_t *)(rows + i * stride));
    sha256_digest(&sha, TENSOR_HASH_BYTES, bytes);
}

/* A tile of the transpose of [width, height], rows `stride` apart. */
static void hash_turned_tile(const float *rows, size_t stride, size_t height, size_t width,
                             uint8_t bytes[TENSOR_HASH_BYTES])
{
    _Alignas(64) float turned[TILE * TILE]; /* [height, width] */
    for (size_t j = 0; j < width; j++)
        for (size_t i = 0; i < height; i++)
            turned[i * width + j] = rows[j * stride + i];
    hash_tile(turned, width, height, width, bytes);
}

void tensor_hash_add(const struct tensor_hash *hash, bool by_columns, size_t first, size_t count, const float *lines)
{
    const bool turned = by_columns != hash->matrix;
    const size_t length = by_columns ? hash->rows : hash->columns; /* of a line */
    const size_t across = tiles_of(hash->matrix ? hash->rows : hash->columns);
    for (size_t line = 0; line < count; line += TILE)
        for (size_t at = 0; at < length; at += TILE) {
            const size_t n_lines = size_min(count - line, TILE), width = size_min(length - at, TILE);
            const size_t tile_line = (first + line) / TILE, tile_at = at / TILE;
            const float *tile = lines + line * length + at;
            if (turned)
                hash_turned_tile(tile, length, width, n_lines, hash->tiles[tile_at * across + tile_line]);
            else
                hash_tile(tile, length, n_lines, width, hash->tiles[tile_line * across + tile_at]);
        }
}

void tensor_hash_write(const struct tensor_hash *hash, uint8_t bytes[TENSOR_HASH_BYTES])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, tiles_of(hash->rows) * tiles_of(hash->columns) * sizeof *hash->tiles, hash->tiles[0]);
    sha256_digest(&sha, TENSOR_HASH_BYTES, bytes);
}
