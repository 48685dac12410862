/* How fast the workers get through their work, as it was measured lately, in the callers' own estimates: flop a
 * nanosecond of one busy worker. What the estimates leave out (reading bodies, memory) is in it as well, and differs
 * between jobs: light and heavy ones are measured apart, and whether one job can be done in time at all is asked of the
 * fastest there was. The caller locks. */
#ifndef ATTND_RUNTIME_DRAIN_H
#define ATTND_RUNTIME_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Sums over the last seconds of busy time, what is older counting less and less. Zero at first. */
struct drain {
    struct {
        double busy_ns, flop;          /* of all workers; of the jobs that they have ended */
    } kinds[2];                        /* light, heavy */
    double fastest;                    /* flop a nanosecond of one worker, of a heavy job */
    double unknown_jobs, unknown_flop; /* of those whose cost was not known when they were queued */
};

/* A job, with its companions, has ended, on which workers were for so long in all. */
void drain_note(struct drain *drain, bool heavy, uint64_t busy_ns, double flop);
/* It was one whose cost has turned out only in the end. */
void drain_note_unknown(struct drain *drain, double flop);

/* Flop a nanosecond of a worker; 0 before enough was measured. */
double drain_rate(const struct drain *drain, bool heavy);
/* The same of the fastest heavy job lately. */
double drain_fastest(const struct drain *drain);
/* What a job of unknown cost costs as a rule; 0 before there was one. */
double drain_unknown(const struct drain *drain);

#endif
