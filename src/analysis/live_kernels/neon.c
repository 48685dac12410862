/* What traffic adds to live sums, for aarch64. */

#if !defined(__aarch64__)
#error "this file is for aarch64"
#endif

#define LIVE_KERNELS live_kernels_neon
#define VECTOR_BYTES 16

#include "analysis/live_kernels/body.inc"
