/* The base64 form of tensors: little-endian numbers of some format, row-major. */
#ifndef ATTND_CODEC_TENSOR_BASE64_H
#define ATTND_CODEC_TENSOR_BASE64_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* json/reader.h has it. */
struct json_key;

/* `count` numbers from a JSON string in place, taken from the arena. `dtype` is a float format. NULL on failure, with
 * `pointer` being the tensor's place: ERROR_BAD_ENCODING (at its member base64), ERROR_INVALID for another count of
 * bytes, ERROR_NOT_FINITE, ERROR_OUT_OF_MEMORY when the arena is full; the arena is then as it was. */
float *tensor_base64_numbers(const struct json_key *string, enum dtype dtype, size_t count, struct arena *arena,
                             const char *pointer, struct error *error);

/* The same for a mask: `count` bytes 0 or 1 from any format; another value is ERROR_INVALID. */
uint8_t *tensor_base64_mask(const struct json_key *string, enum dtype dtype, size_t count, struct arena *arena,
                            const char *pointer, struct error *error);

/* The same for whole numbers from 0 to UINT32_MAX, of an integer format, of a tensor of that shape, whose product fits;
 * another value is ERROR_INVALID at its place. */
uint32_t *tensor_base64_integers(const struct json_key *string, enum dtype dtype, const size_t *shape, unsigned rank,
                                 struct arena *arena, const char *pointer, struct error *error);

#endif
