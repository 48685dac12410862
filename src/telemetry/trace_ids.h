/* Random ids of traces and spans. Any thread: each has a generator of its own, seeded by the kernel, so that an id
 * costs no system call. They are unique and uniform, and no secret. */
#ifndef ATTND_TELEMETRY_TRACE_IDS_H
#define ATTND_TELEMETRY_TRACE_IDS_H

#include <stdint.h>

#define TRACE_ID_DIGITS 32
#define SPAN_ID_DIGITS  16

/* 64 random bits. */
uint64_t trace_ids_random(void);

/* Lower-case hexadecimal digits and a NUL; never all zero. The last 14 digits of a trace's id are random, which is what
 * the random flag of W3C Trace Context, level 2, promises. */
void trace_ids_make_trace(char id[TRACE_ID_DIGITS + 1]);
void trace_ids_make_span(char id[SPAN_ID_DIGITS + 1]);

#endif
