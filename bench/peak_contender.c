#include "peak_contender.h"

#include "base/isa.h"
#include "engine/kernels/kernels.h"
#include "peak.h"

#include <string.h>

static void run_peak(void *context)
{
    enum { ROUNDS = 100000 };
#define PEAK_CALL(identifier, known) \
    if (strcmp(context, known) == 0) \
        peak_##identifier(ROUNDS);
    KERNEL_VARIANTS(PEAK_CALL)
}

struct contender peak_contender(const char *isa)
{
    struct contender c = {.run = run_peak, .context = (void *)(uintptr_t)isa};
#define PEAK_FLOP(identifier, known) \
    if (strcmp(isa, known) == 0)     \
        c.flop = 1e5 * peak_##identifier(1);
    KERNEL_VARIANTS(PEAK_FLOP)
    return c;
}
