/* Tracing of the process: which new traces are sampled, and where the spans of sampled requests go. */
#ifndef ATTND_TELEMETRY_TRACER_H
#define ATTND_TELEMETRY_TRACER_H

#include "telemetry/otlp_settings.h"
#include "telemetry/trace_counters.h"
#include "telemetry/trace_record.h"

struct tracer;

/* Takes *settings over, whose url is set, and starts the exporter. NULL on failure. */
struct tracer *tracer_start(struct otlp_settings *settings, double sample_rate, struct error *error);

/* Sends what is left, for two seconds at most, and frees. tracer_stop(NULL) is fine. */
void tracer_stop(struct tracer *tracer);

/* Any thread, at any time. */
void tracer_set_sample_rate(struct tracer *tracer, double sample_rate);

/* For trace_context_begin. A tracer of NULL samples none. Any thread. */
uint64_t tracer_share(const struct tracer *tracer);

/* Any thread, never blocking; what finds no room is counted. */
void tracer_record(struct tracer *tracer, const struct trace_record *record);

const struct trace_counters *tracer_counters(const struct tracer *tracer);

#endif
