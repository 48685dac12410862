/* Rows are measured in vectors of 16 bytes, with multiply-add; all of it is part of the baseline. */

#if !defined(__aarch64__) || !defined(__ARM_NEON)
#error "this file is for aarch64 with Advanced SIMD"
#endif

#define VARIANT      row_kernels_neon
#define VECTOR_BYTES 16

#include "analysis/row_measures/body.inc"
