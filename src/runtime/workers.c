/* What the pool's threads do: choose, run, help, rest. Entered by workers, and by whoever has news for them. */
#include "base/clock.h"
#include "base/size.h"
#include "runtime/pool_parts.h"
#include "runtime/schedule.h"

#include <math.h>
#include <stdio.h>

/* What there is */

void pool_publish(struct pool *pool)
{
    size_t idle = (size_t)pool->sleeping + pool->spinning + pool->timekeeper;
    uint64_t due = pool->light.count > idle ? job_queue_ripe(&pool->light) : CLOCK_NEVER;
    atomic_store_explicit(&pool->light_due, due, memory_order_relaxed);
    atomic_store_explicit(&pool->light_queued, pool->light.count, memory_order_relaxed);
}

bool pool_light_waits(struct pool *pool)
{
    uint64_t due = atomic_load_explicit(&pool->light_due, memory_order_relaxed);
    return due != CLOCK_NEVER && (due == 0 || due <= clock_ns());
}

/* For a worker that does not help before `away_until`. */
static enum choice choose(const struct pool *pool, uint64_t away_until, uint64_t now, uint64_t *due)
{
    struct outlook outlook = {.now = now,
                              .last_light = pool->last_light,
                              .light_ripe = job_queue_ripe(&pool->light),
                              .heavy_waits = pool->heavy.count > 0,
                              .heavy_running = pool->heavy_running,
                              .workers = pool->n_workers};
    for (const struct worker *owner = pool->open; owner; owner = owner->next_open)
        if (region_has_tiles(&owner->region))
            *(owner->heavy ? &outlook.heavy_region : &outlook.light_region) = true;
    if (now >= away_until || !(outlook.light_region || outlook.heavy_region))
        return schedule_choose(&outlook, due);
    outlook.light_region = outlook.heavy_region = false;
    enum choice choice = schedule_choose(&outlook, due);
    if (away_until < *due)
        *due = away_until;
    return choice;
}

/* Sleeping and waking */

struct call pool_announce(struct pool *pool, uint64_t now, size_t n)
{
    struct call call = {0};
    uint64_t due;
    atomic_fetch_add_explicit(&pool->news, 1, memory_order_relaxed);
    if (!pool->sleeping && !pool->timekeeper)
        return call;
    if (choose(pool, 0, now, &due) != CHOICE_NONE) {
        n -= size_min(n, pool->spinning); /* they see the news */
        call.sleepers = (unsigned)size_min(n, pool->sleeping);
        call.timekeeper = n > pool->sleeping && pool->timekeeper;
    }
    if (pool->timekeeper)
        call.timekeeper |= due < pool->alarm_at;
    else if (due != CLOCK_NEVER)
        call.sleepers = (unsigned)size_max(call.sleepers, 1); /* it finds nothing, and keeps the time */
    return call;
}

void pool_wake(struct pool *pool, struct call call)
{
    for (unsigned i = 0; i < call.sleepers; i++)
        pthread_cond_signal(&pool->work);
    if (call.timekeeper)
        pthread_cond_signal(&pool->alarm);
}

/* With the mutex held, by a worker that is about to be busy: it may have been the timekeeper, and another one may have
 * been woken for something that it does not take. */
static void hand_over(struct pool *pool, uint64_t now)
{
    uint64_t due;
    if (!pool->timekeeper && pool->sleeping && (choose(pool, 0, now, &due) != CHOICE_NONE || due != CLOCK_NEVER))
        pthread_cond_signal(&pool->work);
}

/* A job opens one region after the other. To sleep in between and be woken costs more than most tiles. Called and left
 * with the mutex held. */
static void spin(struct worker *worker, uint64_t now)
{
    struct pool *pool = worker->pool;
    unsigned seen = atomic_load_explicit(&pool->news, memory_order_relaxed);
    pool->spinning++;
    pool_publish(pool);
    pool_unlock(pool);
    while (atomic_load_explicit(&pool->news, memory_order_relaxed) == seen &&
           atomic_load_explicit(&worker->helped->busy, memory_order_relaxed) && clock_ns() < now + REGION_SPIN_NS)
        region_pause();
    pool_lock(pool);
    pool->spinning--;
    pool_publish(pool);
    worker->helped = NULL;
}

static void wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t due)
{
    struct timespec until = {.tv_sec = (time_t)(due / CLOCK_SECOND), .tv_nsec = (long)(due % CLOCK_SECOND)};
    if (due == CLOCK_NEVER)
        pthread_cond_wait(condition, mutex);
    else
        pthread_cond_timedwait(condition, mutex, &until);
}

/* The only sleeper that wakes by time. Called and left with the mutex held. */
static void keep_time(struct pool *pool, uint64_t due)
{
    pool->timekeeper = true;
    pool->alarm_at = due < pool->arenas_due ? due : pool->arenas_due;
    pool_publish(pool);
    wait_until(&pool->alarm, &pool->mutex, pool->alarm_at);
    pool->timekeeper = false;
    pool_publish(pool);
}

static void look_after_arenas(struct pool *pool, uint64_t now)
{
    pool_unlock(pool);
    uint64_t due = arena_store_expire(pool->arenas, now);
    pool_lock(pool);
    /* What is put from now on, by whatever thread, is due later than that. */
    pool->arenas_due = due < now + ARENA_STORE_NS ? due : now + ARENA_STORE_NS;
}

/* There is nothing to do before `due`. Called and left with the mutex held. */
static void rest(struct worker *worker, uint64_t now, uint64_t due)
{
    struct pool *pool = worker->pool;
    if (worker->helped) {
        spin(worker, now);
    } else if (pool->timekeeper) {
        if (due < pool->alarm_at) /* what is due came while there was something to take at once: it was not told */
            pthread_cond_signal(&pool->alarm);
        pool->sleeping++;
        pool_publish(pool);
        pthread_cond_wait(&pool->work, &pool->mutex);
        pool->sleeping--;
        pool_publish(pool);
    } else if (now >= pool->arenas_due) {
        look_after_arenas(pool, now);
    } else {
        keep_time(pool, due);
    }
}

/* Working */

/* A job and its companions are over, which took their worker so long (a nested one, 0: its time is another's). What was
 * given up says nothing of how fast the workers are. With the mutex held. */
static void note_ended(struct worker *worker, const struct batch *batch, bool heavy, uint64_t ns)
{
    struct drain *drain = &worker->pool->drain;
    if (batch->cost > 0 && batch->unknown)
        drain_note_unknown(drain, batch->cost);
    if (batch->cost > 0 && ns)
        drain_note(drain, heavy, ns + worker->helped_ns, batch->cost);
    if (ns) {
        worker->cost = 0;
        worker->helped_ns = 0;
    }
}

/* Takes the oldest job of the queue that is ripe, and runs it. Called and left with the mutex held; false when there is
 * none. */
static bool run_next(struct worker *worker, struct job_queue *queue, bool nested, uint64_t now)
{
    struct pool *pool = worker->pool;
    struct job *job = job_queue_take(queue, now);
    if (!job)
        return false;
    struct batch batch = {.rows = job->batch_rows, .jobs = 1, .cost = job->cost, .unknown = !isfinite(job->flop)},
                 *outer = worker->batch;
    const bool heavy = job->heavy;
    pool->running++;
    pool->heavy_running += heavy;
    if (!nested) {
        worker->heavy = heavy;
        worker->began = now;
        worker->cost = job->cost;
        worker->helped = NULL;
        worker->busy_since = now;
    }
    pool_publish(pool);
    hand_over(pool, now);
    pool_unlock(pool);

    job->worker = worker;
    job->nested = nested;
    worker->batch = &batch;
    if (!nested)
        atomic_store_explicit(&worker->busy, true, memory_order_relaxed);
    job->run(job, JOB_RUN);
    if (!nested)
        atomic_store_explicit(&worker->busy, false, memory_order_relaxed);
    worker->batch = outer;

    pool_lock(pool);
    pool->running -= batch.jobs;
    pool->heavy_running -= heavy;
    note_ended(worker, &batch, heavy, nested ? 0 : clock_ns() - now);
    return true;
}

void worker_serve_light(struct worker *worker)
{
    struct pool *pool = worker->pool;
    if (!pool_light_waits(pool))
        return;
    pool_lock(pool);
    /* Those that wait by now, so that the heavy job goes on under any traffic. */
    for (size_t left = pool->light.count; left && pool_light_waits(pool); left--)
        if (!run_next(worker, &pool->light, true, clock_ns()))
            break;
    pool_unlock(pool);
}

/* Joins the oldest open region (`light_only`: of a light job) that has tiles left. Called and left with the mutex held.
 */
static void help(struct worker *worker, bool light_only, uint64_t now)
{
    struct pool *pool = worker->pool;
    struct region_opening opening;
    struct worker *owner = pool->open;
    while (owner && ((light_only && owner->heavy) || !region_enter(&owner->region, &opening)))
        owner = owner->next_open;
    if (!owner)
        return;
    const bool heavy = owner->heavy;
    worker->busy_since = now;
    hand_over(pool, now);
    pool_unlock(pool);
    worker->helped = owner;
    struct seat_watch watch = seat_watch_begin(&worker->seat);
    while (region_run_tile(&owner->region, &opening, worker->index)) {
        if (heavy && pool_light_waits(pool)) {
            worker->helped = NULL;
            break;
        }
    }
    seat_watch_end(&worker->seat, &watch);
    pool_lock(pool);
    owner->helped_ns += clock_ns() - now;
}

/* What it did is over. With the mutex held, at `now`. */
static void count_busy(struct worker *worker, uint64_t now)
{
    if (worker->busy_since)
        worker->busy_ns += now - worker->busy_since;
    worker->busy_since = 0;
}

void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    char name[16]; /* the system's limit */
    snprintf(name, sizeof name, "worker %u", worker->index);
    pthread_setname_np(pthread_self(), name);
    seat_init(&worker->seat, pool->pin, worker->index);
    pool_lock(pool);
    for (bool over = false; !over;) {
        uint64_t due, now = clock_ns();
        count_busy(worker, now);
        switch (choose(pool, worker->seat.away_until, now, &due)) {
        case CHOICE_LIGHT:
            run_next(worker, &pool->light, false, now);
            break;
        case CHOICE_HEAVY:
            run_next(worker, &pool->heavy, false, now);
            break;
        case CHOICE_HELP:
            help(worker, false, now);
            break;
        case CHOICE_HELP_LIGHT:
            help(worker, true, now);
            break;
        case CHOICE_NONE:
            over = pool->stopping;
            if (!over)
                rest(worker, now, due);
            break;
        }
    }
    pool_unlock(pool);
    return NULL;
}
