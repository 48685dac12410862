/* How fast the workers get through their work, as it was measured lately, in the callers' own estimates: flop a
 * nanosecond of one busy worker. What the estimates leave out (reading bodies, memory) is in it as well. The caller
 * locks. */
#ifndef ATTND_RUNTIME_DRAIN_H
#define ATTND_RUNTIME_DRAIN_H

#include <stdint.h>

/* Sums over the last seconds of busy time, what is older counting less and less. Zero at first. */
struct drain {
    double busy_ns, flop;              /* of all workers; of the jobs that they have ended */
    double unknown_jobs, unknown_flop; /* of those whose cost was not known when they were queued */
};

/* A worker ran jobs, or helped, for so long. */
void drain_note_busy(struct drain *drain, uint64_t ns);
/* Jobs have ended. */
void drain_note_done(struct drain *drain, double flop);
/* Among them one whose cost has turned out only in the end. */
void drain_note_unknown(struct drain *drain, double flop);

/* Flop a nanosecond of a worker; 0 before enough was measured. */
double drain_rate(const struct drain *drain);
/* What a job of unknown cost costs as a rule; 0 before there was one. */
double drain_unknown(const struct drain *drain);

#endif
