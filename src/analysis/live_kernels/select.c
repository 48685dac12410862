/* The live kernels of the instruction set that is used. */
#include "analysis/live_kernels/live_kernels.h"

#define LIVE_KERNELS_ENTRY(identifier, name) &live_kernels_##identifier,
static const struct live_kernels *const variants[] = {ISA_VARIANTS(LIVE_KERNELS_ENTRY)};

const struct live_kernels *live_kernels_of(enum isa isa)
{
    return variants[isa];
}
