/* Dense float32 tensors, and the three forms they take in JSON. */
#ifndef ATTND_CODEC_TENSOR_H
#define ATTND_CODEC_TENSOR_H

#include "base/dtype.h"
#include "base/error.h"
#include "base/size.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* json/reader.h has it; not included here, because its names and jansson's cannot stand in one file. */
struct json_reader;

/* [B, L, H, T, T] is the deepest that the contract knows. */
#define TENSOR_MAX_RANK 5

/* Row-major. rank 0: no tensor. `data` is owned (malloc) and tensor_free gives it back. */
struct tensor {
    unsigned rank;
    size_t shape[TENSOR_MAX_RANK];
    size_t count; /* product of the shape */
    float *data;  /* [count] */
};

void tensor_free(struct tensor *tensor);

/* Holds any tensor_shape_text: brackets, 20 digits and ", " for each extent, a NUL. */
#define TENSOR_SHAPE_TEXT_BYTES (TENSOR_MAX_RANK * 22 + 3)

/* "[1, 4, 64]" into buffer, cut where it does not fit; returns buffer. */
char *tensor_shape_text(const size_t *shape, unsigned rank, char *buffer, size_t size);

/* The most memory that the tensors and masks of one JSON text of `bytes` bytes take together at any moment while they
 * are read (what they keep is less). A number and its separator are two bytes of text and become four bytes of memory;
 * a first guess of at most half a byte a byte of text, or a block of 4 KiB, may stand beside it when it turns out too
 * small. Base64 takes less: of f16, four bytes for 2 2/3 of text. */
static inline size_t tensor_json_peak_bytes(size_t bytes)
{
    size_t numbers, peak;
    if (!size_multiply(bytes, 2, &numbers) || !size_add(numbers, size_max(bytes / 2, 4096) + 64, &peak))
        return SIZE_MAX;
    return peak;
}

/* Reads a tensor of numbers in any of the three forms: nested arrays; {"shape", "data"} with data nested just so or
 * flat; {"shape", "dtype", "base64"} with dtype f32, f16, bf16 or f64, f32 where it is left out. No extent may be 0.
 * Beside `data` the only dtype is f32.
 *
 * Errors carry the pointer of the number, row or member: ERROR_INVALID for more than `max_rank` axes (at most
 * TENSOR_MAX_RANK), ragged arrays, anything that is not a number, shapes that do not fit; ERROR_NOT_FINITE for numbers
 * beyond float32 (and NaN or infinity in base64, with the pointer of the tensor); ERROR_BAD_ENCODING for bad base64;
 * ERROR_NOT_JSON. *tensor must be empty; it stays so on failure. */
bool tensor_read_json(struct json_reader *r, struct tensor *tensor, unsigned max_rank, struct error *error);

/* A mask: the same forms, and booleans where numbers may stand; every value 0 or 1 (false or true), else ERROR_INVALID
 * at its place. In base64 also dtype bool, u8, i32, i64. */
struct mask {
    unsigned rank; /* 0: none */
    size_t shape[TENSOR_MAX_RANK];
    size_t count;
    uint8_t *data; /* [count], 0 or 1; owned */
};

bool mask_read_json(struct json_reader *r, struct mask *mask, unsigned max_rank, struct error *error);
void mask_free(struct mask *mask);

#endif
