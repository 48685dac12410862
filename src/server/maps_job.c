/* Posted or computed maps, for the routes that analyse them. */
#include "server/maps_job.h"

#include "analysis/head_maps_check.h"
#include "base/size.h"
#include "engine/model_run.h"

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
    const size_t layers = job->forward.input.num_layers;
    if (job->forward.posted)
        return;
    forward_job_leave_dropout_out(&job->forward, &job->rules);
    /* a model of one layer is answered as a bare one */
    job->extent.num_layers = layers > 1 ? forward_request_layers(asked, layers) : 0;
    job->extent.num_heads = asked->include_heads ? asked->n_include_heads : job->forward.shape->num_heads;
    result->include_heads = asked->include_heads;
    result->n_maps = job->extent.num_heads;
}

size_t maps_job_layers(const struct maps_job *job)
{
    return size_max(job->extent.num_layers, 1);
}

size_t maps_job_heads(const struct maps_job *job)
{
    return job->asked->forward.include_heads ? job->asked->forward.n_include_heads : job->extent.num_heads;
}

const uint32_t *maps_job_selection(const struct maps_job *job)
{
    return job->forward.posted ? job->asked->forward.include_heads : NULL;
}

static bool is_model(const struct maps_job *job)
{
    return !job->forward.posted && job->forward.model;
}

double maps_job_flop(const struct maps_job *job)
{
    return job->forward.posted ? 0 : forward_job_flop(&job->forward);
}

const char *maps_job_weights(const struct maps_job *job)
{
    return job->forward.set ? job->forward.set->name : NULL;
}

const char *maps_job_digest(const struct maps_job *job)
{
    return job->forward.set ? job->forward.set->digest : NULL;
}

bool maps_job_reserve(struct maps_job *job, bool at_once, const struct arena_piece *buffers, size_t count,
                      struct error *error)
{
    struct forward_job *forward = &job->forward;
    const struct forward_input *input = &forward->input;
    size_t bytes = 0, planes;
    if (!size_multiply(input->batch, at_once ? maps_job_layers(job) : 1, &planes))
        return forward_job_too_large(error);
    const struct arena_piece maps = {&forward->result.attention,
                                     {planes, job->extent.num_heads, input->query_length, input->key_length},
                                     sizeof(float),
                                     !forward->posted};
    forward->result.each_layer = !at_once;
    forward->result.n_layers = is_model(job) ? (at_once ? maps_job_layers(job) : 1) : 0;
    forward->result.include_layers = is_model(job) && at_once ? job->asked->forward.include_layers : NULL;
    if (!arena_pieces(&maps, 1, NULL, &bytes) || !arena_pieces(buffers, count, NULL, &bytes))
        return forward_job_too_large(error);
    return forward_job_take_results(forward, bytes, error) && arena_pieces(&maps, 1, &forward->results, &bytes) &&
           arena_pieces(buffers, count, &forward->results, &bytes);
}

/* ---- computing */

/* job->maps before any layer was looked at. */
static void set_maps(struct maps_job *job, const struct parallel *parallel)
{
    const struct forward_job *forward = &job->forward;
    const float *weights = forward->posted ? job->asked->attention.data : forward->result.attention;
    job->maps = analysis_request_maps(job->asked, &forward->input, weights, &job->extent);
    job->maps.watched = parallel;
}

void maps_job_look_at(struct maps_job *job, size_t place)
{
    const struct forward_job *forward = &job->forward;
    const size_t layer = forward_request_layer(&job->asked->forward, place);
    job->maps.layer = layer;
    if (!is_model(job))
        return;
    job->layer_input = model_layer_input(forward_job_model(forward), layer, &forward->input, &job->layer_rules);
    job->maps.rule = &job->layer_input;
    if (!job->extent.num_layers)
        return;
    job->maps.layer = forward->result.each_layer ? 0 : place;
    job->maps.first_layer = layer - job->maps.layer;
    if (forward->result.each_layer) /* they are all that is there */
        job->maps.num_layers = 1;
}

static bool check_maps(struct maps_job *job, const struct parallel *parallel, struct error *error)
{
    return head_maps_check(&job->maps, analysis_request_tolerance(job->asked), parallel, error);
}

bool maps_job_run(struct maps_job *job, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->forward;
    bool stray = false;
    if (!forward->posted && !forward_job_run_forward(&forward, 1, parallel, error))
        return false;
    set_maps(job, parallel);
    for (size_t place = 0; place < maps_job_layers(job); place++) {
        maps_job_look_at(job, place);
        if (!check_maps(job, parallel, error))
            return false;
        stray |= job->maps.stray;
    }
    job->maps.stray = stray;
    maps_job_look_at(job, 0);
    return true;
}

/* A walk over the layers. */
struct walk {
    struct maps_job *job;
    maps_visitor *visit;
    const struct parallel *parallel;
};

static bool visit_place(const struct walk *walk, size_t place, struct error *error)
{
    maps_job_look_at(walk->job, place);
    return check_maps(walk->job, walk->parallel, error) && walk->visit(walk->job, place, walk->parallel, error);
}

static bool visit_layer(void *context, size_t layer, struct error *error)
{
    const struct walk *walk = context;
    const size_t place = forward_request_layer_place(&walk->job->asked->forward, layer);
    return place == SIZE_MAX || visit_place(walk, place, error);
}

bool maps_job_each(struct maps_job *job, maps_visitor *visit, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->forward;
    struct walk walk = {job, visit, parallel};
    const struct forward_observer observer = {.layer = visit_layer, .context = &walk};
    if (is_model(job)) {
        set_maps(job, parallel);
        return forward_job_run_layers(forward, &observer, parallel, error);
    }
    if (!forward->posted && !forward_job_run_forward(&forward, 1, parallel, error))
        return false;
    set_maps(job, parallel);
    for (size_t place = 0; place < maps_job_layers(job); place++)
        if (!visit_place(&walk, place, error))
            return false;
    return true;
}
