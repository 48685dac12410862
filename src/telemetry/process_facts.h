/* What the system says of this process. Any thread. */
#ifndef ATTND_TELEMETRY_PROCESS_FACTS_H
#define ATTND_TELEMETRY_PROCESS_FACTS_H

#include <stdint.h>

struct process_facts {
    double cpu_s;                               /* used, by all threads */
    uint64_t resident_bytes, virtual_bytes;     /* 0: not known */
    uint64_t open_descriptors, max_descriptors; /* 0: not known */
};

void process_facts_read(struct process_facts *facts);

/* When it started, in seconds since the epoch. To be asked once: a clock that is set moves it. 0: not known. */
double process_started_s(void);

#endif
