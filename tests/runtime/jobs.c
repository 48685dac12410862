#include "jobs.h"

#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pool *make_pool(unsigned workers, size_t queue_depth, bool pin)
{
    struct pool_options options = {.workers = workers, .queue_depth = queue_depth, .pin = pin};
    struct error error;
    struct pool *pool = pool_create(&options, &error);
    ck_assert_ptr_nonnull(pool);
    return pool;
}

void submit(struct pool *pool, struct job *job)
{
    struct error error;
    ck_assert_msg(pool_submit(pool, job, &error), "%s", error.message);
}

bool await(sem_t *semaphore)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(PATIENCE_NS / CLOCK_SECOND);
    while (sem_timedwait(semaphore, &until) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

void await_count(_Atomic unsigned *count, unsigned wanted)
{
    for (const uint64_t end = clock_ns() + PATIENCE_NS; atomic_load(count) < wanted && clock_ns() < end;)
        pause_briefly();
    ck_assert_uint_eq(atomic_load(count), wanted);
}

void await_queued(struct pool *pool, size_t wanted)
{
    for (const uint64_t end = clock_ns() + PATIENCE_NS; pool_state(pool).queued != wanted && clock_ns() < end;)
        pause_briefly();
    ck_assert_uint_eq(pool_state(pool).queued, wanted);
}

void await_rest(struct pool *pool)
{
    struct pool_state state = pool_state(pool);
    for (const uint64_t end = clock_ns() + PATIENCE_NS; (state.running || state.busy) && clock_ns() < end;) {
        pause_briefly();
        state = pool_state(pool);
    }
    ck_assert_uint_eq(state.running, 0);
    ck_assert_uint_eq(state.busy, 0);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void run_gate(struct job *job, enum job_end end)
{
    struct gate *gate = (struct gate *)job;
    gate->end = end;
    sem_post(&gate->entered);
    await(&gate->leave);
}

void gate_init(struct gate *gate, double flop)
{
    memset(gate, 0, sizeof *gate);
    gate->job.run = run_gate;
    gate->job.flop = flop;
    sem_init(&gate->entered, 0, 0);
    sem_init(&gate->leave, 0, 0);
}

void enter_gate(struct pool *pool, struct gate *gate, double flop)
{
    gate_init(gate, flop);
    submit(pool, &gate->job);
    ck_assert(await(&gate->entered));
}

static void run_noted(struct job *job, enum job_end end)
{
    struct noted *noted = (struct noted *)job;
    noted->thread = pthread_self();
    noted->dropped = end == JOB_DROPPED;
    noted->lanes = job_parallel(job).lanes;
    noted->at = atomic_fetch_add(noted->clock, 1);
    atomic_fetch_add(&noted->runs, 1);
}

struct noted *make_jobs(size_t count, _Atomic unsigned *clock)
{
    struct noted *jobs = calloc(count, sizeof *jobs);
    ck_assert_ptr_nonnull(jobs);
    for (size_t i = 0; i < count; i++) {
        jobs[i].job.run = run_noted;
        jobs[i].clock = clock;
    }
    return jobs;
}
