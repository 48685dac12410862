/* What traffic adds to live sums, for the processor family's baseline. */

#define LIVE_KERNELS live_kernels_generic
#define VECTOR_BYTES 16

#include "analysis/live_kernels/body.inc"
