/* Tensors that are given as bytes: in a safetensors body, or behind the JSON of a binary protocol. */
#ifndef ATTND_CODEC_RAW_TENSOR_H
#define ATTND_CODEC_RAW_TENSOR_H

#include "base/dtype.h"
#include "codec/integers.h"
#include "codec/tensor.h"

#include <stdbool.h>
#include <stddef.h>

/* As many axes as any tensor may be sent with; how many one may have is for its reader to say. */
#define RAW_TENSOR_MAX_RANK 8

/* Little-endian numbers, row-major, at any alignment. The bytes outlive what is read from them. */
struct raw_tensor {
    enum dtype dtype;                  /* DTYPE_COUNT: a format that is not read here */
    const char *dtype_name;            /* as the sender calls it, for messages; NULL: its name in JSON */
    unsigned rank;                     /* at most RAW_TENSOR_MAX_RANK */
    size_t shape[RAW_TENSOR_MAX_RANK]; /* [rank]; an extent may be 0 */
    size_t count;                      /* product of the shape */
    const unsigned char *data;         /* [bytes] */
    size_t bytes;
};

/* A tensor of numbers. F32 that is aligned to 4 bytes is used where it lies; everything else becomes float32 in the
 * arena (at most twice its bytes).
 *
 * Errors have the tensor's place, `pointer`: ERROR_INVALID for a format without fractions, no axis or more than
 * `max_rank` (at most TENSOR_MAX_RANK), an extent of 0, and bytes that are not what shape and format make;
 * ERROR_NOT_FINITE for NaN, infinity and what is beyond float32, with its index; ERROR_OUT_OF_MEMORY when the arena is
 * full. On failure *tensor and the arena are as they were. */
bool raw_tensor_read(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                     struct tensor *tensor, struct error *error);

/* A mask, of any format; each value is 0 or 1, else ERROR_INVALID with its index. BOOL and U8 are used where they lie.
 */
bool raw_tensor_mask(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                     struct mask *mask, struct error *error);

/* Whole numbers from 0 to UINT32_MAX, of an integer format (I32, I64); another value is ERROR_INVALID at its place.
 * They are taken from the arena. */
bool raw_tensor_integers(const struct raw_tensor *raw, const char *pointer, unsigned max_rank, struct arena *arena,
                         struct integers *integers, struct error *error);

/* ERROR_NOT_FINITE for the number at `index` of `count`, and ERROR_INVALID for such a value of a mask. Always false. */
bool tensor_not_finite_error(const char *pointer, size_t index, size_t count, struct error *error);
bool tensor_mask_error(const char *pointer, size_t index, size_t count, struct error *error);
/* ERROR_INVALID for a whole number, at its place in the tensor: "/input_ids/1/3". Always false. */
bool tensor_integer_error(const char *pointer, size_t index, const size_t *shape, unsigned rank, struct error *error);

#endif
