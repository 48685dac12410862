/* The pool's queues, its beginning and its end: see pool.h. pool_submit, pool_withdraw and pool_state are entered by
 * any thread. */
#include "base/clock.h"
#include "base/size.h"
#include "runtime/pool_parts.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The queues */

static size_t queued(const struct pool *pool)
{
    return pool->light.count + pool->heavy.count;
}

/* With the mutex held. */
static struct call enqueue(struct pool *pool, struct job *job, uint64_t now)
{
    job->worker = NULL;
    job->nested = false;
    job->heavy = job->flop > JOB_LIGHT_FLOP;
    job->cost = (isfinite(job->flop) ? job->flop : drain_unknown(&pool->drain)) + JOB_COST_FLOP;
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

/* What is left of the jobs that run, as far as it can be known, in nanoseconds of a worker: a heavy one is taken to run
 * on its share of the workers. */
static double running_ns(const struct pool *pool, uint64_t now)
{
    const double lanes = pool->heavy_running ? (double)pool->n_workers / pool->heavy_running : 1;
    double sum = 0;
    for (unsigned i = 0; i < pool->n_workers; i++) {
        const struct worker *worker = &pool->workers[i];
        const double rate = drain_rate(&pool->drain, worker->heavy);
        const double ran = now > worker->began ? (double)(now - worker->began) : 0;
        const double left = rate > 0 ? worker->cost / rate - ran * (worker->heavy ? lanes : 1) : 0;
        sum += left > 0 ? left : 0;
    }
    return sum;
}

static double queue_ns(const struct pool *pool, const struct job_queue *queue, bool heavy)
{
    const double rate = drain_rate(&pool->drain, heavy);
    return rate > 0 ? queue->cost / rate : 0;
}

/* How long a job would wait, as far as that was measured; light ones only wait for each other. */
static double wait_ns(const struct pool *pool, bool heavy, uint64_t now)
{
    const double light = queue_ns(pool, &pool->light, false);
    return (heavy ? light + queue_ns(pool, &pool->heavy, true) + running_ns(pool, now) : light) / pool->n_workers;
}

/* At best. A light one takes no time that would count. */
static double alone_ns(const struct pool *pool, double flop, bool heavy)
{
    const double fastest = drain_fastest(&pool->drain);
    return heavy && isfinite(flop) && fastest > 0 ? flop / (fastest * pool->n_workers) : 0;
}

/* Whether a job that has so long is tried though it seems too much. */
static bool is_tried(struct pool *pool, bool runs, uint64_t left, uint64_t now)
{
    if (!pool->trial_due)
        pool->trial_due = now + TRIAL_NS;
    if (now < pool->trial_due || pool->heavy_running > runs || queued(pool))
        return false;
    const uint64_t pause = left < CLOCK_NEVER / 8 / TRIAL_SHARE ? TRIAL_SHARE * left : CLOCK_NEVER / 8;
    pool->trial_due = now + (pause > TRIAL_NS ? pause : TRIAL_NS);
    return true;
}

bool pool_check_alone(struct pool *pool, double flop, bool heavy, bool runs, uint64_t deadline, uint64_t now,
                      struct error *error)
{
    const double left = (double)deadline - (double)now, alone = alone_ns(pool, flop, heavy);
    if (!deadline || deadline <= now || alone / OUTLOOK_MARGIN <= left || is_tried(pool, runs, deadline - now, now))
        return true;
    return error_set(error, ERROR_DEADLINE,
                     "this work takes %.2g s here at best, and its answer is expected within %.2g s; ask for less, or "
                     "allow more time (server.request_timeout_s, or the proxy's own timeout)",
                     alone / 1e9, left / 1e9);
}

/* With the mutex held: whether it can be done in time. */
static bool can_be_done(struct pool *pool, const struct job *job, uint64_t now, struct error *error)
{
    const bool heavy = job->flop > JOB_LIGHT_FLOP;
    const double left = (double)job->deadline - (double)now, wait = wait_ns(pool, heavy, now);
    if (!job->deadline || job->deadline <= now)
        return true;
    if (!pool_check_alone(pool, job->flop, heavy, false, job->deadline, now, error))
        return false;
    if (wait <= 0 || (wait + alone_ns(pool, job->flop, heavy)) / OUTLOOK_MARGIN <= left)
        return true;
    return error_set(
        error, ERROR_OVERLOADED,
        "%zu requests wait, for about %.2g s of work, and this one's answer is expected within %.2g s; try "
        "again later, or send it to another replica",
        queued(pool), wait / 1e9, left / 1e9);
}

uint64_t pool_backlog_ns(struct pool *pool)
{
    pool_lock(pool);
    const double ns = wait_ns(pool, true, clock_ns());
    pool_unlock(pool);
    return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
}

bool pool_submit(struct pool *pool, struct job *job, struct error *error)
{
    struct call call = {0};
    pool_lock(pool);
    const uint64_t now = clock_ns();
    bool draining = pool->draining, full = queued(pool) >= pool->queue_depth;
    bool late = !draining && !full && !can_be_done(pool, job, now, error);
    if (!draining && !full && !late)
        call = enqueue(pool, job, now);
    pool_unlock(pool);
    if (late)
        return false;
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
