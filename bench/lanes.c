/* The worker pool behind one blocking call: see lanes.h. Entered by the program's main thread; run_job by a worker. */
#include "lanes.h"

#include "runtime/pool.h"
#include "runtime/processors.h"

#include <pthread.h>
#include <stdlib.h>

struct lanes {
    struct pool *pool; /* NULL: one lane */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
};

struct lanes_job {
    struct job job; /* first: the pool hands it back */
    struct lanes *lanes;
    void (*function)(const struct parallel *parallel, void *argument);
    void *argument;
    bool done; /* under the mutex */
};

static void run_job(struct job *job, enum job_end end)
{
    (void)end; /* nothing is dropped: the caller of lanes_run waits, so that the pool is not freed meanwhile */
    struct lanes_job *ours = (struct lanes_job *)job;
    struct lanes *lanes = ours->lanes;
    const struct parallel parallel = job_parallel(job);
    ours->function(&parallel, ours->argument);
    pthread_mutex_lock(&lanes->mutex);
    ours->done = true;
    pthread_cond_signal(&lanes->ended);
    pthread_mutex_unlock(&lanes->mutex);
}

struct lanes *lanes_create(unsigned count, struct error *error)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes) {
        error_out_of_memory(error);
        return NULL;
    }
    pthread_mutex_init(&lanes->mutex, NULL);
    pthread_cond_init(&lanes->ended, NULL);
    if (count > 1) {
        const struct processors processors = processors_count();
        const struct pool_options options = {
            .workers = count, .queue_depth = 1, .pin = count == processors.allowed && !processors.quota};
        lanes->pool = pool_create(&options, error);
        if (!lanes->pool)
            goto fail;
    }
    return lanes;
fail:
    lanes_free(lanes);
    return NULL;
}

bool lanes_run(struct lanes *lanes, double flop, void (*function)(const struct parallel *parallel, void *argument),
               void *argument, struct error *error)
{
    if (!lanes->pool) {
        function(&parallel_serial, argument);
        return true;
    }
    struct lanes_job ours = {
        .job = {.run = run_job, .flop = flop}, .lanes = lanes, .function = function, .argument = argument};
    if (!pool_submit(lanes->pool, &ours.job, error))
        return false;
    pthread_mutex_lock(&lanes->mutex);
    while (!ours.done)
        pthread_cond_wait(&lanes->ended, &lanes->mutex);
    pthread_mutex_unlock(&lanes->mutex);
    return true;
}

void lanes_free(struct lanes *lanes)
{
    if (!lanes)
        return;
    pool_free(lanes->pool);
    pthread_cond_destroy(&lanes->ended);
    pthread_mutex_destroy(&lanes->mutex);
    free(lanes);
}
