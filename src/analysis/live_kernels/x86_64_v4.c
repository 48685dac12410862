/* What traffic adds to live sums, for x86-64 with AVX-512. */

#if !defined(__AVX512F__)
#error "compile this file with -mavx512f -mavx512dq"
#endif

#define LIVE_KERNELS live_kernels_x86_64_v4
#define VECTOR_BYTES 64

#include "analysis/live_kernels/body.inc"
