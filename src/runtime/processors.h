/* How many processors this process may really use. */
#ifndef ATTND_RUNTIME_PROCESSORS_H
#define ATTND_RUNTIME_PROCESSORS_H

#include <stdbool.h>

struct processors {
    unsigned allowed; /* CPUs of the affinity mask */
    unsigned usable;  /* `allowed`, or the cgroup's CPU quota rounded up where that is less; at least 1 */
    bool quota;       /* a quota below `allowed` is in force: pinning would waste what other CPUs have left */
};

struct processors processors_count(void);

/* The same from its two numbers: `allowed` (at least 1) CPUs, and a quota in CPUs (more than 0). */
struct processors processors_with_quota(unsigned allowed, double quota);

/* Pins the calling thread to the n-th CPU of the process's affinity mask. False when the system refuses. */
bool processors_pin(unsigned n);
/* Lets it run on all of them again. */
bool processors_unpin(void);

#endif
