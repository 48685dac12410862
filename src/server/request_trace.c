#include "server/request_trace.h"

#include "server/routes.h"

void request_trace_begin(struct request *request)
{
    const struct header_lines *lines = &request->headers.lines[HEADER_TRACEPARENT];
    /* Several lines are as malformed as any other: which one is the caller's is not known. */
    trace_context_begin(&request->trace, lines->count == 1 ? lines->first : NULL, lines->last_length, 0);
}

bool request_is_traced(const struct request *request)
{
    return request->trace.trace_id[0] && !(request->route && route_is_unobserved(request->route));
}
