/* Rows of numbers for x86-64 with AVX2 and BMI. */

#if !defined(__AVX2__) || !defined(__BMI__) || !defined(__BMI2__)
#error "compile this file with -mavx2 -mbmi -mbmi2"
#endif

#include "json/read_row/last_of.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READ_ROW read_row_x86_64_v3

static inline __m256i load_32(const void *at)
{
    return _mm256_loadu_si256(at);
}

static inline size_t lowest_bit(uint64_t bits)
{
    return _tzcnt_u64(bits);
}

/* Bits for 32 characters. */
static inline void map_32(const char *at, uint32_t *numeric, uint32_t *points)
{
    __m256i text = load_32(at), from_minus = _mm256_sub_epi8(text, _mm256_set1_epi8('-'));
    __m256i last = _mm256_min_epu8(from_minus, _mm256_set1_epi8('9' - '-'));
    *numeric = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(last, from_minus));
    *points = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(text, _mm256_set1_epi8('.')));
}

/* How many characters are JSON's white space before the first of 32 that is not; 31 at most. */
static inline size_t leading_spaces(const char *at)
{
    __m256i text = load_32(at);
    __m256i space = _mm256_cmpeq_epi8(text, _mm256_set1_epi8(' ')),
            line = _mm256_cmpeq_epi8(text, _mm256_set1_epi8('\n')),
            carriage_return = _mm256_cmpeq_epi8(text, _mm256_set1_epi8('\r')),
            tab = _mm256_cmpeq_epi8(text, _mm256_set1_epi8('\t'));
    uint32_t any = (uint32_t)_mm256_movemask_epi8(
        _mm256_or_si256(_mm256_or_si256(space, line), _mm256_or_si256(carriage_return, tab)));
    return (size_t)__builtin_ctz(~any | UINT32_C(1) << 31);
}

/* 16 digits each, the first in high and the last in low, of which the last `count` of all count: those behind the point
 * end at `end`, and there are `behind_point` of them; those before it end a byte earlier. Where there is no point,
 * behind_point is -1. False when one is no digit, but '-', '.' or '/'. */
static inline bool value_of_32(const char *end, size_t count, size_t behind_point, uint64_t *high, uint64_t *low)
{
    __m256i before = load_32(end - 33), differs = _mm256_xor_si256(before, load_32(end - 32));
    __m256i text = _mm256_xor_si256(before, _mm256_and_si256(differs, load_32(ALL + behind_point % 64)));
    __m256i digits = _mm256_and_si256(text, load_32(VALUE + count));
    /* Joined to pairs, fours and eights. */
    __m256i pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(1 << 8 | 10));
    __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 << 16 | 100));
    __m256i packed = _mm256_packus_epi32(fours, fours);
    __m256i eights = _mm256_madd_epi16(packed, _mm256_set1_epi32(1 << 16 | 10000));
    uint64_t first = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(eights)),
             last = (uint64_t)_mm_cvtsi128_si64(_mm256_extracti128_si256(eights, 1));
    *high = first << 32 | first >> 32; /* more than the first of 8 digits hold is too much in any case */
    *low = (uint32_t)last * UINT64_C(100000000) + (last >> 32);
    return _mm256_testc_si256(text, load_32(MARK + count));
}

#include "json/read_row/body.inc"
