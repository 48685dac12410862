/* What traces are told of a request: its place in a trace, from its headers on, and its spans, when it is over. On the
 * polling thread of its connection. */
#ifndef ATTND_SERVER_REQUEST_TRACE_H
#define ATTND_SERVER_REQUEST_TRACE_H

#include "server/request.h"

/* The headers are here: continues the caller's trace, or begins one. */
void request_trace_begin(struct request *request);

/* It is over, at `ended` (clock_ns), before its memory is given back: tells of its spans where it is sampled. `sent`:
 * the client's side has taken the whole answer. */
void request_trace_end(const struct request *request, uint64_t ended, bool sent);

/* Whether it has a trace: probes and scrapes have none. */
bool request_is_traced(const struct request *request);

#endif
