/* One HTTP request, from its request line to the last byte of its answer.
 *
 * Owner: the polling thread of its connection, except while the connection is suspended (CONNECTION_WORKING): then the
 * job has it, that is, whoever runs or withdraws the job. Suspending and resuming hand it over. */
#ifndef ATTND_SERVER_REQUEST_H
#define ATTND_SERVER_REQUEST_H

#include "base/error.h"
#include "runtime/budget.h"
#include "runtime/pool.h"
#include "server/answer.h"
#include "server/content_coding.h"
#include "server/context.h"
#include "server/headers.h"
#include "server/media_type.h"
#include "server/problem.h"
#include "server/request_id.h"
#include "telemetry/trace_context.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct generation;
struct route;
struct usage;

/* {name} in a route's pattern. */
#define REQUEST_MAX_PARAMETERS 2

/* A body that is refused is still read and thrown away up to this much, so that the client hears the answer. */
#define REQUEST_MAX_DISCARDED ((size_t)8 << 20)

/* Of an answer: what its pieces lie in, what they point to, and its text. */
#define REQUEST_MAX_HELD 4

struct timing {
    double parse_us, queue_us, compute_us, encode_us;
    uint64_t parse_began, queue_began, compute_began, encode_began; /* clock_ns; 0: not reached */
    size_t batch;       /* requests that were computed together; 0: it was not computed */
    bool leads_batch;   /* it stands for the batch where batches are counted */
    size_t sequences;   /* of this request */
    size_t tokens;      /* its query positions */
    bool encoded_whole; /* encode_us says how long the whole document took */
};

struct request {
    struct job job;
    struct server *server;
    struct connection *connection;
    struct MHD_Connection *mhd;
    char id[REQUEST_ID_BYTES];
    char *target; /* the raw request target, as it was sent; behind it room for the parameters that stand in it */
    size_t target_capacity;
    const char *method;                             /* libmicrohttpd's, valid until the request ends */
    const struct route *route;                      /* NULL: unknown */
    const char *parameters[REQUEST_MAX_PARAMETERS]; /* for each {name} of its pattern, decoded; NULL: none */
    enum problem_form problem_form;                 /* by its target: known before there is a route */
    struct trace_context trace;                     /* zero until the headers are seen */
    struct headers headers;
    bool headers_seen, answered_early;
    bool preflight;             /* it asks what another request, to its route, may be: see cors.h */
    bool hastened;              /* its proxy's deadline is that of the upload as well */
    bool takes_chunks;          /* its HTTP version knows them */
    uint64_t arrived;           /* clock_ns at the request line */
    uint64_t body_came;         /* when the body was whole, and as the client had it before it was compressed */
    uint64_t deadline;          /* by when an answer has to begin */
    uint64_t proxy_deadline;    /* what the proxy in front said of it; CLOCK_NEVER: nothing */
    uint64_t submitted;         /* when the job was queued */
    uint64_t answered;          /* when the answer was given to libmicrohttpd */
    _Atomic uint64_t next_look; /* when the client's socket is looked at again */
    enum media_type content;    /* of the body */
    enum media_type accepted;   /* what the answer should be, where it can */
    struct arena body;          /* what has come of the body, from its base on: body_length bytes */
    size_t body_length, body_capacity, bytes_in;
    size_t json_length;                  /* Inference-Header-Content-Length: what of the body is JSON; SIZE_MAX: all */
    struct arena work;                   /* the job's own structure, and what a short body was decoded to */
    struct arena decoded;                /* what a long one was decoded to */
    struct arena held[REQUEST_MAX_HELD]; /* [n_held]; what the answer lies in */
    unsigned n_held;
    struct content_coding coding;
    struct budget_share share; /* what this request holds of the memory budget */
    struct error refusal;      /* code ERROR_NONE: it is not refused */
    struct answer answer;
    struct timing timing;
    const struct generation *generation; /* what it is served from, there until it ends */
    unsigned generation_turn;
    const char *weights;        /* the set's name, for the log; NULL: none */
    struct usage *usage;        /* that set's counters */
    struct request *next_spare; /* among the requests that have ended */
};

/* NULL when memory ran out. */
struct request *request_create(struct server *server, const char *target);
/* Gives its memory back and keeps the structure in the server's store. */
void request_end(struct request *request);

/* Answers with the problem document of *error. */
void request_fail(struct request *request, const struct error *error);
/* Answers 200 with `body` [length], malloc's, which it takes over. */
void request_succeed_owned(struct request *request, const char *content_type, char *body, size_t length);
/* The same with an ETag (without quotes, up to 31 characters). */
void request_succeed_tagged(struct request *request, const char *content_type, char *body, size_t length,
                            const char *etag);
/* Answers 304 where If-None-Match has this ETag; else false. On the polling thread. */
bool request_not_modified(struct request *request, const char *etag);
/* Answers 200 with memory that outlives the request. */
void request_succeed(struct request *request, const char *content_type, const char *body, size_t length);

/* A body of `length` bytes is announced (0: of unknown length, or none): ERROR_TOO_LARGE, ERROR_BUDGET_FULL or
 * ERROR_OUT_OF_MEMORY when it cannot be kept. */
bool request_expect_body(struct request *request, size_t length, struct error *error);
/* Adds bytes of the body; *error is ERROR_TOO_LARGE, ERROR_BUDGET_FULL or ERROR_OUT_OF_MEMORY when they cannot be kept.
 */
bool request_add_body(struct request *request, const char *data, size_t length, struct error *error);
/* The body is not needed any more: gives its memory and its share of the budget back. */
void request_drop_body(struct request *request);
/* The same for the memory of its job; the job has given back what it took of the budget. */
void request_drop_work(struct request *request);

/* Charges the request's share with `bytes` and takes an arena that holds them; `whole`: all of it will be written. */
bool request_take_memory(struct request *request, size_t bytes, bool whole, struct arena *arena, struct error *error);
/* Gives both back. */
void request_give_memory(struct request *request, size_t bytes, struct arena *arena);
/* Gives back part of the charge: memory that is never touched is none. */
void request_discharge(struct request *request, size_t bytes);
/* The arena stays until the request ends, and is the request's from here on. */
void request_hold(struct request *request, struct arena *arena);

/* Suspends the connection: whoever is told of the request fills its answer and resumes it. On the polling thread. */
void request_suspend(struct request *request);
/* Suspends the connection and queues the job (request->job.run must be set), or fails the request. On the polling
 * thread. */
void request_submit(struct request *request);
/* The same, but where it cannot be queued, false: the connection is suspended, and the caller answers and resumes. */
bool request_try_submit(struct request *request, struct error *error);
/* The job is done and request->answer filled: resumes the connection. The request belongs to the polling thread from
 * here on. */
void request_resume(struct request *request);

/* The client was there when its body came: its socket is not looked at for some milliseconds, unless asked for. */
void request_seen(struct request *request);

/* Why the job should go no further: ERROR_DEADLINE, ERROR_CLIENT_GONE or ERROR_NONE. The first two fill *error. Looks
 * at the socket, at most every few milliseconds unless `look`. `now`: clock_ns(), or it was lately. */
enum error_code request_lapsed(struct request *request, uint64_t now, bool look, struct error *error);

/* What the job of a request says that was still queued when the server stopped. Always false. */
bool request_dropped(struct error *error);
/* At the beginning of a job: whether there is still something to do; else *error says why not. */
bool request_job_begins(struct request *request, enum job_end end, struct error *error);

/* Queues the answer with libmicrohttpd. */
enum MHD_Result request_send(struct request *request);

/* The line in the log, when all is over, at `ended` (clock_ns). `sent`: the client's side has taken the whole answer.
 */
void request_log(const struct request *request, uint64_t ended, bool sent);

/* Microseconds that were spent in writing the answer. */
double request_encode_us(const struct request *request);

static inline struct request *request_of_job(struct job *job)
{
    return (struct request *)((char *)job - offsetof(struct request, job));
}

#endif
