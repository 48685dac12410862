/* POST /v1/heads/importance: a forward whose heads are then ablated one by one. */
#include "server/endpoints.h"

#include "analysis/importance.h"
#include "analysis/model_importance.h"
#include "base/size.h"
#include "codec/importance_answer.h"
#include "codec/importance_request.h"
#include "server/forward_job.h"

struct importance_job {
    struct forward_job forward;
    struct importance_request asked;
    struct importance_found found; /* points into forward.results */
    struct attention_rules rules;  /* of the forward, where dropout is left out of them */
};

static struct importance_job *importance_job_of(const struct forward_job *job)
{
    return (struct importance_job *)job; /* its first member */
}

static bool decode(struct forward_job *forward, const struct request_body *body, struct arena *arena,
                   struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    forward->asked = &job->asked.forward;
    return importance_request_decode(body, arena, &job->asked, error);
}

/* A set that is a bare layer is asked by its output, which is that of its layer. */
static bool is_at_model(const struct importance_job *job)
{
    return job->forward.model && job->asked.at == IMPORTANCE_AT_MODEL;
}

static size_t all_layers(const struct importance_job *job)
{
    return size_max(job->forward.input.num_layers, 1);
}

/* Those whose heads are measured. */
static struct measured_layers measured_layers(const struct importance_job *job)
{
    const struct forward_request *asked = &job->asked.forward;
    return (struct measured_layers){asked->include_layers, forward_request_layers(asked, all_layers(job))};
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    const struct attention_shape *shape = forward->shape;
    const struct model_shape *model = forward_job_model(forward);
    const struct measured_layers layers = measured_layers(job);
    size_t heads;
    forward_job_leave_dropout_out(forward, &job->rules);
    job->found.num_layers = forward->input.num_layers > 1 ? layers.n_layers : 0;
    job->found.num_heads = shape->num_heads;
    forward->flop =
        forward_job_flop(forward) +
        (is_at_model(job) ? model_importance_flop(model, &forward->input, &layers)
                          : (double)layers.n_layers *
                                importance_flop(shape, &forward->input, job->asked.method, job->asked.prune_plan));
    if (!forward_job_check_flop(forward, error))
        return false;
    const bool counted = size_multiply(layers.n_layers, shape->num_heads, &heads) &&
                         importance_answer_bytes(&job->asked, heads, forward->set->name, &forward->answer_bytes);
    return forward_job_check_answer(
        forward, counted, "leave prune_plan out, name fewer layers with include_layers, or raise the setting", error);
}

/* Of a model the tensors of one layer lie there at a time; the layers' input and output, where they are measured by the
 * model's. */
static bool reserve(struct forward_job *forward, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    const struct attention_shape *shape = forward->shape;
    const struct forward_input *in = &forward->input;
    struct forward_result *result = &forward->result;
    const size_t heads = shape->num_heads, layers = all_layers(job), measured = measured_layers(job).n_layers;
    const enum importance_method method = job->asked.method;
    const bool at_model = is_at_model(job), model = forward->model;
    const struct arena_piece buffers[] = {
        {&result->heads, {in->batch, heads, in->query_length, shape->d_v}, sizeof(float), !at_model},
        {&result->output,
         {in->batch, in->query_length, shape->d_model, 1},
         sizeof(float),
         at_model || (!model && importance_needs_output(method))},
        {&result->hidden_states, {in->batch, layers + 1, in->query_length, shape->d_model}, sizeof(float), at_model},
        {&result->value, {in->batch, heads, in->key_length, shape->d_v}, sizeof(float), importance_needs_value(method)},
        {&result->heads_used,
         {in->batch, heads, 1, 1},
         sizeof *result->heads_used,
         !at_model && in->rules && in->rules->keep_heads.kind != KEEP_ALL_HEADS},
        {&job->found.importance.importance, {measured, heads, 1, 1}, sizeof(double), true},
        {&job->found.importance.plan, {measured, heads, 1, 1}, sizeof(struct prune_step), job->asked.prune_plan},
    };
    const size_t count = sizeof buffers / sizeof *buffers;
    size_t bytes = 0;
    result->n_maps = heads;
    result->each_layer = model;
    result->n_layers = model;
    result->n_states = layers + 1;
    if (!arena_pieces(buffers, count, NULL, &bytes))
        return forward_job_too_large(error);
    return forward_job_take_results(forward, bytes, error) && arena_pieces(buffers, count, &forward->results, &bytes);
}

/* Measures the heads of a layer, whose tensors are there. */
static bool measure(struct importance_job *job, const struct attention_layer *layer, const struct forward_input *input,
                    size_t place, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->forward;
    struct importance *all = &job->found.importance;
    const size_t first = place * job->found.num_heads;
    struct importance found = {.importance = all->importance + first,
                               .plan = job->asked.prune_plan ? all->plan + first : NULL};
    struct forward_scratch scratch;
    if (!forward_job_take_scratch(forward,
                                  importance_scratch_bytes(forward->shape, input, job->asked.method,
                                                           job->asked.prune_plan, parallel->lanes, &scratch.bytes),
                                  &scratch, error))
        return false;
    const bool computed =
        importance_run(layer, input, job->asked.method, &forward->result, parallel, &scratch.arena, &found, error);
    forward_job_give_scratch(forward, &scratch);
    if (computed && found.n_rows >= all->n_rows) {
        all->n_rows = found.n_rows;
        all->n_excluded = found.n_excluded;
    }
    return computed;
}

/* A walk over the layers. */
struct walk {
    struct importance_job *job;
    const struct parallel *parallel;
};

static bool measure_layer(void *context, size_t layer, struct error *error)
{
    const struct walk *walk = context;
    const struct forward_job *forward = &walk->job->forward;
    const size_t place = forward_request_layer_place(forward->asked, layer);
    struct attention_rules rules;
    if (place == SIZE_MAX)
        return true;
    const struct forward_input input = model_layer_input(forward_job_model(forward), layer, &forward->input, &rules);
    if (!measure(walk->job, model_attention(forward->model, layer), &input, place, walk->parallel, error))
        return error->code == ERROR_NOT_FINITE ? error_precede(error, "layer %zu: ", layer) : false;
    return true;
}

static bool measure_model(struct importance_job *job, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->forward;
    const struct model *model = forward->model;
    const struct measured_layers layers = measured_layers(job);
    struct model_importance found = {.importance = job->found.importance.importance};
    struct forward_scratch scratch;
    if (!forward_job_run_layers(forward, NULL, parallel, error) ||
        !forward_job_take_scratch(
            forward, model_importance_bytes(model_shape_of(model), &forward->input, parallel->lanes, &scratch.bytes),
            &scratch, error))
        return false;
    const bool computed = model_importance_run(model, &forward->input, &forward->result, &layers, parallel,
                                               &scratch.arena, &found, error);
    forward_job_give_scratch(forward, &scratch);
    job->found.importance.n_rows = found.n_rows;
    job->found.importance.n_excluded = found.n_excluded;
    return computed;
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    struct walk walk = {job, parallel};
    const struct forward_observer observer = {.layer = measure_layer, .context = &walk};
    if (is_at_model(job))
        return measure_model(job, parallel, error);
    if (forward->model)
        return forward_job_run_layers(forward, &observer, parallel, error);
    return forward_job_run_forward(&forward, 1, parallel, error) &&
           measure(job, forward->layer, &forward->input, 0, parallel, error);
}

static bool encode(const struct forward_job *forward, struct text *text, struct error *error)
{
    const struct importance_job *job = importance_job_of(forward);
    return importance_answer_encode(&job->asked, &job->found, forward->set->name, forward->set->digest, text, error);
}

void importance_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct importance_job),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = reserve,
        .compute = compute,
        .encode = encode,
    };
    forward_job_begin(request, &route);
}
