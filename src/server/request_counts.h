/* What is counted of requests as they end, for /metrics. */
#ifndef ATTND_SERVER_REQUEST_COUNTS_H
#define ATTND_SERVER_REQUEST_COUNTS_H

#include "base/error.h"
#include "server/routes.h"
#include "telemetry/exposition.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

/* X(code, name): the methods that are told apart. */
#define COUNTED_METHODS(X)        \
    X(COUNTED_GET, "GET")         \
    X(COUNTED_HEAD, "HEAD")       \
    X(COUNTED_POST, "POST")       \
    X(COUNTED_PUT, "PUT")         \
    X(COUNTED_PATCH, "PATCH")     \
    X(COUNTED_DELETE, "DELETE")   \
    X(COUNTED_OPTIONS, "OPTIONS") \
    X(COUNTED_OTHER_METHOD, "other")
#define COUNTED_METHOD_ENUM(code, name) code,
enum counted_method { COUNTED_METHODS(COUNTED_METHOD_ENUM) COUNTED_METHOD_COUNT };
#undef COUNTED_METHOD_ENUM

/* X(status): those of answers, and 499. */
#define COUNTED_STATUSES(X)                                                                                         \
    X(200)                                                                                                          \
    X(204)                                                                                                          \
    X(304) X(400) X(401) X(403) X(404) X(405) X(408) X(413) X(415) X(417) X(422) X(429) X(431) X(499) X(500) X(503) \
        X(504)
#define COUNTED_STATUS(status) +1
enum { COUNTED_STATUS_COUNT = 1 COUNTED_STATUSES(COUNTED_STATUS) }; /* the last: any other */
#undef COUNTED_STATUS

/* X(code, name): the stages of a request. */
#define COUNTED_STAGES(X)       \
    X(STAGE_PARSE, "parse")     \
    X(STAGE_QUEUE, "queue")     \
    X(STAGE_COMPUTE, "compute") \
    X(STAGE_ENCODE, "encode")   \
    X(STAGE_SEND, "send")
#define COUNTED_STAGE_ENUM(code, name) code,
enum counted_stage { COUNTED_STAGES(COUNTED_STAGE_ENUM) COUNTED_STAGE_COUNT };
#undef COUNTED_STAGE_ENUM

/* Numbers that are summed up, one after the other. Routes by their place in the table, those of one pattern at the
 * first of them; ROUTES_MOST: none. */
struct request_totals {
    uint64_t requests[ROUTES_MOST + 1][COUNTED_METHOD_COUNT][COUNTED_STATUS_COUNT];
    struct histogram durations[ROUTES_MOST + 1]; /* nanoseconds */
    struct histogram stages[COUNTED_STAGE_COUNT];
    struct histogram batches; /* requests */
    uint64_t rejected[ERROR_CODE_COUNT];
    uint64_t body_bytes, answer_bytes, client_gone, tokens, sequences;
    uint64_t worked_here_ns; /* by polling threads, in the place of workers */
};

struct request_counts;

/* For so many threads that count. NULL when memory ran out. */
struct request_counts *request_counts_create(unsigned threads);
void request_counts_free(struct request_counts *counts);

/* The request is over, at `ended` (clock_ns); `sent`: the client's side has taken the whole answer. Any thread; never
 * waits. */
void request_counts_add(struct request_counts *counts, const struct request *request, uint64_t ended, bool sent);

/* All that was counted before. Any thread; holds nobody up. */
void request_counts_read(struct request_counts *counts, struct request_totals *totals);

/* Of each bucket of the durations the last request whose trace is sampled. */
typedef struct exemplar duration_exemplars[HISTOGRAM_BUCKETS];
void request_counts_read_exemplars(struct request_counts *counts, duration_exemplars exemplars[ROUTES_MOST + 1]);

/* Where the requests of a route are counted: at the first of its pattern. */
size_t request_counts_place(const struct request_counts *counts, const struct route *route);
enum counted_method counted_method_of(const char *method);
/* "200", and "other". */
const char *counted_status_name(size_t status);

#endif
