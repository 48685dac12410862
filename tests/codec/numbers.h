/* Numbers of every float format as bytes, and what they are as float32: by arithmetic on doubles. */
#ifndef ATTND_TESTS_CODEC_NUMBERS_H
#define ATTND_TESTS_CODEC_NUMBERS_H

#include "base/dtype.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype FLOATS[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64};
enum { FLOAT_FORMATS = sizeof FLOATS / sizeof *FLOATS };

/* The value of a half: sign, five bits of exponent, ten of fraction. */
static inline float value_of_f16(unsigned bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(bits & 0x8000 ? -magnitude : magnitude);
}

/* `count` random finite numbers; `expected` as float32. */
static inline void write_numbers(enum dtype dtype, size_t count, unsigned char *data, float *expected)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)rand() << 16 ^ (uint32_t)rand();
        double wide = ldexp((double)(int32_t)bits, -20);
        uint16_t half = (uint16_t)bits, cut;
        switch (dtype) {
        case DTYPE_F16:
            half = (half & 0x7C00) == 0x7C00 ? half & 0x83FF : half;
            memcpy(data + 2 * i, &half, 2);
            expected[i] = value_of_f16(half);
            break;
        case DTYPE_BF16:
            expected[i] = (float)wide;
            memcpy(&bits, expected + i, 4);
            cut = (uint16_t)(bits >> 16);
            bits = (uint32_t)cut << 16;
            memcpy(expected + i, &bits, 4);
            memcpy(data + 2 * i, &cut, 2);
            break;
        case DTYPE_F64:
            memcpy(data + 8 * i, &wide, 8);
            expected[i] = (float)wide;
            break;
        default:
            expected[i] = (float)wide;
            memcpy(data + 4 * i, expected + i, 4);
        }
    }
}

/* Replaces a number by infinity. */
static inline void make_infinite(enum dtype dtype, unsigned char *number)
{
    static const unsigned char f32[] = {0, 0, 0x80, 0x7F}, f16[] = {0, 0x7C}, bf16[] = {0x80, 0x7F},
                               f64[] = {0, 0, 0, 0, 0, 0, 0xF0, 0x7F};
    memcpy(number,
           dtype == DTYPE_F32    ? f32
           : dtype == DTYPE_F16  ? f16
           : dtype == DTYPE_BF16 ? bf16
                                 : f64,
           dtype_bytes(dtype));
}

#endif
