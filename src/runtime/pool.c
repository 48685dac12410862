/* The pool's queues, its beginning and its end: see pool.h. pool_submit, pool_withdraw and pool_state are entered by
 * any thread. */
#include "base/clock.h"
#include "base/size.h"
#include "runtime/pool_parts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The queues */

static size_t queued(const struct pool *pool)
{
    return pool->light.count + pool->heavy.count;
}

/* With the mutex held. */
static struct call enqueue(struct pool *pool, struct job *job)
{
    uint64_t now = clock_ns();
    job->worker = NULL;
    job->nested = false;
    job->heavy = job->flop > JOB_LIGHT_FLOP;
    job->ripe_at = 0;
    if (job->heavy) {
        job_queue_push(&pool->heavy, job);
    } else {
        const bool waits = job->batch_key && pool->batch_delay_ns;
        if (waits)
            job->ripe_at = now + pool->batch_delay_ns;
        pool->last_light = now;
        job_queue_push(&pool->light, job);
        if (waits)
            job_queue_ripen(&pool->light, job->batch_key, pool->batch_rows);
        pool_publish(pool);
    }
    return pool_announce(pool, now, 1);
}

bool pool_submit(struct pool *pool, struct job *job, struct error *error)
{
    struct call call = {0};
    pool_lock(pool);
    bool draining = pool->draining, full = queued(pool) >= pool->queue_depth;
    if (!draining && !full)
        call = enqueue(pool, job);
    pool_unlock(pool);
    if (draining)
        return error_set(error, ERROR_DRAINING, "the server is stopping and takes no new work; send it to another one");
    if (full)
        return error_set(error, ERROR_QUEUE_FULL,
                         "the queue is full: %zu requests wait, as many as limits.queue_depth (%zu) allows; try again "
                         "later, or raise the limit",
                         pool->queue_depth, pool->queue_depth);
    pool_wake(pool, call);
    return true;
}

/* Whether a job of this key would have company in the queue, or waits for it. */
static bool has_company(struct pool *pool, const void *key)
{
    if (!key)
        return false;
    if (pool->batch_delay_ns)
        return true;
    if (!atomic_load_explicit(&pool->light_queued, memory_order_relaxed))
        return false;
    pool_lock(pool);
    bool found = job_queue_holds(&pool->light, key);
    pool_unlock(pool);
    return found;
}

bool pool_run_here(struct pool *pool, struct job *job)
{
    if (atomic_load_explicit(&pool->draining, memory_order_relaxed) || has_company(pool, job->batch_key))
        return false;
    atomic_fetch_add_explicit(&pool->here, 1, memory_order_relaxed);
    job->worker = NULL;
    job->run(job, JOB_RUN);
    atomic_fetch_sub_explicit(&pool->here, 1, memory_order_relaxed);
    return true;
}

bool pool_withdraw(struct pool *pool, struct job *job)
{
    const void *key = NULL;
    struct call call = {0};
    pool_lock(pool);
    bool found = job_queue_remove(&pool->light, job, &key) || job_queue_remove(&pool->heavy, job, &key);
    if (found) {
        if (key && pool->batch_delay_ns) { /* it may have been the one that made a batch ripe */
            job_queue_ripen(&pool->light, key, pool->batch_rows);
            call = pool_announce(pool, clock_ns(), 1);
        }
        pool_publish(pool);
    }
    pool_unlock(pool);
    pool_wake(pool, call);
    return found;
}

static void drop_all(struct job *job)
{
    while (job) {
        struct job *next = job->next;
        job->run(job, JOB_DROPPED);
        job = next;
    }
}

void pool_drop_queued(struct pool *pool)
{
    pool_lock(pool);
    pool->draining = true;
    struct job *light = job_queue_take_all(&pool->light), *heavy = job_queue_take_all(&pool->heavy);
    pool_publish(pool);
    pool_unlock(pool);
    drop_all(light);
    drop_all(heavy);
}

struct pool_state pool_state(struct pool *pool)
{
    pool_lock(pool);
    const size_t here = atomic_load(&pool->here);
    const uint64_t now = clock_ns(); /* no worker's time is ahead of it */
    struct pool_state state = {
        .queued = queued(pool), .running = pool->running + here, .workers = pool->n_workers, .busy = (unsigned)here};
    for (unsigned i = 0; i < pool->n_workers; i++) {
        const struct worker *worker = &pool->workers[i];
        state.busy += worker->busy_since != 0;
        state.busy_ns += worker->busy_ns + (worker->busy_since ? now - worker->busy_since : 0);
    }
    pool_unlock(pool);
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

static void init_waiting(struct pool *pool)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->alarm, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
    pool->batch_rows = options->batch_rows;
    pool->batch_delay_ns = options->batch_rows ? options->batch_delay_ns : 0;
    atomic_init(&pool->light_due, CLOCK_NEVER);
    job_queue_init(&pool->light);
    job_queue_init(&pool->heavy);
    init_waiting(pool);
    for (unsigned i = 0; i < pool->n_workers; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        region_init(&pool->workers[i].region);
    }
    if (!start_workers(pool, error)) {
        pool_free(pool);
        return NULL;
    }
    return pool;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pool_drop_queued(pool);
    pool_lock(pool);
    pool->stopping = true;
    atomic_fetch_add_explicit(&pool->news, 1, memory_order_relaxed);
    pool_unlock(pool);
    pthread_cond_broadcast(&pool->work);
    pthread_cond_broadcast(&pool->alarm);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (unsigned i = 0; i < pool->n_workers; i++)
        region_destroy(&pool->workers[i].region);
    pthread_cond_destroy(&pool->alarm);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
