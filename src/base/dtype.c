#include "base/dtype.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors on the wire are little-endian and are copied as they are");

static const struct {
    const char *json, *safetensors;
    size_t bytes;
} FORMATS[DTYPE_COUNT] = {
#define DTYPE_ROW(code, json, safetensors, bytes) [code] = {json, safetensors, bytes},
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

static float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float dtype_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
    if (exponent == 0x1F)
        return f32_from_bits(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0) /* a multiple of 2^-24, which float32 holds exactly */
        return (sign ? -1.0f : 1.0f) * ((float)fraction * 0x1p-24f);
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
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
    for (size_t i = 0; i < count; i++)
        if (!isfinite(to[i]))
            return i;
    return count;
}
