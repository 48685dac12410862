/* What a running job asks of its pool: tiles on all workers, room for light jobs, companions. Entered by the thread
 * that runs the job. */
#include "base/clock.h"
#include "base/size.h"
#include "runtime/pool_parts.h"

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

void job_yield(struct job *job)
{
    if (job->worker && job->heavy) /* which is never nested */
        worker_serve_light(job->worker);
}

/* How many lanes it has. */
static unsigned lanes(const struct job *job)
{
    return job->worker && !job->nested ? job->worker->pool->n_workers : 1;
}

/* struct parallel's run, on the thread that runs the job. */
static void run_tiles(void *context, size_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                      void *argument)
{
    struct job *job = context;
    struct worker *worker = job->worker;
    if (lanes(job) == 1 || n_tiles < 2 || n_tiles > REGION_TILES_MAX) {
        unsigned lane = lanes(job) == 1 ? 0 : worker->index;
        for (size_t i = 0; i < n_tiles; i++) {
            tile(argument, i, lane);
            job_yield(job);
        }
        return;
    }
    struct pool *pool = worker->pool;
    struct region_opening opening;
    uint64_t now = clock_ns();
    /* Opened even when nobody is idle: a worker that ends its job meanwhile comes to help. */
    pool_lock(pool);
    region_open(&worker->region, (uint32_t)n_tiles, tile, argument);
    region_enter(&worker->region, &opening);
    link_open(worker);
    struct call call = pool_announce(pool, now, n_tiles - 1);
    pool_unlock(pool);
    pool_wake(pool, call);

    struct seat_watch watch = seat_watch_begin(&worker->seat);
    while (region_run_tile(&worker->region, &opening, worker->index))
        job_yield(job);
    seat_watch_end(&worker->seat, &watch);
    pool_lock(pool);
    unlink_open(worker);
    pool_unlock(pool);
    region_wait(&worker->region);
}

static bool is_cancelled(void *context)
{
    struct job *job = context;
    return job->cancelled && job->cancelled(job);
}

struct parallel job_parallel(struct job *job)
{
    return (struct parallel){.run = run_tiles, .cancelled = is_cancelled, .context = job, .lanes = lanes(job)};
}

bool job_learn(struct job *job, double flop, struct error *error)
{
    struct worker *worker = job->worker;
    job->flop = flop;
    if (!worker)
        return true;
    pool_lock(worker->pool);
    worker->batch->cost += flop + JOB_COST_FLOP - job->cost;
    job->cost = flop + JOB_COST_FLOP;
    if (!job->nested)
        worker->cost = job->cost;
    const bool can = pool_check_alone(worker->pool, flop, job->heavy, job->heavy, job->deadline, clock_ns(), error);
    pool_unlock(worker->pool);
    return can;
}

void job_forgo(struct job *job, const struct job *part)
{
    if (job->worker)
        job->worker->batch->cost -= part->cost;
}

struct job *job_take_companions(struct job *job)
{
    if (!job->worker || !job->batch_key)
        return NULL;
    struct pool *pool = job->worker->pool;
    struct batch *batch = job->worker->batch;
    if (pool->batch_rows == 0 || batch->rows > pool->batch_rows)
        return NULL;
    size_t room = pool->batch_rows - batch->rows, count;
    struct call call = {0};
    pool_lock(pool);
    struct job *companions = job_queue_take_batch(&pool->light, job->batch_key, &room, &count);
    pool->running += count;
    if (pool->batch_delay_ns) { /* those that are left may be a batch too */
        job_queue_ripen(&pool->light, job->batch_key, pool->batch_rows);
        call = pool_announce(pool, clock_ns(), 1);
    }
    pool_publish(pool);
    pool_unlock(pool);
    pool_wake(pool, call);
    batch->rows = pool->batch_rows - room;
    batch->jobs += count;
    for (const struct job *companion = companions; companion; companion = companion->next)
        batch->cost += companion->cost;
    return companions;
}
