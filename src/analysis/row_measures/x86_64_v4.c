/* Rows are measured in vectors of 64 bytes: AVX-512. */

#if !defined(__AVX512F__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "compile this file with -mavx512f -mavx512dq -mavx512vl"
#endif

#define VARIANT      row_kernels_x86_64_v4
#define VECTOR_BYTES 64

#include "analysis/row_measures/body.inc"
