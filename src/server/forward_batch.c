/* From a job taken to the answers of its batch. Entered by workers; on JOB_DROPPED by the thread that stops the server.
 */
#include "server/forward_batch.h"

#include "server/forward_job.h"

struct batch {
    struct forward_job *jobs[FORWARD_BATCH_JOBS]; /* the one taken first, then its companions */
    size_t count;
};

static struct forward_job *forward_job_of(struct job *job)
{
    return (struct forward_job *)request_of_job(job)->work.base;
}

/* The job is about to be computed: decoded, within limits, still wanted, with memory for its results. */
static bool make_ready(struct forward_job *job)
{
    struct request *request = job->request;
    struct error *error = &job->error;
    request->timing.queue_us = forward_job_stage_us(job);
    return request_lapsed(request, true, error) == ERROR_NONE &&
           (job->prepared || (forward_job_prepare(job, error) && request_lapsed(request, true, error) == ERROR_NONE)) &&
           job->route->reserve(job, error);
}

/* A computation failed. Where it was cancelled, the deadline may be the reason. */
static void explain(struct forward_job *job)
{
    if (job->error.code == ERROR_CLIENT_GONE)
        request_lapsed(job->request, true, &job->error);
    job->failed = true;
}

/* Its forward, or the one it shared, is over. */
static void note_computed(struct forward_job *job, size_t batch)
{
    job->request->timing.compute_us = forward_job_stage_us(job);
    job->request->timing.batch = batch;
}

static void compute_alone(struct forward_job *job, struct job *taken)
{
    const struct parallel parallel = job_parallel(taken);
    if (!(job->route->compute ? job->route->compute(job, &parallel, &job->error)
                              : forward_job_run_forward(&job, 1, &parallel, &job->error)))
        explain(job);
    note_computed(job, 1);
}

/* Those that have not failed yet, together; where memory is short for that, one by one. */
static void compute(const struct batch *batch, struct job *taken)
{
    struct forward_job *ready[FORWARD_BATCH_JOBS];
    struct error error;
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (!batch->jobs[i]->failed)
            ready[count++] = batch->jobs[i];
    if (batch->count > 1)
        taken->cancelled = NULL; /* it is short, and not for one of them to end, nor for one that has failed */
    if (count > 1) {
        const struct parallel parallel = job_parallel(taken);
        if (forward_job_run_forward(ready, count, &parallel, &error)) {
            for (size_t i = 0; i < count; i++)
                note_computed(ready[i], count);
            return;
        }
    }
    for (size_t i = 0; i < count; i++)
        compute_alone(ready[i], taken);
}

void forward_batch_run(struct job *taken, enum job_end end)
{
    struct batch batch = {.jobs = {forward_job_of(taken)}, .count = 1};
    struct forward_job *own = batch.jobs[0];
    if (end == JOB_DROPPED) {
        own->failed = !error_set(&own->error, ERROR_DRAINING,
                                 "the server is stopping, and this request's work had not begun; send it to another "
                                 "replica");
        forward_job_finish(own);
        return;
    }
    for (struct job *companion = job_take_companions(taken); companion; companion = companion->next)
        batch.jobs[batch.count++] = forward_job_of(companion);
    for (size_t i = 0; i < batch.count; i++)
        batch.jobs[i]->failed = !make_ready(batch.jobs[i]);
    job_yield(taken);
    compute(&batch, taken);
    job_yield(taken);
    /* The one that was taken is the last to go: the others are computed in its name. */
    while (batch.count > 0)
        forward_job_finish(batch.jobs[--batch.count]);
}
