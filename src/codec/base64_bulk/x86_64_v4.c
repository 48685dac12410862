/* The bulk of base64 for x86-64 with AVX-512 (F, BW). */

#if !defined(__AVX512F__) || !defined(__AVX512BW__)
#error "compile this file with -mavx512f -mavx512bw"
#endif

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define BULK          base64_bulk_x86_64_v4
#define VECTOR_BYTES  64
#define READ_BEHIND   0
#define STORED_BEHIND 0

typedef uint8_t bytes __attribute__((vector_size(VECTOR_BYTES)));

/* The 12 of 16 words of 32 bits that lanes are loaded from and stored to. */
#define PACKED_WORDS ((__mmask16)0x0FFF)

static inline bytes look_up(bytes table, bytes index)
{
    return (bytes)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
}

static inline bytes join_bytes(bytes a, bytes factors)
{
    return (bytes)_mm512_maddubs_epi16((__m512i)a, (__m512i)factors);
}

static inline bytes join_words(bytes a, bytes factors)
{
    return (bytes)_mm512_madd_epi16((__m512i)a, (__m512i)factors);
}

static inline bytes high_product(bytes a, bytes b)
{
    return (bytes)_mm512_mulhi_epu16((__m512i)a, (__m512i)b);
}

static inline bytes low_product(bytes a, bytes b)
{
    return (bytes)_mm512_mullo_epi16((__m512i)a, (__m512i)b);
}

static inline bool all_zero(bytes a)
{
    return _mm512_test_epi8_mask((__m512i)a, (__m512i)a) == 0;
}

static inline bytes load_lanes(const unsigned char *from)
{
    const __m512i spread = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
    return (bytes)_mm512_permutexvar_epi32(spread, _mm512_maskz_loadu_epi32(PACKED_WORDS, from));
}

static inline void store_lanes(unsigned char *to, bytes a)
{
    const __m512i pack = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15);
    _mm512_mask_storeu_epi32(to, PACKED_WORDS, _mm512_permutexvar_epi32(pack, (__m512i)a));
}

#include "codec/base64_bulk/body.inc"
