/* Which instruction set is used. Owns the one global that says so: written at start, before there are threads, and only
 * read from then on. */
#include "base/isa.h"

#include <string.h>

#define ISA_NAME(identifier, name) name,
static const char *const names[ISA_COUNT] = {ISA_VARIANTS(ISA_NAME)};
#undef ISA_NAME

static enum isa chosen = ISA_generic;

const char *isa_name(enum isa isa)
{
    return names[isa];
}

bool isa_supported(enum isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case ISA_x86_64_v4:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
    case ISA_x86_64_v3:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
#endif
    default: /* the baseline of the processor family */
        return true;
    }
}

static bool refuse(const char *forced, const char *fault, struct error *error)
{
    char known[256] = "";
    for (size_t i = 0; i < ISA_COUNT; i++) {
        if (i > 0)
            strncat(known, ", ", sizeof known - strlen(known) - 1);
        strncat(known, names[i], sizeof known - strlen(known) - 1);
        if (!isa_supported((enum isa)i))
            strncat(known, " (not here)", sizeof known - strlen(known) - 1);
    }
    return error_set(error, ERROR_CONFIGURATION,
                     "ATTND_ISA is \"%s\", which %s; known are: %s. Unset it to let the best one be chosen.", forced,
                     fault, known);
}

bool isa_choose(const char *forced, struct error *error)
{
    for (size_t i = 0; i < ISA_COUNT; i++) {
        if (forced && strcmp(forced, names[i]) != 0)
            continue;
        if (isa_supported((enum isa)i)) {
            chosen = (enum isa)i;
            return true;
        }
        if (forced)
            return refuse(forced, "this processor or its operating system does not support", error);
    }
    return refuse(forced, "is not an instruction set of this build", error);
}

enum isa isa_chosen(void)
{
    return chosen;
}
