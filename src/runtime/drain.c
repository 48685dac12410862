#include "runtime/drain.h"

/* After this much busy time all sums are halved: it remembers some seconds, and forgets what traffic was like before.
 */
#define WINDOW_NS 2e9

/* Less says nothing yet. */
#define ENOUGH_NS 2e7

void drain_note_busy(struct drain *drain, uint64_t ns)
{
    drain->busy_ns += (double)ns;
}

void drain_note_done(struct drain *drain, double flop)
{
    drain->flop += flop;
    if (drain->busy_ns > WINDOW_NS) {
        drain->busy_ns /= 2;
        drain->flop /= 2;
        drain->unknown_jobs /= 2;
        drain->unknown_flop /= 2;
    }
}

void drain_note_unknown(struct drain *drain, double flop)
{
    drain->unknown_jobs += 1;
    drain->unknown_flop += flop;
}

double drain_rate(const struct drain *drain)
{
    return drain->busy_ns >= ENOUGH_NS ? drain->flop / drain->busy_ns : 0;
}

double drain_unknown(const struct drain *drain)
{
    return drain->unknown_jobs > 0 ? drain->unknown_flop / drain->unknown_jobs : 0;
}
