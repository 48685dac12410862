/* The worker threads, their bounded queue, and the parallel regions in which idle workers help one job.
 *
 * A job is opaque: a function that one worker runs to its end. While it runs it may open parallel regions through
 * job_parallel: a counter of tiles that the job's own worker always works on itself and that idle workers join, so that
 * nothing ever waits for help.
 *
 * Jobs are light or heavy by their estimated work. A free worker takes, in this order:
 *   1. a heavy job, when no heavy job is running: light traffic never starves heavy work;
 *   2. a light job;
 *   3. tiles of the oldest open region, of a heavy job only when no light job came within HELP_GRACE_NS;
 *   4. a heavy job; while light jobs came within HELP_GRACE_NS, one worker (if there are two) is kept from it.
 * A light job that no idle worker will take is run by the owner of a heavy job between two tiles or stages, nested in
 * the heavy job. So a light job waits for other light jobs, and for one tile or stage of a heavy one at most. */
#ifndef ATTND_RUNTIME_POOL_H
#define ATTND_RUNTIME_POOL_H

#include "base/error.h"
#include "engine/parallel.h"
#include "runtime/arena_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;
struct worker;

/* Up to this estimate a job is light: about 2 ms of one core, which does 1e11 flop a second with AVX2 (twice that with
 * AVX-512). That is as long as the longest tiles: a light job in front costs another one no more than a tile does. */
#define JOB_LIGHT_FLOP 2e8

/* A client nearby that asks again as soon as it is answered is back within 50 to 200 us, and a tile takes up to 1 ms:
 * a worker that waits this long before it goes into a tile is there when the next light job comes, and a heavy job
 * loses little when none does. */
#define HELP_GRACE_NS UINT64_C(250000)

enum job_end {
    JOB_RUN,    /* a worker calls `run` */
    JOB_DROPPED /* it was still queued at pool_drop_queued: `run` is called all the same, to give its answer, and must
                   not compute */
};

/* The pool's from pool_submit until `run` is called (or it is some job's companion), and the caller's again from then
 * on: the pool looks at it no more once `run` has returned, so that `run` may free it. Embedded in the caller's own
 * structure; zero-initialise. */
struct job {
    void (*run)(struct job *job, enum job_end end);
    /* True once its result is no longer wanted. Called by workers between tiles: cheap, any thread. May be NULL. */
    bool (*cancelled)(struct job *job);
    double flop;           /* the caller's estimate of the whole job, its memory traffic counted as flop too */
    const void *batch_key; /* light jobs of an equal key may be taken together; NULL: alone */
    size_t batch_rows;     /* what it adds to such a batch */
    uint64_t deadline;     /* clock_ns() by which it has to be done; 0: never */

    /* The pool's. `next` also links the companions; the caller may use it for what is not queued. */
    struct job *next;
    struct worker *worker; /* while a worker runs it, else NULL */
    uint64_t ripe_at;      /* clock_ns() from which it may be taken; 0: at once */
    double cost;           /* flop as it was counted when it was queued */
    bool heavy, nested;    /* nested: within a heavy job, between two tiles */
};

struct pool_options {
    unsigned workers;           /* at least 1 */
    size_t queue_depth;         /* jobs of both classes that may wait, at least 1 */
    bool pin;                   /* worker n on CPU n, while it has that for itself (seat.h) */
    struct arena_store *arenas; /* an idle worker frees what has been spare for long; NULL: none. Outlives the pool */
    size_t batch_rows;          /* of a job and its companions at most; 0: no companions */
    /* A light job with a key waits this long for companions, or until queued rows of its key reach `batch_rows`. 0:
     * never. */
    uint64_t batch_delay_ns;
};

struct pool *pool_create(const struct pool_options *options, struct error *error);

/* Queues the job. ERROR_QUEUE_FULL (naming queue_depth and its value) when too many wait, ERROR_DRAINING after
 * pool_drop_queued. Where the workers are known well enough: ERROR_OVERLOADED for a job that would not be done by its
 * deadline for what waits before it, ERROR_DEADLINE for one that would not even if it were alone. Never blocks on work.
 */
bool pool_submit(struct pool *pool, struct job *job, struct error *error);

/* Runs a short job on the calling thread, which is no worker, without a place in the queue and with one lane. False,
 * and the job is to be submitted: jobs of its batch_key are queued, or it may wait for some (batch_delay_ns), or the
 * pool is draining. */
bool pool_run_here(struct pool *pool, struct job *job);

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
 * that no worker runs (dropped, a companion, or run by its caller without the pool) and a nested one have one lane, the
 * calling thread, and are cancelled by their own `cancelled` all the same. */
struct parallel job_parallel(struct job *job);

/* Between two stages of a job, within its `run` but not within a tile: a heavy job runs the light jobs that wait for a
 * worker; for others there is nothing to do. */
void job_yield(struct job *job);

/* Within `run` of a job whose flop was INFINITY: now it is known. False, and ERROR_DEADLINE, where it cannot be done by
 * its deadline. */
bool job_learn(struct job *job, double flop, struct error *error);

/* Within `run` of `job`: the work of `part`, which is that or one of its companions, is not done, and says nothing of
 * how fast the workers are. */
void job_forgo(struct job *job, const struct job *part);

/* Within `run`: takes the queued light jobs of the same batch_key, oldest first, those that would make the batch (this
 * job and all its companions) longer than pool_options.batch_rows left where they are. A chain through `next`, NULL
 * when there is none. They are the caller's from here on: their `run` is not called, they count as running, and the
 * caller ends them before its own `run` returns. */
struct job *job_take_companions(struct job *job);

struct pool_state {
    size_t queued, running; /* jobs, nested ones, companions and those of pool_run_here too; helping another worker's
                               job is not counted */
    unsigned workers;
    unsigned busy;    /* workers that run a job or help, and callers of pool_run_here */
    uint64_t busy_ns; /* how long workers were busy, all of them together; it never falls */
};
struct pool_state pool_state(struct pool *pool);

/* Nanoseconds until what waits and runs now is done, at the speed of late; 0 where that is not known. */
uint64_t pool_backlog_ns(struct pool *pool);

#endif
