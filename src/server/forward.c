/* POST /v1/forward: decode, check, compute, encode, as one job on a worker. */
#include "server/endpoints.h"

#include "base/size.h"
#include "codec/forward_answer.h"
#include "server/forward_job.h"

static bool decode(struct forward_job *job, const char *body, size_t length, struct error *error)
{
    return forward_request_decode(body, length, &job->decoded, job->asked, error);
}

static bool within_limits(struct forward_job *job, size_t *answer_bytes, struct error *error)
{
    return forward_job_check_flop(job, forward_flop(&job->set->shape, &job->input), error) &&
           forward_answer_bytes(job->asked, &job->set->shape, &job->input, answer_bytes, error) &&
           forward_job_check_answer(job, *answer_bytes,
                                    "ask for less with return, include_heads, top_k or encoding, or raise the setting",
                                    error);
}

/* The buffers of what was asked for, and their bytes. */
struct wanted {
    float **buffer;
    size_t bytes;
};

static bool list_wanted(struct forward_job *job, struct wanted wanted[FORWARD_RETURN_COUNT], size_t *total,
                        struct error *error)
{
    const struct attention_shape *shape = &job->set->shape;
    const struct forward_input *in = &job->input;
    struct forward_result *result = &job->result;
    size_t n_maps = job->asked->include_heads ? job->asked->n_include_heads : shape->num_heads;
    const struct {
        float **buffer;
        size_t shape[4];
    } all[FORWARD_RETURN_COUNT] = {
        [RETURN_OUTPUT_INDEX] = {&result->output, {in->batch, in->query_length, shape->d_model, 1}},
        [RETURN_ATTENTION_INDEX] = {&result->attention, {in->batch, n_maps, in->query_length, in->key_length}},
        [RETURN_HEADS_INDEX] = {&result->heads, {in->batch, n_maps, in->query_length, shape->d_v}},
        [RETURN_QUERY_INDEX] = {&result->query, {in->batch, shape->num_heads, in->query_length, shape->d_k}},
        [RETURN_KEY_INDEX] = {&result->key, {in->batch, shape->num_heads, in->key_length, shape->d_k}},
        [RETURN_VALUE_INDEX] = {&result->value, {in->batch, shape->num_heads, in->key_length, shape->d_v}},
    };
    result->n_maps = n_maps;
    result->include_heads = job->asked->include_heads;
    *total = 0;
    for (int i = 0; i < FORWARD_RETURN_COUNT; i++) {
        wanted[i] = (struct wanted){.buffer = all[i].buffer};
        if (!(job->asked->returned >> i & 1))
            continue;
        if (!tensor_bytes(all[i].shape, 4, sizeof(float), &wanted[i].bytes) || !arena_need(total, wanted[i].bytes))
            return error_set(error, ERROR_TOO_LARGE, "the answer's tensors are larger than any memory");
    }
    return true;
}

static bool compute(struct forward_job *job, struct job *queued, struct error *error)
{
    const struct forward_input *input = &job->input;
    struct parallel parallel = job_parallel(queued);
    struct wanted wanted[FORWARD_RETURN_COUNT];
    size_t result_bytes, scratch_bytes;
    if (!list_wanted(job, wanted, &result_bytes, error))
        return false;
    if (!forward_scratch_bytes(&job->set->shape, &input, 1, parallel.lanes, &scratch_bytes))
        return error_set(error, ERROR_TOO_LARGE, "the working memory of this request is larger than any memory");
    if (!forward_job_reserve(job, result_bytes, scratch_bytes, error))
        return false;
    for (int i = 0; i < FORWARD_RETURN_COUNT; i++)
        if (wanted[i].bytes)
            *wanted[i].buffer = arena_take(&job->results, wanted[i].bytes);
    if (!forward_job_compute(job, &parallel, error))
        return false;
    forward_job_give(job, scratch_bytes);
    return true;
}

static bool encode(struct forward_job *job, size_t answer_bytes, struct error *error)
{
    struct timing *timing = &job->request->timing;
    struct forward_timing told = {
        .parse_us = timing->parse_us, .queue_us = timing->queue_us, .compute_us = timing->compute_us};
    size_t scratch_bytes = forward_answer_scratch_bytes(job->asked, &job->set->shape, &job->input);
    struct arena scratch = {0};
    if (!forward_job_reserve_text(job, answer_bytes, error) || !forward_job_take(job, scratch_bytes, error))
        return false;
    if (!arena_reserve(&scratch, scratch_bytes))
        return error_out_of_memory(error);
    bool encoded = forward_answer_encode(job->asked, &job->set->shape, &job->input, &job->result, job->set->name,
                                         job->set->digest, &told, &scratch, &job->text, error);
    arena_free(&scratch);
    if (!encoded)
        return false;
    forward_job_give(job, scratch_bytes);
    forward_job_trim_text(job, answer_bytes);
    timing->encode_us = told.encode_us;
    timing->encoded_whole = true;
    return true;
}

static void run(struct job *queued, enum job_end end)
{
    static const struct forward_stages stages = {decode, within_limits, compute, encode};
    struct forward_request asked = {0};
    struct forward_job job = {.request = request_of_job(queued), .asked = &asked};
    forward_job_run(&job, queued, end, &stages);
    forward_job_end(&job);
}

void forward_handle(struct request *request)
{
    request->job.run = run;
    request_submit(request);
}
