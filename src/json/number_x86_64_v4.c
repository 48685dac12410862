/* Rows of numbers for x86-64 with AVX-512 (F, BW, CD, DQ, VL): eight at a time. */

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512CD__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
#error "compile this file with -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl"
#endif

#include <immintrin.h>
#include <stdint.h>

#define VARIANT      x86_64_v4
#define VECTOR_BYTES 64

typedef uint64_t wide __attribute__((vector_size(64)));

typedef __mmask8 lanes;

#define V(a) ((__m512i)(a))

#define lane_bits(truths)       ((unsigned)(truths))
#define below(a, b)             _mm512_cmplt_epu64_mask(V(a), V(b))
#define no_bits(a, mask)        _mm512_testn_epi64_mask(V(a), V(mask))
#define choose(truths, yes, no) ((wide)_mm512_mask_mov_epi64(V(no), (truths), V(yes)))
#define multiply_low(a, b)      ((wide)_mm512_mul_epu32(V(a), V(b)))
#define multiply16(a, b)        ((wide)_mm512_mullo_epi16(V(a), V(b)))
#define multiply_high16(a, b)   ((wide)_mm512_mulhi_epu16(V(a), V(b)))
#define subtract16(a, b)        ((wide)_mm512_subs_epu16(V(a), V(b)))
#define smaller16(a, b)         ((wide)_mm512_min_epi16(V(a), V(b)))
#define magnitude(a)            ((wide)_mm512_abs_epi64(V(a)))
#define significant_bytes(a)    ((71 - (wide)_mm512_lzcnt_epi64(V(a))) >> 3)
#define widen(from)             ((wide)_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)(from))))
#define to_doubles(from)        ((doubles)_mm512_cvtps_pd(_mm256_loadu_ps(from)))
#define truncated(a)            ((doubles)_mm512_roundscale_pd((__m512d)(a), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
#define interleave_low(a, b)    ((wide)_mm512_unpacklo_epi64(V(a), V(b)))
#define interleave_high(a, b)   ((wide)_mm512_unpackhi_epi64(V(a), V(b)))
#define four_widths(numbers) \
    _mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)two_widths(numbers)), (__m128i)two_widths((numbers) + 2), 1)
#define all_widths(numbers) \
    ((wide)_mm512_inserti64x4(_mm512_castsi256_si512(four_widths(numbers)), four_widths((numbers) + 4), 1))
#define put(to, from, order)                                                                           \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm_shuffle_epi8(*(const __m128i *)(const void *)(from), \
                                                               *(const __m128i *)(const void *)(order)))

#include "json/number_block.inc"
