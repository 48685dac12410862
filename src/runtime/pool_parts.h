/* The pool as its own files see it: pool.c (its queues, beginning and end), workers.c (what its threads do), job.c
 * (what a running job asks of it). One mutex guards all of it and is never held while a job, a tile or a callback runs.
 */
#ifndef ATTND_RUNTIME_POOL_PARTS_H
#define ATTND_RUNTIME_POOL_PARTS_H

#include "runtime/drain.h"
#include "runtime/job_queue.h"
#include "runtime/pool.h"
#include "runtime/region.h"
#include "runtime/seat.h"

#include <pthread.h>
#include <stdatomic.h>

/* A running job and its companions. */
struct batch {
    size_t rows, jobs;
    double cost;  /* of all of them */
    bool unknown; /* it was not known when the job was queued */
};

struct worker {
    struct pool *pool;
    pthread_t thread;
    unsigned index;           /* its lane */
    _Atomic bool busy;        /* it runs a job: another region may open soon */
    bool heavy;               /* that job is heavy; under the mutex */
    uint64_t busy_since;      /* it runs a job or helps, since then (clock_ns); 0: neither; under the mutex */
    uint64_t busy_ns;         /* for so long before; under the mutex */
    struct batch *batch;      /* of the innermost job it runs; its own thread's */
    struct worker *helped;    /* whose region it left last, for want of tiles; its own thread's */
    struct seat seat;         /* its own thread's */
    struct worker *next_open; /* in the pool's list of open regions */
    struct region region;
    uint64_t began;     /* the job that it runs, unless that is nested; under the mutex, as what follows */
    double cost;        /* of that job; 0: none */
    uint64_t helped_ns; /* by others, with that job */
};

/* Idle workers sleep on `work` until there is news, but for one, the timekeeper, that sleeps on `alarm` and wakes by
 * time too: when light traffic has been over for HELP_GRACE_NS, when a batch has waited long enough, when an arena may
 * go. If all did, a machine with many workers would wake all of them for one. */
struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work, alarm;
    struct job_queue light, heavy;
    size_t running, queue_depth, batch_rows;
    unsigned heavy_running;
    struct drain drain;
    uint64_t last_light, batch_delay_ns;
    uint64_t trial_due;          /* when work that seems too much is tried all the same; 0: none was refused yet */
    struct worker *open;         /* workers whose region may have tiles left, oldest first */
    unsigned sleeping, spinning; /* on `work`; after a region, in the hope of the next one */
    bool timekeeper;             /* there is one, which wakes at `alarm_at` */
    uint64_t alarm_at;
    _Atomic bool draining; /* set under the mutex */
    bool stopping, pin;
    struct arena_store *arenas;
    uint64_t arenas_due;   /* when to look at them */
    _Atomic unsigned news; /* changed under the mutex whenever there is something new to do */
    unsigned n_workers, n_started;
    /* From when on a busy worker has a light job to run because no idle one will; CLOCK_NEVER: none. Read between
     * tiles. */
    _Alignas(64) _Atomic uint64_t light_due;
    _Atomic size_t light_queued, here; /* light.count as it was published; jobs of pool_run_here */
    _Alignas(64) struct worker workers[];
};

static inline void pool_lock(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
}

static inline void pool_unlock(struct pool *pool)
{
    pthread_mutex_unlock(&pool->mutex);
}

/* Sets light_due and light_queued; with the mutex held, after the queue of light jobs or the number of idle workers has
 * changed. */
void pool_publish(struct pool *pool);

/* Who is to be woken, once the mutex is unlocked: a thread that is woken before has to wait for it. */
struct call {
    unsigned sleepers;
    bool timekeeper;
};
/* With the mutex held: there is something new, for up to `n` workers. */
struct call pool_announce(struct pool *pool, uint64_t now, size_t n);
void pool_wake(struct pool *pool, struct call call);

/* Flop beside its estimate that a job costs: to be taken, woken for, resumed. About 20 us. */
#define JOB_COST_FLOP 2e6

/* Measured times scatter, and who is refused could perhaps have been served: it has to be clear by this factor. */
#define OUTLOOK_MARGIN 1.5

/* Work that seems too much by itself is tried once in a while where nothing else runs: what says so may be wrong, and
 * if all such work were refused nothing would ever show it. First after this long, then after so many times the time
 * that the one that was tried had. */
#define TRIAL_NS    (1 * CLOCK_SECOND)
#define TRIAL_SHARE 4

/* With the mutex held: ERROR_DEADLINE where a job of this much flop, alone, will not be done by `deadline`. `runs`: it
 * is one of those that run. */
bool pool_check_alone(struct pool *pool, double flop, bool heavy, bool runs, uint64_t deadline, uint64_t now,
                      struct error *error);

/* Whether a busy worker should run a light job: one relaxed load where it need not. */
bool pool_light_waits(struct pool *pool);
/* On a worker whose heavy job is between two tiles or stages: runs the light jobs that wait for a worker by now. */
void worker_serve_light(struct worker *worker);
/* A worker's thread; the argument is the struct worker. */
void *worker_main(void *argument);

#endif
