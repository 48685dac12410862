/* The body of the instruction set that is used. */
#include "analysis/row_measures/row_measures.h"

#define ROW_KERNELS_ENTRY(identifier, name) &row_kernels_##identifier,
static const struct row_kernels *const VARIANTS[ISA_COUNT] = {ISA_VARIANTS(ROW_KERNELS_ENTRY)};

const struct row_kernels *row_kernels_of(enum isa isa)
{
    return VARIANTS[isa];
}
