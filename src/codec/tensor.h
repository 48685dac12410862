/* Dense float32 tensors, and the three forms they take in JSON. */
#ifndef ATTND_CODEC_TENSOR_H
#define ATTND_CODEC_TENSOR_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* json/reader.h has it; not included here, because its names and jansson's cannot stand in one file. */
struct json_reader;

/* [B, L, H, T, T] is the deepest that the contract knows. */
#define TENSOR_MAX_RANK 5

/* Row-major. rank 0: no tensor. `data` is a piece of the arena that the tensor was read into, or lies in the bytes that
 * it was read from (raw_tensor.h). */
struct tensor {
    unsigned rank;
    size_t shape[TENSOR_MAX_RANK];
    size_t count;      /* product of the shape */
    const float *data; /* [count] */
    enum dtype dtype;  /* that its numbers had where they came from; text is DTYPE_F32 */
};

/* Holds any tensor_shape_text: brackets, 20 digits and ", " for each extent, a NUL. */
#define TENSOR_SHAPE_TEXT_BYTES (TENSOR_MAX_RANK * 22 + 3)

/* "[1, 4, 64]" into buffer, cut where it does not fit; returns buffer. */
char *tensor_shape_text(const size_t *shape, unsigned rank, char *buffer, size_t size);

/* Reads a tensor of numbers in any of the three forms: nested arrays; {"shape", "data"} with data nested just so or
 * flat; {"shape", "dtype", "base64"} with dtype f32, f16, bf16 or f64, f32 where it is left out. No extent may be 0.
 * Beside `data` the only dtype is f32.
 *
 * Errors carry the pointer of the number, row or member: ERROR_INVALID for more than `max_rank` axes (at most
 * TENSOR_MAX_RANK), ragged arrays, anything that is not a number, shapes that do not fit; ERROR_NOT_FINITE for numbers
 * beyond float32 (and NaN or infinity in base64, with the pointer of the tensor); ERROR_BAD_ENCODING for bad base64;
 * ERROR_NOT_JSON; ERROR_OUT_OF_MEMORY when the arena is full. On failure *tensor is as it was, and so is the arena.
 *
 * While it is read, a tensor takes at most two bytes for a byte of its text: a number and its separator are two bytes
 * and become four. Base64 takes at most one and a half: four characters are three bytes, of which f16 makes six. */
bool tensor_read_json(struct json_reader *r, struct arena *arena, struct tensor *tensor, unsigned max_rank,
                      struct error *error);

/* A mask: the same forms and memory, and booleans where numbers may stand; every value 0 or 1 (false or true), else
 * ERROR_INVALID at its place. In base64 also dtype bool, u8, i32, i64. */
struct mask {
    unsigned rank; /* 0: none */
    size_t shape[TENSOR_MAX_RANK];
    size_t count;
    const uint8_t *data; /* [count], 0 or 1, as a tensor's */
};

bool mask_read_json(struct json_reader *r, struct arena *arena, struct mask *mask, unsigned max_rank,
                    struct error *error);

/* Only the nested arrays, flat or nested as `shape` [rank] is, which has at most TENSOR_MAX_RANK axes and a product
 * that fits. Float [product] from the arena, or uint8_t for a mask; NULL with an error as above, and the arena as it
 * was. */
void *tensor_read_data(struct json_reader *r, struct arena *arena, const size_t *shape, unsigned rank, bool is_mask,
                       struct error *error);

/* The member `shape` of tensors as objects: at least one axis and at most `max_rank`, each extent at least 1, and as many
 * bytes as memory can have. shape [max_rank]. */
bool tensor_read_shape(struct json_reader *r, unsigned max_rank, size_t element_bytes, size_t *shape, unsigned *rank,
                       size_t *count, struct error *error);

/* Which members such an object has: shape, and one of data and base64; ERROR_INVALID at the object. */
bool tensor_check_members(const struct json_reader *r, bool has_shape, bool has_data, bool has_base64,
                          struct error *error);

#endif
