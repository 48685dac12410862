/* The tracestate of a request, which other systems have written and attnd only passes on: any number of lines as one
 * list. W3C Trace Context, level 2, section 3.3. One thread at a time; allocates nothing. */
#ifndef ATTND_TELEMETRY_TRACE_STATE_H
#define ATTND_TELEMETRY_TRACE_STATE_H

#include <stdbool.h>
#include <stddef.h>

/* 512 is what everybody has to pass on. */
#define TRACE_STATE_BYTES 1024

#define TRACE_STATE_MEMBERS 32

/* Zero at first. */
struct trace_state {
    char text[TRACE_STATE_BYTES]; /* "key=value,key=value", [length] */
    size_t length;
    unsigned members;
    bool malformed; /* all of it is to be thrown away: `length` is 0 */
    bool cut;       /* the end, members as a whole, was longer than the text may be */
};

/* Adds a line, in the order of the lines. */
void trace_state_add(struct trace_state *state, const char *line, size_t length);

#endif
