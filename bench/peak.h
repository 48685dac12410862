/* peak_VARIANT(rounds): multiply-adds of the instruction set, with nothing but registers. Returns the flop done. */
#ifndef ATTND_BENCH_PEAK_H
#define ATTND_BENCH_PEAK_H

#include "engine/kernels/kernels.h"

#define PEAK_DECLARE(identifier, name) double peak_##identifier(size_t rounds);
KERNEL_VARIANTS(PEAK_DECLARE)
#undef PEAK_DECLARE

#endif
