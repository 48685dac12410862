/* Rows of numbers for x86-64 with AVX2: four at a time. */

#if !defined(__AVX2__)
#error "compile this file with -mavx2"
#endif

#include <immintrin.h>
#include <stdint.h>

#define VARIANT      x86_64_v3
#define VECTOR_BYTES 32

typedef uint64_t wide __attribute__((vector_size(32)));

typedef uint64_t lanes __attribute__((vector_size(32)));

#define V(a) ((__m256i)(a))

#define lane_bits(truths)       ((unsigned)_mm256_movemask_pd((__m256d)(truths)))
#define below(a, b)             ((lanes)((wide)(a) < (wide)(b)))
#define no_bits(a, mask)        ((lanes)(((wide)(a) & (mask)) == 0))
#define choose(truths, yes, no) ((wide)_mm256_blendv_epi8(V(no), V(yes), V(truths)))
#define multiply_low(a, b)      ((wide)_mm256_mul_epu32(V(a), V(b)))
#define multiply16(a, b)        ((wide)_mm256_mullo_epi16(V(a), V(b)))
#define multiply_high16(a, b)   ((wide)_mm256_mulhi_epu16(V(a), V(b)))
#define subtract16(a, b)        ((wide)_mm256_subs_epu16(V(a), V(b)))
#define smaller16(a, b)         ((wide)_mm256_min_epi16(V(a), V(b)))
#define magnitude(a)            ((wide)_mm256_abs_epi32(V(a)))
#define widen(from)             ((wide)_mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(from))))
#define to_doubles(from)        ((doubles)_mm256_cvtps_pd(_mm_loadu_ps(from)))
#define truncated(a)            ((doubles)_mm256_round_pd((__m256d)(a), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
#define interleave_low(a, b)    ((wide)_mm256_unpacklo_epi64(V(a), V(b)))
#define interleave_high(a, b)   ((wide)_mm256_unpackhi_epi64(V(a), V(b)))
#define all_widths(numbers)                                                              \
    ((wide)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)two_widths(numbers)), \
                                   (__m128i)two_widths((numbers) + 2), 1))
#define put(to, from, order)                                                                           \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm_shuffle_epi8(*(const __m128i *)(const void *)(from), \
                                                               *(const __m128i *)(const void *)(order)))

/* The highest bit of every byte that is not 0 is set, then of all below one that is; the rest counts them. */
static inline __attribute__((always_inline)) wide significant_bytes(wide a)
{
    wide set = (a + 0x7F7F7F7F7F7F7F7F) & 0x8080808080808080;
    set |= set >> 8;
    set |= set >> 16;
    set |= set >> 32;
    return (wide)_mm256_sad_epu8(V(set >> 7), _mm256_setzero_si256());
}

#include "json/number_block.inc"
