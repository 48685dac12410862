/* The common part of jobs that run a forward. Memory is charged before it is taken, the body and what it may decode to
 * first; what can never fit is 413, what does not fit now 429. Entered by the worker that runs the job. */
#include "server/forward_job.h"

#include "base/clock.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

double forward_job_stage_us(struct forward_job *job)
{
    uint64_t now = clock_ns(), began = job->stage_began;
    job->stage_began = now;
    return (double)(now - began) / 1e3;
}

bool forward_job_take(struct forward_job *job, size_t bytes, struct error *error)
{
    return budget_take(job->request->server->parts.budget, &job->request->share, bytes, error);
}

void forward_job_give(struct forward_job *job, size_t bytes)
{
    budget_give(job->request->server->parts.budget, &job->request->share, bytes);
}

static bool still_wanted(struct forward_job *job, struct error *error)
{
    return request_lapsed(job->request, true, error) == ERROR_NONE;
}

/* Decodes the body, drops it, finds the weight set and checks the request against it: set and input are filled. */
static bool decode_body(struct forward_job *job, const struct forward_stages *stages, struct error *error)
{
    struct request *request = job->request;
    size_t bytes = forward_request_decoded_bytes(request->body_length);
    if (!forward_job_take(job, bytes, error))
        return false;
    if (!arena_reserve(&job->decoded, bytes))
        return error_out_of_memory(error);
    bool decoded = stages->decode(job, request->body, request->body_length, error);
    /* Of memory that was never touched there is none. */
    forward_job_give(job, bytes - size_min(bytes, job->decoded.used));
    request_drop_body(request);
    if (!decoded)
        return false;
    job->set = registry_find(request->server->parts.registry, job->asked->weights, error);
    if (!job->set)
        return false;
    request->weights = strdup(job->set->name);
    if (!request->weights)
        return error_out_of_memory(error);
    return forward_request_check(job->asked, &job->set->shape, &job->input, error);
}

bool forward_job_check_flop(const struct forward_job *job, double flop, struct error *error)
{
    const double limit = job->request->server->parts.config->limits.max_request_gflop, gflop = flop / 1e9;
    if (gflop > limit)
        return error_set(error, ERROR_TOO_LARGE,
                         "this is %.6g Gflop of work, over limits.max_request_gflop (%g); ask for less at once", gflop,
                         limit);
    return true;
}

bool forward_job_check_answer(const struct forward_job *job, size_t bytes, const char *remedy, struct error *error)
{
    const struct config *config = job->request->server->parts.config;
    if (bytes > (size_t)config->limits.max_response_bytes)
        return error_set(error, ERROR_TOO_LARGE,
                         "the answer would take up to %zu bytes, over limits.max_response_bytes (%lld); %s", bytes,
                         (long long)config->limits.max_response_bytes, remedy);
    return true;
}

bool forward_job_reserve(struct forward_job *job, size_t result_bytes, size_t scratch_bytes, struct error *error)
{
    if (!forward_job_take(job, result_bytes, error) || !forward_job_take(job, scratch_bytes, error))
        return false;
    if (!arena_reserve(&job->results, result_bytes) ||
        !arena_store_take(job->request->server->parts.arenas, scratch_bytes, &job->scratch))
        return error_out_of_memory(error);
    return true;
}

bool forward_job_failed(struct forward_job *job, struct error *error)
{
    if (error->code == ERROR_CLIENT_GONE)
        request_lapsed(job->request, true, error); /* the deadline may be the reason */
    return false;
}

bool forward_job_compute(struct forward_job *job, const struct parallel *parallel, struct error *error)
{
    const struct forward_input *input = &job->input;
    struct forward_result *result = &job->result;
    return forward_run(job->set->layers[0], &input, &result, 1, parallel, &job->scratch, error) ||
           forward_job_failed(job, error);
}

bool forward_job_reserve_text(struct forward_job *job, size_t bytes, struct error *error)
{
    if (!forward_job_take(job, bytes, error))
        return false;
    return text_reserve(&job->text, bytes) || error_out_of_memory(error);
}

void forward_job_trim_text(struct forward_job *job, size_t bytes)
{
    char *shrunk = realloc(job->text.data, job->text.length);
    if (shrunk) {
        job->text.data = shrunk;
        forward_job_give(job, bytes - size_min(bytes, job->text.length));
    }
}

static bool run_stages(struct forward_job *job, struct job *queued, const struct forward_stages *stages,
                       struct error *error)
{
    struct timing *timing = &job->request->timing;
    size_t answer_bytes;
    bool decoded =
        still_wanted(job, error) && decode_body(job, stages, error) && stages->within_limits(job, &answer_bytes, error);
    timing->parse_us = forward_job_stage_us(job);
    if (!decoded || !still_wanted(job, error))
        return false;
    bool computed = stages->compute(job, queued, error);
    timing->compute_us = forward_job_stage_us(job);
    return computed && still_wanted(job, error) && stages->encode(job, answer_bytes, error);
}

void forward_job_run(struct forward_job *job, struct job *queued, enum job_end end, const struct forward_stages *stages)
{
    struct request *request = job->request;
    struct error error;
    job->stage_began = request->submitted;
    request->timing.queue_us = forward_job_stage_us(job);
    if (end == JOB_DROPPED) {
        error_set(&error, ERROR_DRAINING,
                  "the server is stopping, and this request's work had not begun; send it to another replica");
        request_fail(request, &error);
    } else if (run_stages(job, queued, stages, &error)) {
        job->kept = job->text.length;
        request_succeed(request, "application/json", job->text.data, job->text.length);
        job->text = (struct text){0};
    } else {
        request_fail(request, &error);
    }
}

void forward_job_end(struct forward_job *job)
{
    struct request *request = job->request;
    arena_free(&job->decoded);
    arena_free(&job->results);
    arena_store_put(request->server->parts.arenas, &job->scratch);
    text_free(&job->text);
    request_drop_body(request);
    /* Only the answer is held from here on. */
    forward_job_give(job, request->share.bytes - size_min(job->kept, request->share.bytes));
    request_resume(request);
}
