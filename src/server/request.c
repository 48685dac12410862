#include "server/request.h"

#include "base/clock.h"
#include "base/size.h"
#include "server/answer_stream.h"
#include "server/cors.h"
#include "server/problem.h"
#include "server/request_trace.h"
#include "server/routes.h"
#include "server/tcp.h"
#include "telemetry/log.h"
#include "json/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chunked body says nothing of its size: it starts with this much and doubles. */
#define FIRST_BODY_BYTES ((size_t)16 << 10)

/* How often a running job looks whether its client is still there. */
#define LOOK_NS (5 * CLOCK_MILLISECOND)

/* Seconds: so long a backlog is one of requests whose deadlines end sooner. */
#define MOST_RETRY_AFTER 60

#define ETAG_OF_GZIP "-gzip"

static bool set_target(struct request *request, const char *target)
{
    const size_t length = strlen(target), bytes = 2 * length + 1 + REQUEST_MAX_PARAMETERS;
    if (bytes > request->target_capacity) {
        char *larger = realloc(request->target, bytes);
        if (!larger)
            return false;
        request->target = larger;
        request->target_capacity = bytes;
    }
    memcpy(request->target, target, length + 1);
    return true;
}

struct request *request_create(struct server *server, const char *target)
{
    struct request *request = request_store_take(&server->requests);
    if (!request)
        return NULL;
    if (!set_target(request, target)) {
        request_store_put(&server->requests, request);
        return NULL;
    }
    request->server = server;
    request->json_length = SIZE_MAX;
    request->problem_form = route_problem_form(request->target);
    request->arrived = clock_ns();
    request->deadline = request->proxy_deadline = CLOCK_NEVER;
    request_id_make(request->id);
    request->generation = generations_enter(&server->generations, &request->generation_turn);
    return request;
}

static void set_answer(struct request *request, struct answer answer)
{
    if (request->answer.owned)
        free((char *)request->answer.body);
    request->answer = answer;
}

void request_end(struct request *request)
{
    struct server *server = request->server;
    if (request->answer.stream && !answer_stream_leave(request->answer.stream))
        return; /* a worker still writes: it comes here when it is done */
    set_answer(request, (struct answer){0});
    request_drop_body(request);
    request_drop_work(request);
    while (request->n_held)
        arena_store_put(server->parts.arenas, &request->held[--request->n_held]);
    budget_give_all(server->parts.budget, &request->share);
    generations_leave(&server->generations, request->generation_turn);
    request_store_put(&server->requests, request);
}

void request_fail(struct request *request, const struct error *error)
{
    /* Good in either form. */
    static const char last_resort[] =
        "{\"type\":\"urn:attnd:problem:out-of-memory\",\"title\":\"Memory ran out\",\"status\":503,"
        "\"detail\":\"memory ran out\",\"instance\":\"\",\"error\":\"memory ran out\"}";
    struct text body = {0};
    problem_document(error, request->id, request->problem_form, &body);
    struct answer answer = {.status = problem_status(error->code, request->problem_form),
                            .error = error->code,
                            .content_type = problem_media_type(request->problem_form),
                            .body = body.data,
                            .length = body.length,
                            .owned = true};
    if (body.failed) {
        text_free(&body);
        answer = (struct answer){.status = 503,
                                 .error = ERROR_OUT_OF_MEMORY,
                                 .content_type = problem_media_type(request->problem_form),
                                 .body = last_resort,
                                 .length = sizeof last_resort - 1};
    }
    set_answer(request, answer);
}

void request_succeed(struct request *request, const char *content_type, const char *body, size_t length)
{
    set_answer(request, (struct answer){.status = 200, .content_type = content_type, .body = body, .length = length});
}

/* One of the tags of If-None-Match is the etag's: of the answer as it is, or compressed where the client takes it so.
 */
static bool etag_matches(const char *sent, const char *etag, bool gzip)
{
    const size_t length = strlen(etag);
    for (const char *at = sent; *at;) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0; /* If-None-Match compares weakly */
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        if (!end)
            return false;
        const char *tag = at + 1, *rest = tag + length;
        const size_t tag_length = (size_t)(end - tag);
        if (tag_length >= length && memcmp(tag, etag, length) == 0 &&
            (rest == end || (gzip && tag_length == length + strlen(ETAG_OF_GZIP) &&
                             memcmp(rest, ETAG_OF_GZIP, strlen(ETAG_OF_GZIP)) == 0)))
            return true;
        at = end + 1;
    }
    return false;
}

static void set_etag(struct request *request, const char *etag)
{
    snprintf(request->answer.etag, sizeof request->answer.etag, "%s", etag);
}

bool request_not_modified(struct request *request, const char *etag)
{
    const char *sent = MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (!sent || !etag_matches(sent, etag, request->coding.accepted != ACCEPTED_IDENTITY))
        return false;
    set_answer(request, (struct answer){.status = MHD_HTTP_NOT_MODIFIED, .body = ""});
    set_etag(request, etag);
    return true;
}

void request_succeed_tagged(struct request *request, const char *content_type, char *body, size_t length,
                            const char *etag)
{
    request_succeed_owned(request, content_type, body, length);
    set_etag(request, etag);
}

void request_succeed_owned(struct request *request, const char *content_type, char *body, size_t length)
{
    request_succeed(request, content_type, body, length);
    request->answer.owned = true;
}

/* Room for `capacity` bytes of body in all; what is there moves along. */
static bool grow_body(struct request *request, size_t capacity, struct error *error)
{
    const struct server_parts *parts = &request->server->parts;
    const size_t more = capacity - request->body_capacity;
    struct arena larger;
    if (!budget_take(parts->budget, &request->share, more, error))
        return false;
    if (!arena_store_take(parts->arenas, capacity, &larger)) {
        budget_give(parts->budget, &request->share, more);
        return error_out_of_memory(error);
    }
    if (request->body_length)
        memcpy(larger.base, request->body.base, request->body_length);
    arena_store_put(parts->arenas, &request->body);
    request->body = larger;
    request->body_capacity = capacity;
    return true;
}

/* `length`: of what is known of the body. */
static bool over_limit(const struct request *request, size_t length, struct error *error)
{
    return error_set(error, ERROR_TOO_LARGE,
                     "the body has %zu bytes%s, over limits.max_body_bytes (%lld); send less at once, or raise the "
                     "setting",
                     length, request->bytes_in ? " so far" : "",
                     (long long)request->generation->config->limits.max_body_bytes);
}

bool request_expect_body(struct request *request, size_t length, struct error *error)
{
    if (length > (size_t)request->generation->config->limits.max_body_bytes)
        return over_limit(request, length, error);
    return length == 0 || grow_body(request, length, error);
}

bool request_add_body(struct request *request, const char *data, size_t length, struct error *error)
{
    size_t limit = (size_t)request->generation->config->limits.max_body_bytes, needed;
    if (!size_add(request->body_length, length, &needed) || needed > limit)
        return over_limit(request, request->bytes_in, error);
    if (needed > request->body_capacity) {
        size_t doubled = size_max(2 * request->body_capacity, FIRST_BODY_BYTES);
        if (!grow_body(request, size_max(needed, size_min(doubled, limit)), error))
            return false;
    }
    if (length)
        memcpy(request->body.base + request->body_length, data, length);
    request->body_length = needed;
    return true;
}

void request_drop_body(struct request *request)
{
    arena_store_put(request->server->parts.arenas, &request->body);
    budget_give(request->server->parts.budget, &request->share, request->body_capacity);
    request->body_length = request->body_capacity = 0;
}

void request_drop_work(struct request *request)
{
    arena_store_put(request->server->parts.arenas, &request->decoded);
    arena_store_put(request->server->parts.arenas, &request->work);
}

bool request_take_memory(struct request *request, size_t bytes, bool whole, struct arena *arena, struct error *error)
{
    const struct server_parts *parts = &request->server->parts;
    if (!budget_take(parts->budget, &request->share, bytes, error))
        return false;
    if (whole ? arena_store_take_touched(parts->arenas, bytes, arena) : arena_store_take(parts->arenas, bytes, arena))
        return true;
    request_discharge(request, bytes);
    return error_out_of_memory(error);
}

void request_give_memory(struct request *request, size_t bytes, struct arena *arena)
{
    arena_store_put(request->server->parts.arenas, arena);
    request_discharge(request, bytes);
}

void request_discharge(struct request *request, size_t bytes)
{
    budget_give(request->server->parts.budget, &request->share, bytes);
}

void request_hold(struct request *request, struct arena *arena)
{
    request->held[request->n_held++] = *arena;
    *arena = (struct arena){0};
}

/* Workers ask between tiles. */
static bool job_cancelled(struct job *job)
{
    struct error ignored;
    return request_lapsed(request_of_job(job), clock_ns(), false, &ignored) != ERROR_NONE;
}

void request_seen(struct request *request)
{
    atomic_store_explicit(&request->next_look, request->body_came + LOOK_NS, memory_order_relaxed);
}

void request_suspend(struct request *request)
{
    request->submitted = clock_ns();
    MHD_suspend_connection(request->mhd);
    connections_enter(&request->server->connections, request->connection, CONNECTION_WORKING, request->submitted,
                      request->deadline);
}

bool request_try_submit(struct request *request, struct error *error)
{
    struct server *server = request->server;
    request->job.cancelled = job_cancelled;
    request->job.deadline = request->deadline;
    request->submitted = clock_ns();
    MHD_suspend_connection(request->mhd);
    if (!pool_submit(server->parts.pool, &request->job, error))
        return false;
    /* Only now can the watchdog find it in the queue. It may even be done: the polling thread that would see that is
     * this one. */
    connections_enter(&server->connections, request->connection, CONNECTION_WORKING, request->submitted,
                      request->deadline);
    return true;
}

void request_submit(struct request *request)
{
    struct error error;
    if (request_try_submit(request, &error))
        return;
    request_fail(request, &error);
    request_resume(request);
}

void request_resume(struct request *request)
{
    MHD_resume_connection(request->mhd);
}

static bool client_gone(int descriptor)
{
    struct tcp_state state;
    return !tcp_state(descriptor, &state) || !state.open;
}

enum error_code request_lapsed(struct request *request, uint64_t now, bool look, struct error *error)
{
    if (now >= request->deadline) {
        if (request->deadline == request->proxy_deadline)
            error_set(error, ERROR_DEADLINE,
                      "no answer within x-envoy-expected-rq-timeout-ms (%.0f ms); ask for less, or allow more time",
                      (double)(request->deadline - request->arrived) / 1e6);
        else
            error_set(error, ERROR_DEADLINE,
                      "no answer within server.request_timeout_s (%g s); ask for less, or allow more time",
                      request->generation->config->server.request_timeout_s);
        return ERROR_DEADLINE;
    }
    if (!look && now < atomic_load_explicit(&request->next_look, memory_order_relaxed))
        return ERROR_NONE;
    atomic_store_explicit(&request->next_look, now + LOOK_NS, memory_order_relaxed);
    if (client_gone(request->connection->descriptor)) {
        error_set(error, ERROR_CLIENT_GONE, "the client closed its connection");
        return ERROR_CLIENT_GONE;
    }
    return ERROR_NONE;
}

bool request_dropped(struct error *error)
{
    return error_set(error, ERROR_DRAINING,
                     "the server is stopping, and this request's work had not begun; send it to another replica");
}

bool request_job_begins(struct request *request, enum job_end end, struct error *error)
{
    if (end == JOB_DROPPED)
        return request_dropped(error);
    return request_lapsed(request, clock_ns(), request->submitted != 0, error) == ERROR_NONE;
}

static char *put_duration(char *to, const char *name, double us)
{
    to = stpcpy(to, name);
    return number_write_fixed(to, isfinite(us) && us > 0 ? (float)(us / 1e3) : 0.0f, 3);
}

/* Milliseconds. The names below and four numbers of up to NUMBER_FIXED_BYTES(3). */
#define SERVER_TIMING_BYTES (60 + 4 * NUMBER_FIXED_BYTES(3))

static void server_timing(const struct request *request, char text[SERVER_TIMING_BYTES])
{
    const struct timing *t = &request->timing;
    char *end = put_duration(text, "parse;dur=", t->parse_us);
    end = put_duration(end, ", queue;dur=", t->queue_us);
    end = put_duration(end, ", compute;dur=", t->compute_us);
    if (t->encoded_whole)
        end = put_duration(end, ", encode;dur=", t->encode_us);
    *end = '\0';
}

/* Whole seconds: what the table says, or where work is in the way, until that is done. */
static unsigned retry_after(const struct request *request)
{
    const enum error_code code = request->answer.error;
    const unsigned least = problem_retry_after(code);
    if (code != ERROR_QUEUE_FULL && code != ERROR_OVERLOADED && code != ERROR_BUDGET_FULL)
        return least;
    const uint64_t seconds = (pool_backlog_ns(request->server->parts.pool) + CLOCK_SECOND - 1) / CLOCK_SECOND;
    return seconds < least ? least : seconds < MOST_RETRY_AFTER ? (unsigned)seconds : MOST_RETRY_AFTER;
}

enum MHD_Result request_send(struct request *request)
{
    struct answer *answer = &request->answer;
    struct server *server = request->server;
    char text[SERVER_TIMING_BYTES];
    if (answer->error == ERROR_CLIENT_GONE)
        return MHD_NO;
    content_coding_shorten_here(request);
    struct MHD_Response *response = answer_response(request);
    if (!response)
        return MHD_NO;
    enum MHD_Result ok = MHD_YES;
    if (answer->content_type)
        ok &= MHD_add_response_header(response, "Content-Type", answer->content_type);
    if (answer->etag[0]) {
        snprintf(text, sizeof text, "\"%s%s\"", answer->etag, answer->gzip ? ETAG_OF_GZIP : "");
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, text);
    }
    if (answer->error == ERROR_UNAUTHORIZED)
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    ok &= MHD_add_response_header(response, "x-request-id", request->id);
    if (request_is_traced(request)) {
        trace_context_write(&request->trace, text);
        ok &= MHD_add_response_header(response, "traceresponse", text);
    }
    ok &= content_coding_add_headers(request, response);
    ok &= cors_add_headers(request, response);
    server_timing(request, text);
    ok &= MHD_add_response_header(response, "server-timing", text);
    if (answer->error == ERROR_METHOD_NOT_ALLOWED)
        ok &= MHD_add_response_header(response, "Allow", route_allow(request->route));
    if (answer->json_length) {
        snprintf(text, sizeof text, "%zu", answer->json_length);
        ok &= MHD_add_response_header(response, "Inference-Header-Content-Length", text);
    }
    if (problem_retry_after(answer->error)) {
        snprintf(text, sizeof text, "%u", retry_after(request));
        ok &= MHD_add_response_header(response, "Retry-After", text);
    }
    if (request->answered_early || atomic_load(&server->state) != SERVER_RUNNING)
        ok &= MHD_add_response_header(response, "Connection", "close");
    const uint64_t now = clock_ns();
    request->answered = now;
    connections_enter(&server->connections, request->connection, CONNECTION_ANSWERING, now,
                      clock_after(now, request->generation->config->server.send_timeout_s));
    if (ok == MHD_YES)
        ok = MHD_queue_response(request->mhd, answer->status, response);
    MHD_destroy_response(response);
    return ok;
}

double request_encode_us(const struct request *request)
{
    return request->answer.pieces ? answer_written_us(&request->answer) : request->timing.encode_us;
}

void request_log(const struct request *request, uint64_t ended, bool sent)
{
    const struct answer *answer = &request->answer;
    const bool gone = !answer->status || !sent;
    /* Probes and scrapes come every few seconds for as long as the server lives; those that succeed say nothing. */
    bool routine = request->route && route_is_unobserved(request->route) && answer->status == 200;
    const bool traced = request_is_traced(request);
    log_event(routine ? LOG_DEBUG : LOG_INFO, "request", LOG_STRING("request_id", request->id),
              LOG_STRING("trace_id", traced ? request->trace.trace_id : NULL),
              LOG_STRING("span_id", traced ? request->trace.span_id : NULL), LOG_STRING("method", request->method),
              LOG_STRING("route", request->route ? route_pattern(request->route) : "other"),
              LOG_INTEGER("status",
                          answer->status ? answer->status : problem_status(ERROR_CLIENT_GONE, request->problem_form)),
              LOG_STRING("error", answer->error != ERROR_NONE ? error_slug(answer->error)
                                  : gone                      ? error_slug(ERROR_CLIENT_GONE)
                                                              : NULL),
              LOG_STRING("weights", request->weights), LOG_INTEGER("bytes_in", request->bytes_in),
              LOG_INTEGER("bytes_out", answer->length), LOG_NUMBER("parse_us", request->timing.parse_us),
              LOG_NUMBER("queue_us", request->timing.queue_us), LOG_NUMBER("compute_us", request->timing.compute_us),
              LOG_INTEGER("batch", request->timing.batch), LOG_NUMBER("encode_us", request_encode_us(request)),
              LOG_NUMBER("total_us", (double)(ended - request->arrived) / 1e3));
}
