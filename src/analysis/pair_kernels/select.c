/* The sums in vectors of the instruction set that is used. */
#include "analysis/pair_kernels/pair_kernels.h"

#define PAIR_KERNELS_ENTRY(identifier, name) &pair_kernels_##identifier,
static const struct pair_kernels *const variants[] = {ISA_VARIANTS(PAIR_KERNELS_ENTRY)};

const struct pair_kernels *pair_kernels_of(enum isa isa)
{
    return variants[isa];
}
