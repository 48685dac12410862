/* The number formats of files and binary tensors, and their conversion to float32. */
#ifndef ATTND_BASE_DTYPE_H
#define ATTND_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* X(enum, name in JSON, name in safetensors, name in the Open Inference Protocol, bytes). Float formats first:
 * dtype_is_float relies on it. */
#define DTYPES(X)                            \
    X(DTYPE_F32, "f32", "F32", "FP32", 4)    \
    X(DTYPE_F16, "f16", "F16", "FP16", 2)    \
    X(DTYPE_BF16, "bf16", "BF16", "BF16", 2) \
    X(DTYPE_F64, "f64", "F64", "FP64", 8)    \
    X(DTYPE_BOOL, "bool", "BOOL", "BOOL", 1) \
    X(DTYPE_U8, "u8", "U8", "UINT8", 1)      \
    X(DTYPE_I32, "i32", "I32", "INT32", 4)   \
    X(DTYPE_I64, "i64", "I64", "INT64", 8)

#define DTYPE_ENUM(code, json, safetensors, oip, bytes) code,
enum dtype { DTYPES(DTYPE_ENUM) DTYPE_COUNT };
#undef DTYPE_ENUM

static inline int dtype_is_float(enum dtype dtype)
{
    return dtype <= DTYPE_F64;
}

static inline int dtype_is_integer(enum dtype dtype)
{
    return dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

size_t dtype_bytes(enum dtype dtype);
const char *dtype_json_name(enum dtype dtype);
const char *dtype_safetensors_name(enum dtype dtype);
const char *dtype_oip_name(enum dtype dtype);

/* DTYPE_COUNT when the name (`length` bytes) is none of these. */
enum dtype dtype_from_json_name(const char *name, size_t length);
enum dtype dtype_from_safetensors_name(const char *name, size_t length);
enum dtype dtype_from_oip_name(const char *name, size_t length);

float dtype_f16_to_f32(uint16_t bits);

/* The index of the first of values [count] that is not finite, or `count`. */
size_t dtype_first_not_finite(const float *values, size_t count);

/* Converts `count` little-endian numbers of a float format at `from` (any alignment) to float32 at `to` [count],
 * rounding f64 to nearest even. Returns `count`, or the index of the first number that is not finite or rounds beyond
 * float32; what lies behind it in `to` is unspecified. `from` may equal `to` for DTYPE_F32. */
size_t dtype_to_f32(enum dtype dtype, const void *from, float *to, size_t count);

/* The index of the first of values [count] that is neither 0 nor 1, or `count`. */
size_t dtype_first_not_mask(const uint8_t *values, size_t count);

/* The same for masks: `count` numbers of any format become 0 or 1 at `to` [count], which does not overlap `from`.
 * Returns `count`, or the index of the first number that is neither; what lies behind it in `to` is unspecified. */
size_t dtype_to_mask(enum dtype dtype, const void *from, uint8_t *to, size_t count);

/* The same for whole numbers from 0 up: `count` of an integer format (I32, I64) become uint32_t at `to` [count].
 * Returns `count`, or the index of the first that is below 0 or beyond uint32_t. */
size_t dtype_to_u32(enum dtype dtype, const void *from, uint32_t *to, size_t count);

#endif
