/* POST /v1/forward. */
#include "server/endpoints.h"

#include "base/size.h"
#include "codec/forward_answer.h"
#include "codec/forward_tensors.h"
#include "server/forward.h"

struct forward_call {
    struct forward_job job;
    struct forward_request asked;
};

static bool decode(struct forward_job *job, const struct request_body *body, struct arena *arena, struct error *error)
{
    struct forward_call *call = (struct forward_call *)job;
    job->asked = &call->asked;
    if (!forward_request_decode(body, arena, &call->asked, error))
        return false;
    if (job->request->accepted == MEDIA_SAFETENSORS)
        call->asked.encoding = ENCODING_SAFETENSORS;
    return true;
}

/* The functions of a form of the answer: forward_answer.h has what they do. */
struct forward_form {
    bool (*bytes)(const struct forward_request *request, const struct attention_shape *shape,
                  const struct forward_input *problem, size_t *bytes, struct error *error);
    size_t (*memory)(const struct forward_request *request, const struct attention_shape *shape,
                     const struct forward_input *problem);
    bool (*compose)(const struct forward_request *request, const struct attention_shape *shape,
                    const struct forward_input *problem, const struct forward_result *result,
                    const struct approximation *approximation, const char *weights, const char *digest,
                    const struct forward_timing *timing, const struct parallel *parallel, struct arena *arena,
                    struct answer_pieces *pieces, struct error *error);
};

static const struct forward_form *form_of(const struct forward_job *job)
{
    static const struct forward_form json = {forward_answer_bytes, forward_answer_memory, forward_answer_compose},
                                     tensors = {forward_tensors_bytes, forward_tensors_memory, forward_tensors_compose};
    return job->asked->encoding == ENCODING_SAFETENSORS ? &tensors : &json;
}

static bool within_limits(struct forward_job *job, struct error *error)
{
    job->flop = forward_job_flop(job);
    return forward_job_check_flop(job, error) &&
           form_of(job)->bytes(job->asked, job->shape, &job->input, &job->answer_bytes, error) &&
           forward_job_check_answer(
               job, true,
               "ask for less with return, include_layers, include_heads, top_k or encoding, or raise the setting",
               error);
}

/* The results: those that are returned by name, and those that come with what the rules do. */
enum { RESULT_OUTPUT_STD = FORWARD_RETURN_COUNT, RESULT_HEADS_USED, RESULT_COUNT };

bool forward_reserve(struct forward_job *job, struct error *error)
{
    const struct attention_shape *shape = job->shape;
    const struct forward_input *in = &job->input;
    struct forward_result *result = &job->result;
    const size_t n_maps = job->asked->include_heads ? job->asked->n_include_heads : shape->num_heads;
    /* A bare layer's tensors have no layer axis; a model's stand behind that of the batch. */
    const size_t all_layers = size_max(in->num_layers, 1), layers = forward_request_layers(job->asked, all_layers);
    size_t planes, all_planes;
    const struct attention_rules *rules = in->rules;
    const bool samples = rules && rules->dropout.samples, chooses = rules && rules->keep_heads.kind != KEEP_ALL_HEADS;
    if (!size_multiply(in->batch, layers, &planes) || !size_multiply(in->batch, all_layers, &all_planes))
        return error_set(error, ERROR_TOO_LARGE, "the answer's tensors are larger than any memory");
    struct arena_piece buffers[RESULT_COUNT] = {
        [RETURN_OUTPUT_INDEX] = {.piece = &result->output, .shape = {in->batch, in->query_length, shape->d_model, 1}},
        [RETURN_ATTENTION_INDEX] = {.piece = &result->attention,
                                    .shape = {planes, n_maps, in->query_length, forward_map_columns(in)}},
        [RETURN_HEADS_INDEX] = {.piece = &result->heads, .shape = {planes, n_maps, in->query_length, shape->d_v}},
        [RETURN_QUERY_INDEX] = {.piece = &result->query,
                                .shape = {planes, shape->num_heads, in->query_length, shape->d_k}},
        [RETURN_KEY_INDEX] = {.piece = &result->key, .shape = {planes, shape->num_heads, in->key_length, shape->d_k}},
        [RETURN_VALUE_INDEX] = {.piece = &result->value,
                                .shape = {planes, shape->num_heads, in->key_length, shape->d_v}},
        [RETURN_HIDDEN_STATES_INDEX] = {.piece = &result->hidden_states,
                                        .shape = {in->batch, all_layers + 1, in->query_length, shape->d_model}},
        [RESULT_OUTPUT_STD] = {&result->output_std,
                               {in->batch, in->query_length, shape->d_model, 1},
                               sizeof(float),
                               samples && job->asked->returned & RETURN_OUTPUT},
        [RESULT_HEADS_USED] = {&result->heads_used, {all_planes, shape->num_heads, 1, 1}, sizeof(uint8_t), chooses},
    };
    size_t bytes = 0;
    for (unsigned i = 0; i < FORWARD_RETURN_COUNT; i++) {
        buffers[i].element = sizeof(float);
        buffers[i].wanted = job->asked->returned >> i & 1;
    }
    result->n_maps = n_maps;
    result->include_heads = job->asked->include_heads;
    if (in->num_layers) {
        result->n_layers = layers;
        result->include_layers = job->asked->include_layers;
    }
    result->n_states = all_layers + 1;
    if (!arena_pieces(buffers, RESULT_COUNT, NULL, &bytes))
        return error_set(error, ERROR_TOO_LARGE, "the answer's tensors are larger than any memory");
    return forward_job_take_results(job, bytes, error) && arena_pieces(buffers, RESULT_COUNT, &job->results, &bytes);
}

static size_t compose_bytes(const struct forward_job *job)
{
    return form_of(job)->memory(job->asked, job->shape, &job->input);
}

static bool compose(struct forward_job *job, const struct parallel *parallel, struct arena *arena,
                    struct answer_pieces *pieces, struct error *error)
{
    const struct timing *timing = &job->request->timing;
    const struct forward_timing told = {
        .parse_us = timing->parse_us, .queue_us = timing->queue_us, .compute_us = timing->compute_us};
    return form_of(job)->compose(job->asked, job->shape, &job->input, &job->result, forward_job_approximation(job),
                                 job->set->name, job->set->digest, &told, parallel, arena, pieces, error);
}

void forward_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct forward_call),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = forward_reserve,
        .compose_bytes = compose_bytes,
        .compose = compose,
    };
    forward_job_begin(request, &route);
}
