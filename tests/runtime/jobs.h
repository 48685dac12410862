/* Jobs that say when they run, for the tests of the pool. */
#ifndef ATTND_TESTS_JOBS_H
#define ATTND_TESTS_JOBS_H

#include "base/clock.h"
#include "runtime/pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Estimates well within their class. */
#define LIGHT (JOB_LIGHT_FLOP / 2)
#define HEAVY (JOB_LIGHT_FLOP * 2)

struct pool *make_pool(unsigned workers, size_t queue_depth, bool pin);
void submit(struct pool *pool, struct job *job);

/* For ever, on a machine that may stand still for seconds. */
#define PATIENCE_NS (60 * CLOCK_SECOND)

/* False when nothing comes for so long. */
bool await(sem_t *semaphore);
/* Fails the test when the count does not come to `wanted`. */
void await_count(_Atomic unsigned *count, unsigned wanted);
void await_queued(struct pool *pool, size_t wanted);
/* Until no job runs and no worker is busy; then they are given a moment to lie down. */
void await_rest(struct pool *pool);

/* A job that says that it runs and then waits for leave to end. */
struct gate {
    struct job job;
    sem_t entered, leave;
    enum job_end end;
};
void gate_init(struct gate *gate, double flop);
/* Submits it and waits until it runs. */
void enter_gate(struct pool *pool, struct gate *gate, double flop);

/* A job that notes when it ran, and how. */
struct noted {
    struct job job;
    _Atomic unsigned *clock;
    _Atomic unsigned runs, at, dropped, lanes;
    pthread_t thread;
};
struct noted *make_jobs(size_t count, _Atomic unsigned *clock);

#endif
