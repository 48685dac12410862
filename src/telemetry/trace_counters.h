/* What became of spans, counted since the start. Each is read by itself, by any thread, with relaxed loads. */
#ifndef ATTND_TELEMETRY_TRACE_COUNTERS_H
#define ATTND_TELEMETRY_TRACE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct trace_counters {
    _Atomic uint64_t sent;     /* spans that the collector has taken */
    _Atomic uint64_t full;     /* spans dropped because the buffer was full */
    _Atomic uint64_t failed;   /* spans dropped because the collector could not be reached, or refused their request */
    _Atomic uint64_t rejected; /* spans that the collector said, in its answer, it has not taken */
    _Atomic uint64_t requests, failed_requests; /* to the collector; those that failed among them */
};

#endif
