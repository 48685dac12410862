/* Jobs whose work is a forward and what is made of it: from the whole body to the answer.
 *
 * A small body is decoded where it was read, so that the queue knows what the job will cost and which other jobs it may
 * be computed with; a large one is decoded by the worker that takes the job. Computing and encoding are always a
 * worker's. Memory is charged to the request's share of the budget before it is taken. */
#ifndef ATTND_SERVER_FORWARD_JOB_H
#define ATTND_SERVER_FORWARD_JOB_H

#include "base/arena_pieces.h"
#include "codec/forward_request.h"
#include "engine/compare.h"
#include "engine/forward.h"
#include "engine/observer.h"
#include "server/live_feed.h"
#include "server/request.h"
#include "weights/weight_set.h"

struct forward_route;

/* What a job holds. Lies at the start of request->work, as the first member of its route's own structure. */
struct forward_job {
    const struct forward_route *route;
    struct request *request;
    struct forward_request *asked; /* in the route's structure; set by `decode` */
    const struct weight_set *set;
    const struct attention_layer *layer; /* of the set, the one that computes under the input's rules; NULL: a model */
    const struct model *model;           /* the same of a set that is a model; NULL: a layer */
    const struct attention_shape *shape; /* the layer's, or that of all layers of the model */
    struct head_importance *importance;  /* that the rules go by; NULL: they do not */
    struct forward_input input;          /* points into what was decoded, and into the set */
    struct forward_result result;        /* points into `results` */
    struct approximation approximation;  /* where compare was asked for: what it has found */
    struct arena results;
    size_t work_charged, results_charged; /* of the request's share */
    size_t answer_bytes;                  /* at most what the answer takes */
    struct live_feed live;
    double flop;        /* of the computation */
    bool posted;        /* there is no forward and no weight set; set by `decode`, which fills `input` then */
    bool raw_answer;    /* it is bytes as they are in memory; set by `within_limits` */
    size_t json_length; /* as struct answer has it; set by `compose` */
    bool prepared;      /* decoded, and within all limits */
    bool failed;        /* *error says why; else all is well so far */
    struct error error;
    uint64_t stage_began;
};

/* What a route is made of. The functions run in this order, and one that fails (filling *error) is the last. */
struct forward_route {
    size_t job_bytes; /* of its structure, which is zero at first */
    /* Decodes a body with memory of the arena, and sets job->asked. */
    bool (*decode)(struct forward_job *job, const struct request_body *body, struct arena *arena, struct error *error);
    /* NULL, or puts the place of an error that the check against the weights has found, which is a member of
     * /v1/forward, into the body's own terms. */
    void (*place)(const struct forward_job *job, struct error *error);
    /* Refuses what is over a limit before anything is computed; sets job->flop and job->answer_bytes. */
    bool (*within_limits)(struct forward_job *job, struct error *error);
    /* Takes the memory of the results (forward_job_take_results). */
    bool (*reserve)(struct forward_job *job, struct error *error);
    /* NULL: nothing but the forward, which may then be computed together with those of other jobs, and is traffic that
     * live statistics count. */
    bool (*compute)(struct forward_job *job, const struct parallel *parallel, struct error *error);
    /* The answer is one text of at most answer_bytes: writes it. NULL: `compose` makes it. */
    bool (*encode)(const struct forward_job *job, struct text *text, struct error *error);
    /* Memory of `compose`, as arena_need counts it; SIZE_MAX when that overflows. */
    size_t (*compose_bytes)(const struct forward_job *job);
    /* Makes the pieces of the answer of what was computed, which may point into the results. */
    bool (*compose)(struct forward_job *job, const struct parallel *parallel, struct arena *arena,
                    struct answer_pieces *pieces, struct error *error);
};

/* Begins the job of a request whose body is whole, on the polling thread: the request is answered when this returns, or
 * its connection is suspended and the job queued. */
void forward_job_begin(struct request *request, const struct forward_route *route);

/* ---- for the routes' functions */

/* What compare has found; NULL: it was not asked for. */
static inline const struct approximation *forward_job_approximation(const struct forward_job *job)
{
    return job->asked->compare ? &job->approximation : NULL;
}

/* Microseconds from the last call's `now` (clock_ns) to this one's. */
double forward_job_stage_us(struct forward_job *job, uint64_t now);

/* The shape of the job's model; NULL: a bare layer. */
static inline const struct model_shape *forward_job_model(const struct forward_job *job)
{
    return job->model ? model_shape_of(job->model) : NULL;
}

/* Of the forward, with the full one beside it where compare was asked for. */
double forward_job_flop(const struct forward_job *job);

/* ERROR_TOO_LARGE for more work, job->flop, than limits.max_request_gflop. */
bool forward_job_check_flop(const struct forward_job *job, struct error *error);
/* ERROR_TOO_LARGE for a longer answer, job->answer_bytes, than limits.max_response_bytes, or where its bytes overflow
 * (not `counted`); `remedy`: what the client can do about it. */
bool forward_job_check_answer(const struct forward_job *job, bool counted, const char *remedy, struct error *error);

/* For an analysis, first thing in `within_limits`: heads are looked at in a pass without dropout. rules: memory of the
 * route's structure. */
void forward_job_leave_dropout_out(struct forward_job *job, struct attention_rules *rules);

/* ERROR_TOO_LARGE where the sizes of what is to be computed overflow. Always false. */
bool forward_job_too_large(struct error *error);

/* Charges and takes job->results. */
bool forward_job_take_results(struct forward_job *job, size_t bytes, struct error *error);

/* Working memory of a computation, given back before the answer is made. */
struct forward_scratch {
    struct arena arena;
    size_t bytes; /* of the request's share */
};
/* Takes scratch->bytes; `counted`: that number could be told, else it is more than any memory has. ERROR_TOO_LARGE,
 * ERROR_BUDGET_FULL, ERROR_OUT_OF_MEMORY. */
bool forward_job_take_scratch(struct forward_job *job, bool counted, struct forward_scratch *scratch,
                              struct error *error);
void forward_job_give_scratch(struct forward_job *job, struct forward_scratch *scratch);

/* Runs the forwards of `count` jobs (at most FORWARD_BATCH_JOBS) of one weight set into their results. The working
 * memory is the first one's. */
bool forward_job_run_forward(struct forward_job *const *jobs, size_t count, const struct parallel *parallel,
                             struct error *error);

/* The same of one job, whose set is a model, with an observer of its layers. */
bool forward_job_run_layers(struct forward_job *job, const struct forward_observer *observer,
                            const struct parallel *parallel, struct error *error);

/* ---- for forward_batch.c, which runs the jobs */

/* Decodes the body and drops it, finds the weight set, checks the request against it and the limits. */
bool forward_job_prepare(struct forward_job *job, struct error *error);
/* Of the whole job, with what it writes and moves; INFINITY before it is decoded. */
double forward_job_expected_flop(const struct forward_job *job);
/* Makes the answer, or the problem where job->failed; gives back all memory but the answer's and resumes the request.
 * The job is no more then. Of a large answer only the beginning is written when the request is resumed, and the next
 * part before this returns. */
void forward_job_finish(struct forward_job *job, const struct parallel *parallel);

#endif
