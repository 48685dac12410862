/* The bulk of base64 for x86-64 with AVX2. */

#if !defined(__AVX2__)
#error "compile this file with -mavx2"
#endif

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define BULK         base64_bulk_x86_64_v3
#define VECTOR_BYTES 32
/* Both lanes are loaded and stored whole. */
#define READ_BEHIND   4
#define STORED_BEHIND 4

typedef uint8_t bytes __attribute__((vector_size(VECTOR_BYTES)));

static inline bytes look_up(bytes table, bytes index)
{
    return (bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
}

static inline bytes join_bytes(bytes a, bytes factors)
{
    return (bytes)_mm256_maddubs_epi16((__m256i)a, (__m256i)factors);
}

static inline bytes join_words(bytes a, bytes factors)
{
    return (bytes)_mm256_madd_epi16((__m256i)a, (__m256i)factors);
}

static inline bytes high_product(bytes a, bytes b)
{
    return (bytes)_mm256_mulhi_epu16((__m256i)a, (__m256i)b);
}

static inline bytes low_product(bytes a, bytes b)
{
    return (bytes)_mm256_mullo_epi16((__m256i)a, (__m256i)b);
}

static inline bool all_zero(bytes a)
{
    return _mm256_testz_si256((__m256i)a, (__m256i)a);
}

static inline bytes load_lanes(const unsigned char *from)
{
    __m128i low = _mm_loadu_si128((const void *)from), high = _mm_loadu_si128((const void *)(from + 12));
    return (bytes)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline void store_lanes(unsigned char *to, bytes a)
{
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128((__m256i)a));
    _mm_storeu_si128((void *)(to + 12), _mm256_extracti128_si256((__m256i)a, 1));
}

#include "codec/base64_bulk/body.inc"
