/* Rows are measured in vectors of 32 bytes: AVX2 and FMA. */

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file with -mavx2 -mfma"
#endif

#define VARIANT      row_kernels_x86_64_v3
#define VECTOR_BYTES 32

#include "analysis/row_measures/body.inc"
