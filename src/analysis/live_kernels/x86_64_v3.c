/* What traffic adds to live sums, for x86-64 with AVX2. */

#if !defined(__AVX2__)
#error "compile this file with -mavx2 -mfma"
#endif

#define LIVE_KERNELS live_kernels_x86_64_v3
#define VECTOR_BYTES 32

#include "analysis/live_kernels/body.inc"
