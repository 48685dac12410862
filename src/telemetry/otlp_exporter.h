/* Sends what a trace_buffer holds to a collector, by OTLP/HTTP with JSON through libcurl, on a thread of its own.
 *
 * What the collector cannot take now (no connection, 429, 502, 503, 504) is tried again, after Retry-After or times
 * that double; what it refuses, or what was tried too often, is dropped and counted. The server never waits for any of
 * it. */
#ifndef ATTND_TELEMETRY_OTLP_EXPORTER_H
#define ATTND_TELEMETRY_OTLP_EXPORTER_H

#include "telemetry/otlp_settings.h"
#include "telemetry/trace_buffer.h"
#include "telemetry/trace_counters.h"

struct otlp_exporter;

/* All three must outlive it. NULL on failure. */
struct otlp_exporter *otlp_exporter_start(const struct otlp_settings *settings, struct trace_buffer *buffer,
                                          struct trace_counters *counters, struct error *error);

/* Sends what is left, for at most `patience_ns`, drops the rest, and ends the thread. NULL is fine. */
void otlp_exporter_stop(struct otlp_exporter *exporter, uint64_t patience_ns);

#endif
