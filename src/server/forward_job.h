/* What jobs that run a forward share: memory charged before it is taken, limits, the run itself, and their end. Owned
 * by the worker that runs the job. */
#ifndef ATTND_SERVER_FORWARD_JOB_H
#define ATTND_SERVER_FORWARD_JOB_H

#include "base/text.h"
#include "codec/forward_request.h"
#include "engine/forward.h"
#include "server/request.h"
#include "weights/weight_set.h"

/* What a job holds between its stages. Zero but for `request` and `asked` at its start. */
struct forward_job {
    struct request *request;
    struct forward_request *asked; /* the caller's */
    const struct weight_set *set;
    struct forward_input input;   /* points into `asked` */
    struct forward_result result; /* points into `results` */
    struct arena decoded;         /* what `asked` points into */
    struct arena results;
    struct arena scratch; /* of the store */
    struct text text;     /* the answer */
    size_t kept;          /* bytes of the answer that the request holds at the end */
    uint64_t stage_began;
};

/* What a route does in each stage; they run in this order, and one that fails is the last. */
struct forward_stages {
    /* Decodes a body into the structure that holds *job->asked, and job->decoded. */
    bool (*decode)(struct forward_job *job, const char *body, size_t length, struct error *error);
    /* Refuses what is over a limit before anything is computed; *answer_bytes is at most what the answer takes. */
    bool (*within_limits)(struct forward_job *job, size_t *answer_bytes, struct error *error);
    bool (*compute)(struct forward_job *job, struct job *queued, struct error *error);
    /* Writes job->text. */
    bool (*encode)(struct forward_job *job, size_t answer_bytes, struct error *error);
};

/* Runs the stages, looking between them whether the answer is still wanted, and fills the request's answer with
 * job->text or a problem. */
void forward_job_run(struct forward_job *job, struct job *queued, enum job_end end,
                     const struct forward_stages *stages);
/* Frees what the job holds, gives back all memory but the answer's, and resumes the
 * request. */
void forward_job_end(struct forward_job *job);

/* ---- for the stages */

/* Microseconds since the last call. */
double forward_job_stage_us(struct forward_job *job);

/* Takes memory from the budget for the request, and gives it back. */
bool forward_job_take(struct forward_job *job, size_t bytes, struct error *error);
void forward_job_give(struct forward_job *job, size_t bytes);

/* ERROR_TOO_LARGE for more work than limits.max_request_gflop. */
bool forward_job_check_flop(const struct forward_job *job, double flop, struct error *error);
/* ERROR_TOO_LARGE for a longer answer than limits.max_response_bytes; `remedy`: what the client can do about it. */
bool forward_job_check_answer(const struct forward_job *job, size_t bytes, const char *remedy, struct error *error);

/* Charges and reserves the results' memory and the working memory. */
bool forward_job_reserve(struct forward_job *job, size_t result_bytes, size_t scratch_bytes, struct error *error);
/* Runs the set's layer into job->result. */
bool forward_job_compute(struct forward_job *job, const struct parallel *parallel, struct error *error);
/* A computation failed: where it was cancelled, *error becomes the reason. Always false. */
bool forward_job_failed(struct forward_job *job, struct error *error);

/* Charges and reserves at most `bytes` for the answer's text, before it is written. */
bool forward_job_reserve_text(struct forward_job *job, size_t bytes, struct error *error);
/* What was reserved and not written goes back. */
void forward_job_trim_text(struct forward_job *job, size_t bytes);

#endif
