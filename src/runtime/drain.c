#include "runtime/drain.h"

/* After this much busy time all sums are halved: it remembers some seconds, and forgets what traffic was like before.
 */
#define WINDOW_NS 2e9

/* Less says nothing yet. */
#define ENOUGH_NS 2e7

/* A shorter job's speed is chance; the fastest is forgotten with the time that others take, to a third after this much:
 * by number, some hundred requests that only read would make it theirs within a second. */
#define LONG_NS   1e6
#define FORGET_NS 2e10

void drain_note(struct drain *drain, bool heavy, uint64_t busy_ns, double flop)
{
    const double ns = (double)busy_ns;
    drain->kinds[heavy].busy_ns += ns;
    drain->kinds[heavy].flop += flop;
    if (heavy && ns >= LONG_NS) {
        const double before = ns < FORGET_NS ? drain->fastest * (1 - ns / FORGET_NS) : 0;
        drain->fastest = flop / ns > before ? flop / ns : before;
    }
    if (drain->kinds[heavy].busy_ns > WINDOW_NS) {
        drain->kinds[heavy].busy_ns /= 2;
        drain->kinds[heavy].flop /= 2;
        drain->unknown_jobs /= 2;
        drain->unknown_flop /= 2;
    }
}

void drain_note_unknown(struct drain *drain, double flop)
{
    drain->unknown_jobs += 1;
    drain->unknown_flop += flop;
}

double drain_rate(const struct drain *drain, bool heavy)
{
    return drain->kinds[heavy].busy_ns >= ENOUGH_NS ? drain->kinds[heavy].flop / drain->kinds[heavy].busy_ns : 0;
}

double drain_fastest(const struct drain *drain)
{
    return drain_rate(drain, true) > 0 ? drain->fastest : 0;
}

double drain_unknown(const struct drain *drain)
{
    return drain->unknown_jobs > 0 ? drain->unknown_flop / drain->unknown_jobs : 0;
}
