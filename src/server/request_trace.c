#include "server/request_trace.h"

#include "base/clock.h"
#include "server/routes.h"
#include "telemetry/trace_state.h"
#include "telemetry/tracer.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void request_trace_begin(struct request *request)
{
    const struct header_lines *lines = &request->headers.lines[HEADER_TRACEPARENT];
    /* Several lines are as malformed as any other: which one is the caller's is not known. */
    trace_context_begin(&request->trace, lines->count == 1 ? lines->first : NULL, lines->last_length,
                        tracer_share(request->server->parts.tracer));
}

bool request_is_traced(const struct request *request)
{
    return request->trace.trace_id[0] && !(request->route && route_is_unobserved(request->route));
}

/* ---- spans */

static const char *known_method(const char *method)
{
    static const char *const known[] = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "CONNECT", "TRACE"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(method, known[i]) == 0)
            return known[i];
    return NULL;
}

static void take(struct trace_record *record, enum trace_text which, const char *text)
{
    trace_record_take(record, which, text, text ? strlen(text) : 0);
}

/* What the client asked for, and of whom. */
static void take_target(struct trace_record *record, const struct request *request)
{
    size_t length;
    const char *path = route_path(request->target, &length), *query = path[length] == '?' ? path + length + 1 : NULL;
    trace_record_take(record, TRACE_TEXT_PATH, path, length);
    trace_record_take(record, TRACE_TEXT_QUERY, query, query ? strcspn(query, "#") : 0);
}

/* "name", "name:port", "[address]:port" */
static void take_host(struct trace_record *record, const char *host)
{
    if (!host)
        return;
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    size_t length = strlen(host);
    if (colon && (!bracket || colon > bracket) && colon[1]) {
        char *end;
        const unsigned long port = strtoul(colon + 1, &end, 10);
        if (!*end && port > 0 && port < 65536) {
            record->host_port = (unsigned)port;
            length = (size_t)(colon - host);
        }
    }
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    trace_record_take(record, TRACE_TEXT_HOST, host, length);
}

static void take_peer(struct trace_record *record, int descriptor)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
    socklen_t length = sizeof peer;
    char text[INET6_ADDRSTRLEN];
    if (getpeername(descriptor, &peer.any, &length) != 0 ||
        (peer.any.sa_family != AF_INET && peer.any.sa_family != AF_INET6))
        return;
    const bool v4 = peer.any.sa_family == AF_INET;
    record->peer_port = ntohs(v4 ? peer.v4.sin_port : peer.v6.sin6_port);
    take(record, TRACE_TEXT_PEER,
         inet_ntop(peer.any.sa_family, v4 ? (void *)&peer.v4.sin_addr : (void *)&peer.v6.sin6_addr, text, sizeof text));
}

static enum MHD_Result add_state(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                 const char *value, size_t length)
{
    (void)kind;
    if (name_length == strlen("tracestate") && strncasecmp(name, "tracestate", name_length) == 0)
        trace_state_add(context, value ? value : "", value ? length : 0);
    return MHD_YES;
}

/* What other systems have written beside the traceparent goes on with it, and without it means nothing. */
static void take_state(struct trace_record *record, const struct request *request)
{
    struct trace_state state = {.length = 0};
    if (!request->trace.parent_id[0] || !request->headers.lines[HEADER_TRACESTATE].count)
        return;
    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, add_state, &state);
    trace_record_take(record, TRACE_TEXT_STATE, state.text, state.length);
}

/* `epoch`: what is to be added to clock_ns for nanoseconds since the epoch. */
static struct trace_interval stage(uint64_t began, double us, uint64_t epoch)
{
    return began ? (struct trace_interval){began + epoch, began + epoch + (uint64_t)(us * 1e3)}
                 : (struct trace_interval){0};
}

static void take_times(struct trace_record *record, const struct request *request, uint64_t ended)
{
    const struct timing *t = &request->timing;
    const uint64_t epoch = clock_wall_ns() - clock_ns();
    record->request = (struct trace_interval){request->arrived + epoch, ended + epoch};
    record->stages[TRACE_PARSE] = stage(t->parse_began, t->parse_us, epoch);
    record->stages[TRACE_QUEUE] = stage(t->queue_began, t->queue_us, epoch);
    record->stages[TRACE_COMPUTE] = stage(t->compute_began, t->compute_us, epoch);
    record->stages[TRACE_ENCODE] = stage(t->encode_began, request_encode_us(request), epoch);
}

void request_trace_end(const struct request *request, uint64_t ended, bool sent)
{
    struct tracer *tracer = request->server->parts.tracer;
    const struct answer *answer = &request->answer;
    if (!tracer || !(request->trace.flags & TRACE_SAMPLED) || !request_is_traced(request))
        return;
    const bool gone = !answer->status || answer->error == ERROR_CLIENT_GONE || !sent;
    const char *host = header_value(&request->headers, HEADER_HOST);
    struct trace_record record;
    memset(&record, 0, offsetof(struct trace_record, text));
    record.context = request->trace;
    record.method = known_method(request->method);
    if (!record.method)
        take(&record, TRACE_TEXT_METHOD, request->method);
    record.route = request->route ? route_pattern(request->route) : NULL;
    record.scheme = request->connection->tls ? "https" : "http";
    record.version = request->takes_chunks ? "1.1" : "1.0";
    record.error = gone                          ? error_slug(ERROR_CLIENT_GONE)
                   : answer->error != ERROR_NONE ? error_slug(answer->error)
                                                 : NULL;
    record.status = answer->error == ERROR_CLIENT_GONE ? 0 : answer->status;
    record.failed = gone || answer->status >= 500;
    record.bytes_in = request->bytes_in;
    record.bytes_out = answer->length;
    record.tokens = request->timing.tokens;
    record.batch = request->timing.batch;
    take_times(&record, request, ended);
    take_target(&record, request);
    take_host(&record, host);
    take_peer(&record, request->connection->descriptor);
    take(&record, TRACE_TEXT_USER_AGENT,
         MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_USER_AGENT));
    take(&record, TRACE_TEXT_REQUEST_ID, request->id);
    take(&record, TRACE_TEXT_WEIGHTS, request->weights);
    take_state(&record, request);
    tracer_record(tracer, &record);
}
