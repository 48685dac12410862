/* Where a request stands in a trace: W3C Trace Context, level 2 (https://www.w3.org/TR/trace-context-2/). Any thread;
 * allocates nothing. */
#ifndef ATTND_TELEMETRY_TRACE_CONTEXT_H
#define ATTND_TELEMETRY_TRACE_CONTEXT_H

#include "telemetry/trace_ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its flags. Others are not passed on. */
#define TRACE_SAMPLED 0x01
#define TRACE_RANDOM  0x02 /* the last 14 digits of the trace's id are random */

/* Zero at first: no trace. */
struct trace_context {
    char trace_id[TRACE_ID_DIGITS + 1];
    char span_id[SPAN_ID_DIGITS + 1];   /* of the request here */
    char parent_id[SPAN_ID_DIGITS + 1]; /* of the caller's span; "": the trace begins here */
    uint8_t flags;
};

/* Reads a traceparent: trace_id, parent_id and flags; span_id is left as it is. False, and nothing is written, where it
 * is malformed: no two digits of hexadecimal, in lower case, where there should be, version ff, an id of zeros, or
 * anything behind what version 00 has. Of later versions the fields that they share with it are read. */
bool trace_context_read(struct trace_context *context, const char *text, size_t length);

/* A share of new traces, as a count of the 2^56 values that the last 14 digits of an id can have. */
uint64_t trace_share(double rate);

/* Continues the trace of the caller's traceparent (NULL: it sent none, or several), or begins one where there is none
 * or it is malformed. A new trace is sampled when the last 14 digits of its id say so, by `share`: all services that go
 * by them take the same ones. */
void trace_context_begin(struct trace_context *context, const char *traceparent, size_t length, uint64_t share);

/* "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" with this request's own span_id, and a NUL. */
#define TRACEPARENT_LENGTH 55
void trace_context_write(const struct trace_context *context, char text[TRACEPARENT_LENGTH + 1]);

#endif
