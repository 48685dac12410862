/* The kernels of the instruction set that is used (base/isa.h). */

#include "base/isa.h"
#include "engine/attention.h"
#include "engine/kernels/kernels.h"

#define KERNEL_ENTRY(identifier, name) &kernels_##identifier,
const struct kernels *const kernel_variants[KERNEL_VARIANT_COUNT] = {KERNEL_VARIANTS(KERNEL_ENTRY)};

bool engine_init(const char *forced, struct error *error)
{
    return isa_choose(forced, error);
}

const char *engine_isa(void)
{
    return isa_name(isa_chosen());
}

const struct kernels *kernels_chosen(void)
{
    return kernel_variants[isa_chosen()];
}
