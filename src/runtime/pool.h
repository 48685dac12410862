/* The worker threads, their bounded queue, and the parallel regions in which idle workers help one job.
 *
 * A job is opaque: a function that one worker runs to its end. While it runs it may open parallel regions through
 * job_parallel: a counter of tiles that idle workers join before they take new jobs, and that the job's own worker
 * always works on itself, so that nothing ever waits for help. */
#ifndef ATTND_RUNTIME_POOL_H
#define ATTND_RUNTIME_POOL_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/parallel.h"

#include <stdbool.h>
#include <stddef.h>

struct pool;
struct worker;

enum job_end {
    JOB_RUN,    /* a worker calls `run` */
    JOB_DROPPED /* it was still queued at pool_drop_queued: `run` is called all the same, to give its answer, and must
                   not compute */
};

/* The pool's from pool_submit until `run` is called, and the caller's again from then on: the pool looks at it no more
 * once `run` has returned, so that `run` may free it. Embedded in the caller's own structure. */
struct job {
    /* `arena` is empty at the start and reset after the end. */
    void (*run)(struct job *job, enum job_end end, struct arena *arena);
    /* True once its result is no longer wanted. Called by workers between tiles: cheap, any thread. May be NULL. */
    bool (*cancelled)(struct job *job);
    struct job *next;      /* the pool's: behind it in the queue */
    struct worker *worker; /* the pool's while a worker runs it, else NULL: zero-initialise */
};

struct pool_options {
    unsigned workers;   /* at least 1 */
    size_t queue_depth; /* jobs that may wait, at least 1 */
    bool pin;           /* worker n on CPU n */
};

struct pool *pool_create(const struct pool_options *options, struct error *error);

/* Queues the job. ERROR_QUEUE_FULL (naming queue_depth and its value) when too many wait, ERROR_DRAINING after
 * pool_drop_queued. Never blocks on work. */
bool pool_submit(struct pool *pool, struct job *job, struct error *error);

/* Refuses new jobs from now on and ends the waiting ones as JOB_DROPPED, on the calling thread. Running ones go on. */
void pool_drop_queued(struct pool *pool);

/* Drops what is still queued, waits for running jobs, ends the threads, frees. No other thread may be in the pool's
 * functions any more. pool_free(NULL) is fine. */
void pool_free(struct pool *pool);

/* Takes a job that is still queued out of the queue: true, and `run` will not be called; false when it was taken by a
 * worker (or by pool_drop_queued) already. `job` is only compared with what waits: it may have ended, and even be
 * freed. */
bool pool_withdraw(struct pool *pool, struct job *job);

/* For the engine, valid within `run` of this job: lanes are the pool's workers. Not to be run from within a tile. A job
 * that no worker runs (dropped, or run by its caller without the pool) has one lane, the calling thread, and is
 * cancelled by its own `cancelled` all the same. */
struct parallel job_parallel(struct job *job);

struct pool_state {
    size_t queued, running; /* jobs; helping another worker's job is not counted */
    unsigned workers;
};
struct pool_state pool_state(struct pool *pool);

#endif
