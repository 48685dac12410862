/* The forwards of jobs, with what is observed or compared beside. Entered by whoever runs the jobs. */
#include "server/forward_job.h"

#include "base/size.h"
#include "engine/bare_model.h"
#include "engine/model_compare.h"
#include "server/forward_batch.h"
#include "server/live_sets.h"

_Static_assert(FORWARD_BATCH_JOBS <= MODEL_MOST_INPUTS, "a model takes a batch of jobs");

/* The layer that full attention has, for compare. */
static const struct attention_layer *full_layer(const struct forward_job *job)
{
    return weight_set_layer(job->set, NULL);
}

double forward_job_flop(const struct forward_job *job)
{
    const struct model_shape *model = forward_job_model(job);
    if (model)
        return job->asked->compare ? model_compare_flop(model, weight_set_model(job->set), &job->input)
                                   : model_flop(model, &job->input);
    return job->asked->compare ? forward_compare_flop(job->shape, attention_layer_shape(full_layer(job)), &job->input)
                               : forward_flop(job->shape, &job->input);
}

/* The forwards of a call. */
struct forwards {
    const struct model *model;
    const struct attention_layer *layer; /* NULL: the model */
    bool states;                         /* the layer's hidden states are wanted: such a job is alone */
    const struct forward_input *inputs[FORWARD_BATCH_JOBS];
    struct forward_result *results[FORWARD_BATCH_JOBS];
    size_t count;
};

static struct forwards forwards_of(struct forward_job *const *jobs, size_t count)
{
    struct forwards forwards = {.model = jobs[0]->model, .layer = jobs[0]->layer, .count = count};
    forwards.states = forwards.layer && jobs[0]->result.hidden_states;
    for (size_t i = 0; i < count; i++) {
        jobs[i]->input.no_maps = !jobs[i]->result.attention;
        forwards.inputs[i] = &jobs[i]->input;
        forwards.results[i] = &jobs[i]->result;
    }
    return forwards;
}

static bool scratch_bytes(const struct forwards *f, unsigned lanes, size_t *bytes)
{
    if (!f->layer)
        return model_scratch_bytes(model_shape_of(f->model), f->inputs, f->count, lanes, bytes);
    return (f->states ? bare_model_bytes : forward_scratch_bytes)(attention_layer_shape(f->layer), f->inputs, f->count,
                                                                  lanes, bytes);
}

/* `observer`: NULL, or of what the inputs say. */
static bool run_observed(const struct forwards *f, const struct forward_observer *observer,
                         const struct parallel *parallel, struct arena *arena, struct error *error)
{
    if (!f->layer)
        return model_run(f->model, f->inputs, f->results, f->count, observer, parallel, arena, error);
    if (f->states)
        return bare_model_run(f->layer, f->inputs, f->results, f->count, observer, parallel, arena, error);
    return observer ? forward_run_observed(f->layer, f->inputs, f->results, f->count, observer, parallel, arena, error)
                    : forward_run(f->layer, f->inputs, f->results, f->count, parallel, arena, error);
}

static bool run_model_compared(struct forward_job *job, const struct parallel *parallel, struct error *error)
{
    const struct model *full = weight_set_model_under(job->set, NULL);
    struct forward_scratch scratch;
    job->input.no_maps = !job->result.attention;
    const bool counted =
        model_compare_bytes(forward_job_model(job), model_shape_of(full), &job->input, parallel->lanes, &scratch.bytes);
    if (!forward_job_take_scratch(job, counted, &scratch, error))
        return false;
    const bool computed = model_run_compared(job->model, full, &job->input, &job->result, parallel, &scratch.arena,
                                             &job->approximation, error);
    forward_job_give_scratch(job, &scratch);
    return computed;
}

static bool run_forward(struct forward_job *const *jobs, size_t count, bool observed, const struct parallel *parallel,
                        struct error *error)
{
    const struct forwards forwards = forwards_of(jobs, count);
    const struct model_shape *model = forward_job_model(jobs[0]);
    struct live_shape shape = {0};
    struct live_sums *sums[FORWARD_BATCH_JOBS];
    struct forward_scratch scratch;
    size_t observing = 0;
    bool computed;
    for (size_t i = 0; i < count; i++)
        sums[i] = &jobs[i]->live.sums;
    if (observed)
        shape = live_sets_shape(jobs[0]->set);
    const bool counted =
        scratch_bytes(&forwards, parallel->lanes, &scratch.bytes) &&
        (!observed || live_observer_bytes(model, shape, forwards.inputs, count, parallel->lanes, &observing)) &&
        size_add(scratch.bytes, observing, &scratch.bytes);
    if (!forward_job_take_scratch(jobs[0], counted, &scratch, error))
        return false;
    if (observed) {
        struct live_observer *observer =
            live_observer_create(model, shape, forwards.inputs, count, parallel->lanes, sums, &scratch.arena, error);
        const struct forward_observer interface = live_observer_interface(observer);
        computed = observer && run_observed(&forwards, &interface, parallel, &scratch.arena, error);
        if (computed)
            live_feed_take(jobs, count, observer);
    } else {
        computed = run_observed(&forwards, NULL, parallel, &scratch.arena, error);
    }
    forward_job_give_scratch(jobs[0], &scratch);
    return computed;
}

/* A job that is to be compared, alone: it is never observed. */
static bool run_compared(struct forward_job *job, const struct parallel *parallel, struct error *error)
{
    const struct attention_layer *full = full_layer(job);
    struct forward_scratch scratch;
    job->input.no_maps = !job->result.attention;
    const bool counted =
        forward_compare_bytes(job->shape, attention_layer_shape(full), &job->input, parallel->lanes, &scratch.bytes);
    if (!forward_job_take_scratch(job, counted, &scratch, error))
        return false;
    const bool computed = forward_run_compared(job->layer, full, &job->input, &job->result, parallel, &scratch.arena,
                                               &job->approximation, error);
    forward_job_give_scratch(job, &scratch);
    return computed;
}

bool forward_job_run_layers(struct forward_job *job, const struct forward_observer *observer,
                            const struct parallel *parallel, struct error *error)
{
    const struct forwards forwards = forwards_of(&job, 1);
    struct forward_scratch scratch;
    if (!forward_job_take_scratch(job, scratch_bytes(&forwards, parallel->lanes, &scratch.bytes), &scratch, error))
        return false;
    const bool computed = run_observed(&forwards, observer, parallel, &scratch.arena, error);
    forward_job_give_scratch(job, &scratch);
    return computed;
}

bool forward_job_run_forward(struct forward_job *const *jobs, size_t count, const struct parallel *parallel,
                             struct error *error)
{
    const bool observed = live_feed_choose(jobs, count);
    if (jobs[0]->asked->compare && jobs[0]->model)
        return run_model_compared(jobs[0], parallel, error);
    if (jobs[0]->asked->compare) /* which knows nothing of hidden states */
        return (!jobs[0]->result.hidden_states || run_forward(jobs, 1, false, parallel, error)) &&
               run_compared(jobs[0], parallel, error);
    if (observed) {
        if (run_forward(jobs, count, true, parallel, error))
            return true;
        if (error->code == ERROR_CLIENT_GONE)
            return false;
        /* Statistics are no reason to refuse anybody: where memory is short, it goes without. */
        live_feed_give_up(jobs, count);
    }
    return run_forward(jobs, count, false, parallel, error);
}
