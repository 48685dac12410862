/* Which kernels are used: chosen once, at start, before there are threads. Owns the engine's one global. */

#include "engine/attention.h"
#include "engine/kernels/kernels.h"

#include <string.h>

#define KERNEL_ENTRY(identifier, name) &kernels_##identifier,
const struct kernels *const kernel_variants[KERNEL_VARIANT_COUNT] = {KERNEL_VARIANTS(KERNEL_ENTRY)};

static const struct kernels *chosen = &kernels_generic;

static bool refuse(const char *forced, const char *fault, struct error *error)
{
    char known[256] = "";
    for (size_t i = 0; i < KERNEL_VARIANT_COUNT; i++) {
        if (i > 0)
            strncat(known, ", ", sizeof known - strlen(known) - 1);
        strncat(known, kernel_variants[i]->name, sizeof known - strlen(known) - 1);
        if (!kernel_variants[i]->supported())
            strncat(known, " (not here)", sizeof known - strlen(known) - 1);
    }
    return error_set(error, ERROR_CONFIGURATION,
                     "ATTND_ISA is \"%s\", which %s; known are: %s. Unset it to let the best one be chosen.", forced,
                     fault, known);
}

bool engine_init(const char *forced, struct error *error)
{
    for (size_t i = 0; i < KERNEL_VARIANT_COUNT; i++) {
        const struct kernels *variant = kernel_variants[i];
        if (forced && strcmp(forced, variant->name) != 0)
            continue;
        if (variant->supported()) {
            chosen = variant;
            return true;
        }
        if (forced)
            return refuse(forced, "this processor or its operating system does not support", error);
    }
    return refuse(forced, "is not an instruction set of this build", error);
}

const char *engine_isa(void)
{
    return chosen->name;
}

const struct kernels *kernels_chosen(void)
{
    return chosen;
}
