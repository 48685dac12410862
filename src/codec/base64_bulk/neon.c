/* The bulk of base64 for aarch64. */

#if !defined(__aarch64__)
#error "this file is for aarch64"
#endif

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

#define BULK         base64_bulk_neon
#define VECTOR_BYTES 16
/* Lanes are loaded and stored whole. */
#define READ_BEHIND   4
#define STORED_BEHIND 4

typedef uint8x16_t bytes;

static inline bytes look_up(bytes table, bytes index)
{
    return vqtbl1q_u8(table, index);
}

static inline bytes join_bytes(bytes a, bytes factors)
{
    uint16x8_t low = vmull_u8(vget_low_u8(a), vget_low_u8(factors)), high = vmull_high_u8(a, factors);
    return vreinterpretq_u8_u16(vpaddq_u16(low, high));
}

/* The products of all pairs of 16 bits, those of the first four and of the last four. */
static inline uint32x4x2_t products(bytes a, bytes b)
{
    uint16x8_t x = vreinterpretq_u16_u8(a), y = vreinterpretq_u16_u8(b);
    return (uint32x4x2_t){{vmull_u16(vget_low_u16(x), vget_low_u16(y)), vmull_high_u16(x, y)}};
}

static inline bytes join_words(bytes a, bytes factors)
{
    uint32x4x2_t product = products(a, factors);
    return vreinterpretq_u8_u32(vpaddq_u32(product.val[0], product.val[1]));
}

static inline bytes high_product(bytes a, bytes b)
{
    uint32x4x2_t product = products(a, b);
    return vreinterpretq_u8_u16(
        vuzp2q_u16(vreinterpretq_u16_u32(product.val[0]), vreinterpretq_u16_u32(product.val[1])));
}

static inline bytes low_product(bytes a, bytes b)
{
    return vreinterpretq_u8_u16(vmulq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}

static inline bool all_zero(bytes a)
{
    return vmaxvq_u8(a) == 0;
}

static inline bytes load_lanes(const unsigned char *from)
{
    return vld1q_u8(from);
}

static inline void store_lanes(unsigned char *to, bytes a)
{
    vst1q_u8(to, a);
}

#include "codec/base64_bulk/body.inc"
