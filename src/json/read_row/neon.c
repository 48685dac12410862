/* Rows of numbers for aarch64. */

#if !defined(__aarch64__)
#error "this file is for aarch64"
#endif

#include "json/read_row/last_of.h"

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READ_ROW read_row_neon

static inline size_t lowest_bit(uint64_t bits)
{
    return bits ? (size_t)__builtin_ctzll(bits) : 64;
}

/* A bit for each of 32 bytes, which are all ones or 0. */
static inline uint32_t bits_of(uint8x16_t first, uint8x16_t last)
{
    const uint8x16_t places = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t sums = vpaddq_u8(vandq_u8(first, places), vandq_u8(last, places));
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}

static inline uint8x16_t is_numeric(uint8x16_t text)
{
    return vcleq_u8(vsubq_u8(text, vdupq_n_u8('-')), vdupq_n_u8('9' - '-'));
}

/* Bits for 32 characters. */
static inline void map_32(const char *at, uint32_t *numeric, uint32_t *points)
{
    uint8x16_t first = vld1q_u8((const uint8_t *)at), last = vld1q_u8((const uint8_t *)at + 16),
               point = vdupq_n_u8('.');
    *numeric = bits_of(is_numeric(first), is_numeric(last));
    *points = bits_of(vceqq_u8(first, point), vceqq_u8(last, point));
}

static inline uint8x16_t is_space(uint8x16_t text)
{
    uint8x16_t space = vceqq_u8(text, vdupq_n_u8(' ')), line = vceqq_u8(text, vdupq_n_u8('\n')),
               carriage_return = vceqq_u8(text, vdupq_n_u8('\r')), tab = vceqq_u8(text, vdupq_n_u8('\t'));
    return vorrq_u8(vorrq_u8(space, line), vorrq_u8(carriage_return, tab));
}

/* How many characters are JSON's white space before the first of 32 that is not; 31 at most. */
static inline size_t leading_spaces(const char *at)
{
    uint8x16_t first = vld1q_u8((const uint8_t *)at), last = vld1q_u8((const uint8_t *)at + 16);
    return (size_t)__builtin_ctz(~bits_of(is_space(first), is_space(last)) | UINT32_C(1) << 31);
}

/* The last `count` of 16 digits that end at `end`, joined to pairs, fours, eights and all. *wrong: see below. */
static inline uint64_t value_of_16(const char *end, const uint8_t *from_behind, const uint8_t *counted,
                                   const uint8_t *mark, uint8x16_t *wrong)
{
    uint8x16_t before = vld1q_u8((const uint8_t *)end - 17), behind = vld1q_u8((const uint8_t *)end - 16);
    uint8x16_t text = vbslq_u8(vld1q_u8(from_behind), behind, before);
    *wrong = vbicq_u8(vld1q_u8(mark), text);
    uint16x8_t digits = vreinterpretq_u16_u8(vandq_u8(text, vld1q_u8(counted)));
    uint32x4_t pairs =
        vreinterpretq_u32_u16(vmlaq_n_u16(vshrq_n_u16(digits, 8), vandq_u16(digits, vdupq_n_u16(0xFF)), 10));
    uint64x2_t fours =
        vreinterpretq_u64_u32(vmlaq_n_u32(vshrq_n_u32(pairs, 16), vandq_u32(pairs, vdupq_n_u32(0xFFFF)), 100));
    uint64x2_t eights = vmlal_n_u32(vshrq_n_u64(fours, 32), vmovn_u64(fours), 10000);
    return vgetq_lane_u64(eights, 0) * UINT64_C(100000000) + vgetq_lane_u64(eights, 1);
}

/* 16 digits each, the first in high and the last in low, of which the last `count` of all count: those behind the point
 * end at `end`, and there are `behind_point` of them; those before it end a byte earlier. Where there is no point,
 * behind_point is -1. False when one is no digit, but '-', '.' or '/'. */
static inline bool value_of_32(const char *end, size_t count, size_t behind_point, uint64_t *high, uint64_t *low)
{
    const uint8_t *from_behind = ALL + behind_point % 64;
    uint8x16_t first_wrong, last_wrong;
    *high = value_of_16(end - 16, from_behind, VALUE + count, MARK + count, &first_wrong);
    *low = value_of_16(end, from_behind + 16, VALUE + count + 16, MARK + count + 16, &last_wrong);
    return vmaxvq_u8(vorrq_u8(first_wrong, last_wrong)) == 0;
}

#include "json/read_row/body.inc"
