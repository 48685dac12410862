/* From a job taken to the answers of its batch. Entered by workers; on JOB_DROPPED by the thread that stops the server.
 */
#include "server/forward_batch.h"

#include "base/clock.h"
#include "server/forward_job.h"

/* The jobs of one batch that are to be computed. */
struct batch {
    struct forward_job *own; /* the one that was taken: the others are computed in its name, so it ends last */
    struct forward_job *jobs[FORWARD_BATCH_JOBS], *later[FORWARD_BATCH_JOBS]; /* later: memory is short for them now */
    size_t count, n_later;
    const struct parallel *parallel;
    struct job *taken; /* own's */
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
    const uint64_t now = request->submitted ? clock_ns() : job->stage_began; /* not queued, it has not waited */
    request->timing.queue_began = job->stage_began;
    request->timing.queue_us = forward_job_stage_us(job, now);
    return request_lapsed(request, now, request->submitted != 0, error) == ERROR_NONE &&
           (job->prepared ||
            (forward_job_prepare(job, error) && job_learn(&request->job, forward_job_expected_flop(job), error) &&
             request_lapsed(request, job->stage_began, true, error) == ERROR_NONE)) &&
           job->route->reserve(job, error);
}

/* A computation failed. Where it was cancelled, the deadline may be the reason. */
static void explain(struct forward_job *job)
{
    if (job->error.code == ERROR_CLIENT_GONE)
        request_lapsed(job->request, clock_ns(), true, &job->error);
    job->failed = true;
}

/* Its forward, or the one it shared, is over. `leads`: where batches are counted, it stands for this one. */
static void note_computed(struct forward_job *job, size_t batch, bool leads)
{
    job->request->timing.leads_batch = leads;
    job->request->timing.compute_began = job->stage_began;
    job->request->timing.compute_us = forward_job_stage_us(job, clock_ns());
    job->request->timing.batch = batch;
}

/* A job is not computed, or not to its end. */
static void give_up(const struct batch *batch, const struct forward_job *job)
{
    job_forgo(batch->taken, &job->request->job);
}

static void compute_alone(const struct batch *batch, struct forward_job *job)
{
    if (!(job->route->compute ? job->route->compute(job, batch->parallel, &job->error)
                              : forward_job_run_forward(&job, 1, batch->parallel, &job->error))) {
        explain(job);
        give_up(batch, job);
    }
    note_computed(job, 1, !job->failed);
}

/* A job is over. What it holds is the next one's, unless it is the one that was taken. */
static void finish(const struct batch *batch, struct forward_job *job)
{
    if (job != batch->own)
        forward_job_finish(job, batch->parallel);
}

static void add(struct batch *batch, struct forward_job *job)
{
    job->failed = !make_ready(job);
    if (!job->failed)
        batch->jobs[batch->count++] = job;
    else if (job->error.code == ERROR_BUDGET_FULL)
        batch->later[batch->n_later++] = job;
    else {
        give_up(batch, job);
        finish(batch, job);
    }
}

static bool compute_together(const struct batch *batch)
{
    struct error error;
    if (batch->count < 2 || !forward_job_run_forward(batch->jobs, batch->count, batch->parallel, &error))
        return false;
    for (size_t i = 0; i < batch->count; i++)
        note_computed(batch->jobs[i], batch->count, i == 0);
    return true;
}

void forward_batch_run(struct job *taken, enum job_end end)
{
    const struct parallel parallel = job_parallel(taken);
    struct batch batch = {.own = forward_job_of(taken), .parallel = &parallel, .taken = taken};
    if (end == JOB_DROPPED) {
        batch.own->failed = !request_dropped(&batch.own->error);
        forward_job_finish(batch.own, &parallel);
        return;
    }
    struct job *companion = job_take_companions(taken);
    if (companion)
        taken->cancelled = NULL; /* a batch is short, and not for one of them to end */
    add(&batch, batch.own);
    while (companion) {
        struct job *next = companion->next;
        add(&batch, forward_job_of(companion));
        companion = next;
    }
    job_yield(taken);
    const bool together = compute_together(&batch);
    /* Where memory is short for that, one by one. */
    for (size_t i = batch.count; i-- > 0; finish(&batch, batch.jobs[i]))
        if (!together)
            compute_alone(&batch, batch.jobs[i]);
    while (batch.n_later > 0) { /* what the others held is free; the one that was taken came first */
        struct forward_job *job = batch.later[--batch.n_later];
        job->failed = !make_ready(job);
        if (!job->failed)
            compute_alone(&batch, job);
        else
            give_up(&batch, job);
        finish(&batch, job);
    }
    job_yield(taken);
    forward_job_finish(batch.own, &parallel);
}
