/* peak_VARIANT(): multiply-adds per second, times two, of the instruction set on one core. A tenth of a second at most.
 */
#ifndef ATTND_BENCH_PEAK_H
#define ATTND_BENCH_PEAK_H

#include "engine/kernels/kernels.h"

#define PEAK_DECLARE(identifier, name) double peak_##identifier(void);
KERNEL_VARIANTS(PEAK_DECLARE)
#undef PEAK_DECLARE

#endif
