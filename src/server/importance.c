/* POST /v1/heads/importance: a forward whose heads are then ablated one by one. */
#include "server/endpoints.h"

#include "analysis/importance.h"
#include "codec/importance_answer.h"
#include "codec/importance_request.h"
#include "server/forward_job.h"

struct importance_job {
    struct forward_job forward;
    struct importance_request asked;
    struct importance found;      /* points into forward.results */
    struct attention_rules rules; /* of the forward, where dropout is left out of them */
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

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    const struct attention_shape *shape = forward->shape;
    forward_job_leave_dropout_out(forward, &job->rules);
    forward->flop = forward_flop(shape, &forward->input) +
                    importance_flop(shape, &forward->input, job->asked.method, job->asked.prune_plan);
    if (!forward_job_check_flop(forward, error))
        return false;
    const bool counted =
        importance_answer_bytes(&job->asked, shape->num_heads, forward->set->name, &forward->answer_bytes);
    return forward_job_check_answer(forward, counted, "leave prune_plan out, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    const struct attention_shape *shape = forward->shape;
    const struct forward_input *in = &forward->input;
    struct forward_result *result = &forward->result;
    const size_t heads = shape->num_heads;
    const enum importance_method method = job->asked.method;
    const struct arena_piece buffers[] = {
        {&result->heads, {in->batch, heads, in->query_length, shape->d_v}, sizeof(float), true},
        {&result->output,
         {in->batch, in->query_length, shape->d_model, 1},
         sizeof(float),
         importance_needs_output(method)},
        {&result->value, {in->batch, heads, in->key_length, shape->d_v}, sizeof(float), importance_needs_value(method)},
        {&result->heads_used,
         {in->batch, heads, 1, 1},
         sizeof *result->heads_used,
         in->rules && in->rules->keep_heads.kind != KEEP_ALL_HEADS},
        {&job->found.importance, {heads, 1, 1, 1}, sizeof(double), true},
        {&job->found.plan, {heads, 1, 1, 1}, sizeof(struct prune_step), job->asked.prune_plan},
    };
    const size_t count = sizeof buffers / sizeof *buffers;
    size_t bytes = 0;
    result->n_maps = heads;
    if (!arena_pieces(buffers, count, NULL, &bytes))
        return forward_job_too_large(error);
    return forward_job_take_results(forward, bytes, error) && arena_pieces(buffers, count, &forward->results, &bytes);
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct importance_job *job = importance_job_of(forward);
    const struct forward_input *input = &forward->input;
    struct forward_scratch scratch;
    if (!forward_job_run_forward(&forward, 1, parallel, error) ||
        !forward_job_take_scratch(forward,
                                  importance_scratch_bytes(forward->shape, input, job->asked.method,
                                                           job->asked.prune_plan, parallel->lanes, &scratch.bytes),
                                  &scratch, error))
        return false;
    bool computed = importance_run(forward->layer, input, job->asked.method, &forward->result, parallel,
                                   &scratch.arena, &job->found, error);
    forward_job_give_scratch(forward, &scratch);
    return computed;
}

static bool encode(const struct forward_job *forward, struct text *text, struct error *error)
{
    const struct importance_job *job = importance_job_of(forward);
    const struct weight_set *set = forward->set;
    return importance_answer_encode(&job->asked, set->shape.num_heads, &job->found, set->name, set->digest, text,
                                    error);
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
