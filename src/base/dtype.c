#include "base/dtype.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors on the wire are little-endian and are copied as they are");

static const struct {
    const char *json, *safetensors, *oip;
    size_t bytes;
} FORMATS[DTYPE_COUNT] = {
#define DTYPE_ROW(code, json, safetensors, oip, bytes) [code] = {json, safetensors, oip, bytes},
    DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

size_t dtype_bytes(enum dtype dtype)
{
    return FORMATS[dtype].bytes;
}

const char *dtype_json_name(enum dtype dtype)
{
    return FORMATS[dtype].json;
}

const char *dtype_safetensors_name(enum dtype dtype)
{
    return FORMATS[dtype].safetensors;
}

const char *dtype_oip_name(enum dtype dtype)
{
    return FORMATS[dtype].oip;
}

enum dtype dtype_from_json_name(const char *name, size_t length)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(FORMATS[d].json) == length && memcmp(FORMATS[d].json, name, length) == 0)
            return (enum dtype)d;
    return DTYPE_COUNT;
}

enum dtype dtype_from_safetensors_name(const char *name, size_t length)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(FORMATS[d].safetensors) == length && memcmp(FORMATS[d].safetensors, name, length) == 0)
            return (enum dtype)d;
    return DTYPE_COUNT;
}

enum dtype dtype_from_oip_name(const char *name, size_t length)
{
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(FORMATS[d].oip) == length && memcmp(FORMATS[d].oip, name, length) == 0)
            return (enum dtype)d;
    return DTYPE_COUNT;
}

static float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float dtype_f16_to_f32(uint16_t bits)
{
    /* With its exponent as float's, the number is 2^112 times too small, or, where it is infinite or NaN, 2^16 and more
     * when that is mended. Without branches, so that a loop over it becomes one over vectors. */
    float magnitude = f32_from_bits((uint32_t)(bits & 0x7FFF) << 13) * 0x1p112f;
    uint32_t is_special = magnitude >= 0x1p16f ? 0x7F800000 : 0, magnitude_bits;
    memcpy(&magnitude_bits, &magnitude, sizeof magnitude_bits);
    return f32_from_bits((uint32_t)(bits & 0x8000) << 16 | magnitude_bits | is_special);
}

size_t dtype_first_not_finite(const float *values, size_t count)
{
    const uint32_t exponent = 0x7F800000, lowest = 0x00800000;
    uint32_t any = 0, bits;
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, values + i, sizeof bits);
        any |= (bits & exponent) + lowest; /* carries into the sign's place from a full exponent alone */
    }
    if (!(any >> 31))
        return count;
    size_t first = 0;
    while (isfinite(values[first]))
        first++;
    return first;
}

size_t dtype_to_f32(enum dtype dtype, const void *from, float *to, size_t count)
{
    const unsigned char *in = from;
    switch (dtype) {
    case DTYPE_F32:
        if (from != to)
            memcpy(to, from, count * sizeof *to);
        break;
    case DTYPE_F16:
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, in + 2 * i, sizeof bits);
            to[i] = dtype_f16_to_f32(bits);
        }
        break;
    case DTYPE_BF16:
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, in + 2 * i, sizeof bits);
            to[i] = f32_from_bits((uint32_t)bits << 16);
        }
        break;
    case DTYPE_F64:
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, in + 8 * i, sizeof value);
            to[i] = (float)value;
        }
        break;
    default:
        return 0;
    }
    return dtype_first_not_finite(to, count);
}

size_t dtype_first_not_mask(const uint8_t *values, size_t count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= values[i];
    if (any <= 1)
        return count;
    size_t first = 0;
    while (values[first] <= 1)
        first++;
    return first;
}

/* What no mask holds, for values that are neither 0 nor 1. */
#define NO_MASK_VALUE 2

/* 0, 1 or NO_MASK_VALUE for each of `count` numbers, at most BLOCK. */
#define BLOCK 1024
static void mask_values(enum dtype dtype, const unsigned char *in, uint8_t *to, size_t count)
{
    float floats[BLOCK];
    if (dtype_is_float(dtype))
        dtype_to_f32(dtype, in, floats, count); /* what is not finite is no mask value either */
    for (size_t i = 0; i < count; i++) {
        int64_t wide;
        int32_t narrow;
        switch (dtype) {
        case DTYPE_I32:
            memcpy(&narrow, in + sizeof narrow * i, sizeof narrow);
            to[i] = narrow == 0 || narrow == 1 ? (uint8_t)narrow : NO_MASK_VALUE;
            break;
        case DTYPE_I64:
            memcpy(&wide, in + sizeof wide * i, sizeof wide);
            to[i] = wide == 0 || wide == 1 ? (uint8_t)wide : NO_MASK_VALUE;
            break;
        default:
            to[i] = floats[i] == 0.0f || floats[i] == 1.0f ? floats[i] != 0.0f : NO_MASK_VALUE;
        }
    }
}

size_t dtype_to_mask(enum dtype dtype, const void *from, uint8_t *to, size_t count)
{
    const unsigned char *in = from;
    if (dtype == DTYPE_BOOL || dtype == DTYPE_U8) {
        memcpy(to, in, count);
        return dtype_first_not_mask(to, count);
    }
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t block = count - done < BLOCK ? count - done : BLOCK;
        mask_values(dtype, in + done * dtype_bytes(dtype), to + done, block);
        size_t right = dtype_first_not_mask(to + done, block);
        if (right < block)
            return done + right;
    }
    return count;
}

size_t dtype_to_u32(enum dtype dtype, const void *from, uint32_t *to, size_t count)
{
    const unsigned char *in = from;
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        int32_t narrow;
        if (dtype == DTYPE_I64) {
            memcpy(&value, in + sizeof value * i, sizeof value);
        } else {
            memcpy(&narrow, in + sizeof narrow * i, sizeof narrow);
            value = narrow;
        }
        if (value < 0 || value > UINT32_MAX)
            return i;
        to[i] = (uint32_t)value;
    }
    return count;
}
