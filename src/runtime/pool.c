/* The workers and their queue: see pool.h. pool_submit, pool_withdraw and pool_state are entered by any thread; one
 * mutex guards all of it and is never held while a job, a tile or a callback runs. */
#include "runtime/pool.h"

#include "base/clock.h"
#include "base/size.h"
#include "runtime/processors.h"
#include "runtime/region.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct pool *pool;
    pthread_t thread;
    unsigned index;           /* its lane */
    _Atomic bool busy;        /* it runs a job: another region may open soon */
    struct worker *next_open; /* in the pool's list of open regions */
    struct region region;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* for idle workers: a job, a region, the end */
    struct job *first, **last;
    size_t queued, running, queue_depth;
    struct worker *open; /* workers whose region may have tiles left, oldest first */
    unsigned idle;       /* workers asleep on `work` */
    bool draining, stopping, pin;
    struct arena_store *arenas;
    uint64_t arenas_due;   /* when to look at them */
    _Atomic unsigned news; /* changed under the mutex whenever `work` has something to say */
    unsigned n_workers, n_started;
    _Alignas(64) struct worker workers[];
};

static void lock(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
}

static void unlock(struct pool *pool)
{
    pthread_mutex_unlock(&pool->mutex);
}

static void tell_news(struct pool *pool)
{
    atomic_fetch_add_explicit(&pool->news, 1, memory_order_relaxed);
}

/* Parallel regions */

static void link_open(struct worker *worker)
{
    struct worker **at = &worker->pool->open;
    while (*at)
        at = &(*at)->next_open;
    worker->next_open = NULL;
    *at = worker;
}

static void unlink_open(struct worker *worker)
{
    struct worker **at = &worker->pool->open;
    while (*at != worker)
        at = &(*at)->next_open;
    *at = worker->next_open;
}

/* struct parallel's run, on the job's own worker. */
static void run_tiles(void *context, size_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                      void *argument)
{
    struct worker *worker = ((struct job *)context)->worker;
    if (!worker || worker->pool->n_workers == 1 || n_tiles < 2 || n_tiles > REGION_TILES_MAX) {
        for (size_t i = 0; i < n_tiles; i++)
            tile(argument, i, worker ? worker->index : 0);
        return;
    }
    struct pool *pool = worker->pool;
    struct region_opening opening;
    /* Opened even when nobody is idle: a worker that ends its job meanwhile comes to help. */
    lock(pool);
    region_open(&worker->region, (uint32_t)n_tiles, tile, argument);
    region_enter(&worker->region, &opening);
    link_open(worker);
    tell_news(pool);
    size_t wake = size_min(pool->idle, n_tiles - 1);
    bool wake_all = wake == pool->idle;
    unlock(pool);
    if (wake && wake_all)
        pthread_cond_broadcast(&pool->work);
    for (; wake && !wake_all; wake--)
        pthread_cond_signal(&pool->work);

    region_work(&worker->region, &opening, worker->index);
    lock(pool);
    unlink_open(worker);
    unlock(pool);
    region_wait(&worker->region);
}

static bool is_cancelled(void *context)
{
    struct job *job = context;
    return job->cancelled && job->cancelled(job);
}

struct parallel job_parallel(struct job *job)
{
    return (struct parallel){.run = run_tiles,
                             .cancelled = is_cancelled,
                             .context = job,
                             .lanes = job->worker ? job->worker->pool->n_workers : 1};
}

void job_yield(struct job *job)
{
    (void)job;
}

struct job *job_take_companions(struct job *job)
{
    (void)job;
    return NULL;
}

/* Joins the oldest region that has tiles left. Called and left with the mutex held; false when there is none. */
static bool help(struct worker *worker)
{
    struct pool *pool = worker->pool;
    struct region_opening opening;
    struct worker *owner = pool->open;
    while (owner && !region_enter(&owner->region, &opening))
        owner = owner->next_open;
    if (!owner)
        return false;
    unsigned seen = atomic_load_explicit(&pool->news, memory_order_relaxed);
    unlock(pool);
    region_work(&owner->region, &opening, worker->index);
    /* A job opens one region after the other. To sleep in between and be woken costs more than most tiles. */
    for (uint64_t end = clock_ns() + REGION_SPIN_NS; atomic_load_explicit(&pool->news, memory_order_relaxed) == seen &&
                                                     atomic_load_explicit(&owner->busy, memory_order_relaxed) &&
                                                     clock_ns() < end;)
        region_pause();
    lock(pool);
    return true;
}

/* Workers */

/* Called and left with the mutex held; false when nothing waits. */
static bool run_next(struct worker *worker)
{
    struct pool *pool = worker->pool;
    struct job *job = pool->first;
    if (!job)
        return false;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->queued--;
    pool->running++;
    unlock(pool);

    job->worker = worker;
    atomic_store_explicit(&worker->busy, true, memory_order_relaxed);
    job->run(job, JOB_RUN);
    atomic_store_explicit(&worker->busy, false, memory_order_relaxed);

    lock(pool);
    pool->running--;
    return true;
}

/* Frees a large arena that has been spare for long, or sleeps until there is news or such an arena. Called and left
 * with the mutex held.
 *
 * Who put an arena back comes here afterwards and sees it: so every spare arena has a sleeper that wakes for it, or a
 * worker that will look once its job ends. */
static void rest(struct pool *pool)
{
    uint64_t due = pool->arenas_due, now = clock_ns();
    if (now >= due) {
        unlock(pool);
        due = arena_store_expire(pool->arenas, now);
        lock(pool);
        /* What is put meanwhile is due later than that. */
        pool->arenas_due = due < now + ARENA_STORE_NS ? due : now + ARENA_STORE_NS;
        return;
    }
    pool->idle++;
    if (due == CLOCK_NEVER) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    } else {
        struct timespec until = {.tv_sec = (time_t)(due / CLOCK_SECOND), .tv_nsec = (long)(due % CLOCK_SECOND)};
        pthread_cond_timedwait(&pool->work, &pool->mutex, &until);
    }
    pool->idle--;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    char name[16]; /* the system's limit */
    snprintf(name, sizeof name, "worker %u", worker->index);
    pthread_setname_np(pthread_self(), name);
    if (pool->pin)
        processors_pin(worker->index); /* where the system refuses, it runs unpinned */
    lock(pool);
    for (;;) {
        if (help(worker) || run_next(worker))
            continue;
        if (pool->stopping)
            break;
        rest(pool);
    }
    unlock(pool);
    return NULL;
}

/* The queue */

bool pool_submit(struct pool *pool, struct job *job, struct error *error)
{
    lock(pool);
    bool draining = pool->draining, full = pool->queued >= pool->queue_depth;
    if (!draining && !full) {
        job->next = NULL;
        job->worker = NULL;
        *pool->last = job;
        pool->last = &job->next;
        pool->queued++;
        tell_news(pool);
    }
    bool wake = pool->idle > 0;
    unlock(pool);
    if (draining)
        return error_set(error, ERROR_DRAINING, "the server is stopping and takes no new work; send it to another one");
    if (full)
        return error_set(error, ERROR_QUEUE_FULL,
                         "the queue is full: %zu requests wait, as many as limits.queue_depth (%zu) allows; try again "
                         "later, or raise the limit",
                         pool->queue_depth, pool->queue_depth);
    if (wake)
        pthread_cond_signal(&pool->work);
    return true;
}

bool pool_withdraw(struct pool *pool, struct job *job)
{
    lock(pool);
    /* A scan: the queue is bounded by some thousands, and nothing of a job that is no longer in it is read. */
    struct job **at = &pool->first;
    while (*at && *at != job)
        at = &(*at)->next;
    bool found = *at != NULL;
    if (found) {
        *at = job->next;
        if (!*at)
            pool->last = at;
        pool->queued--;
    }
    unlock(pool);
    return found;
}

void pool_drop_queued(struct pool *pool)
{
    lock(pool);
    pool->draining = true;
    struct job *job = pool->first;
    pool->first = NULL;
    pool->last = &pool->first;
    pool->queued = 0;
    unlock(pool);
    while (job) {
        struct job *next = job->next;
        job->run(job, JOB_DROPPED);
        job = next;
    }
}

struct pool_state pool_state(struct pool *pool)
{
    lock(pool);
    struct pool_state state = {.queued = pool->queued, .running = pool->running, .workers = pool->n_workers};
    unlock(pool);
    return state;
}

/* Beginning and end */

static bool start_workers(struct pool *pool, struct error *error)
{
    /* Signals are for the thread that waits for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    for (unsigned i = 0; i < pool->n_workers && !failure; i++) {
        failure = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]);
        pool->n_started += failure == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure)
        return error_set(
            error, ERROR_IO,
            "worker thread %u of server.workers (%u) cannot be started: %s; lower server.workers, or raise "
            "the limit on threads (ulimit -u, the control group's pids.max)",
            pool->n_started + 1, pool->n_workers, strerror(failure));
    return true;
}

struct pool *pool_create(const struct pool_options *options, struct error *error)
{
    size_t bytes;
    struct pool *pool = NULL;
    if (size_multiply(options->workers, sizeof(struct worker), &bytes) && size_add(bytes, sizeof *pool, &bytes))
        pool = aligned_alloc(_Alignof(struct pool), bytes); /* both sizes are multiples of the alignment */
    if (!pool) {
        error_out_of_memory(error);
        return NULL;
    }
    memset(pool, 0, bytes);
    pool->n_workers = options->workers;
    pool->queue_depth = options->queue_depth;
    pool->pin = options->pin;
    pool->arenas = options->arenas;
    pool->arenas_due = options->arenas ? 0 : CLOCK_NEVER;
    pool->last = &pool->first;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (unsigned i = 0; i < pool->n_workers; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        region_init(&pool->workers[i].region);
    }
    if (!start_workers(pool, error))
        goto fail;
    return pool;
fail:
    pool_free(pool);
    return NULL;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pool_drop_queued(pool);
    lock(pool);
    pool->stopping = true;
    tell_news(pool);
    unlock(pool);
    pthread_cond_broadcast(&pool->work);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (unsigned i = 0; i < pool->n_workers; i++)
        region_destroy(&pool->workers[i].region);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
