/* Posted or computed maps, for the routes that analyse them. */
#include "server/maps_job.h"

#include "analysis/head_maps_check.h"

bool maps_job_decoded(struct maps_job *job, struct analysis_request *asked, struct error *error)
{
    job->asked = asked;
    job->forward.asked = &asked->forward;
    if (!analysis_request_has_maps(asked))
        return true;
    job->forward.posted = true;
    return analysis_request_check_maps(asked, &job->forward.input, &job->extent, error);
}

void maps_job_begin(struct maps_job *job)
{
    const struct forward_request *asked = &job->asked->forward;
    struct forward_result *result = &job->forward.result;
    if (job->forward.posted)
        return;
    forward_job_leave_dropout_out(&job->forward, &job->rules);
    job->extent.num_heads = asked->include_heads ? asked->n_include_heads : job->forward.shape->num_heads;
    result->include_heads = asked->include_heads;
    result->n_maps = job->extent.num_heads;
}

size_t maps_job_layers(const struct maps_job *job)
{
    return job->extent.num_layers ? job->extent.num_layers : 1;
}

size_t maps_job_heads(const struct maps_job *job)
{
    return job->asked->forward.include_heads ? job->asked->forward.n_include_heads : job->extent.num_heads;
}

const uint32_t *maps_job_selection(const struct maps_job *job)
{
    return job->forward.posted ? job->asked->forward.include_heads : NULL;
}

double maps_job_flop(const struct maps_job *job)
{
    return job->forward.posted ? 0 : forward_flop(job->forward.shape, &job->forward.input);
}

const char *maps_job_weights(const struct maps_job *job)
{
    return job->forward.set ? job->forward.set->name : NULL;
}

const char *maps_job_digest(const struct maps_job *job)
{
    return job->forward.set ? job->forward.set->digest : NULL;
}

bool maps_job_reserve(struct maps_job *job, const struct arena_piece *buffers, size_t count, struct error *error)
{
    struct forward_job *forward = &job->forward;
    const struct forward_input *input = &forward->input;
    const struct arena_piece maps = {&forward->result.attention,
                                     {input->batch, job->extent.num_heads, input->query_length, input->key_length},
                                     sizeof(float),
                                     !forward->posted};
    size_t bytes = 0;
    if (!arena_pieces(&maps, 1, NULL, &bytes) || !arena_pieces(buffers, count, NULL, &bytes))
        return forward_job_too_large(error);
    return forward_job_take_results(forward, bytes, error) && arena_pieces(&maps, 1, &forward->results, &bytes) &&
           arena_pieces(buffers, count, &forward->results, &bytes);
}

bool maps_job_run(struct maps_job *job, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->forward;
    const float *weights = forward->posted ? job->asked->attention.data : forward->result.attention;
    if (!forward->posted && !forward_job_run_forward(&forward, 1, parallel, error))
        return false;
    job->maps = analysis_request_maps(job->asked, &forward->input, weights, &job->extent);
    job->maps.watched = parallel;
    bool stray = false;
    for (size_t layer = 0; layer < maps_job_layers(job); layer++) {
        job->maps.layer = layer;
        if (!head_maps_check(&job->maps, analysis_request_tolerance(job->asked), parallel, error))
            return false;
        stray |= job->maps.stray;
    }
    job->maps.layer = 0;
    job->maps.stray = stray;
    return true;
}
