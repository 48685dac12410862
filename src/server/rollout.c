/* POST /v1/heads/rollout: attention rolled out over layers, of posted maps or of those of a forward. */
#include "server/endpoints.h"

#include "analysis/head_maps_check.h"
#include "codec/rollout_answer.h"
#include "server/maps_job.h"

struct rollout_job {
    struct maps_job maps;
    struct rollout_request asked;
    struct rollout rollout; /* its sizes; from `compute` on its maps */
    float *result;          /* in the results */
};

static struct rollout_job *rollout_job_of(const struct forward_job *job)
{
    return (struct rollout_job *)job; /* its first member */
}

static bool decode(struct forward_job *forward, const struct request_body *body, struct arena *arena,
                   struct error *error)
{
    struct rollout_job *job = rollout_job_of(forward);
    if (!rollout_request_decode(body, arena, &job->asked, error))
        return false;
    if (forward->request->accepted == MEDIA_SAFETENSORS)
        job->asked.analysis.forward.encoding = ENCODING_SAFETENSORS;
    job->maps.asked = &job->asked.analysis;
    forward->asked = &job->asked.analysis.forward;
    forward->posted = analysis_request_has_maps(&job->asked.analysis);
    return !forward->posted || rollout_request_check_maps(&job->asked, &forward->input, &job->maps.extent, error);
}

static struct rollout_found found_of(const struct rollout_job *job)
{
    return (struct rollout_found){&job->rollout, job->maps.forward.input.rank2, job->result};
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct rollout_job *job = rollout_job_of(forward);
    const struct forward_input *input = &forward->input;
    if (!rollout_request_check_input(input, error))
        return false;
    maps_job_begin(&job->maps);
    job->rollout = (struct rollout){.batch = input->batch,
                                    .num_layers = maps_job_layers(&job->maps),
                                    .num_heads = job->maps.extent.num_heads,
                                    .length = input->query_length,
                                    .fusion = job->asked.fusion,
                                    .per_head = job->asked.per_head};
    forward->flop = maps_job_flop(&job->maps) + rollout_flop(&job->rollout);
    if (!forward_job_check_flop(forward, error))
        return false;
    const struct rollout_found found = found_of(job);
    const bool counted =
        rollout_answer_bytes(&job->asked, &found, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(
        forward, counted, "leave per_head out, ask for decimals or encoding base64, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct rollout_job *job = rollout_job_of(forward);
    const struct rollout *r = &job->rollout;
    const struct arena_piece buffers[] = {
        {&job->result, {r->batch, r->per_head ? r->num_heads : 1, r->length, r->length}, sizeof *job->result, true},
    };
    return maps_job_reserve(&job->maps, true, buffers, sizeof buffers / sizeof *buffers, error);
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct rollout_job *job = rollout_job_of(forward);
    struct forward_scratch scratch;
    if (!maps_job_run(&job->maps, parallel, error))
        return false;
    job->rollout.attention = job->maps.maps.weights;
    job->rollout.renormalize = job->asked.analysis.renormalize;
    if (job->rollout.renormalize || job->maps.maps.stray || (forward->posted && forward->input.mask))
        job->rollout.rule = &forward->input;
    if (!forward_job_take_scratch(forward, rollout_scratch_bytes(&job->rollout, parallel->lanes, &scratch.bytes),
                                  &scratch, error))
        return false;
    const bool computed = rollout_run(&job->rollout, parallel, &scratch.arena, job->result, error);
    forward_job_give_scratch(forward, &scratch);
    return computed;
}

static size_t compose_bytes(const struct forward_job *forward)
{
    const struct rollout_job *job = rollout_job_of(forward);
    return rollout_answer_memory(&job->asked, maps_job_weights(&job->maps));
}

static bool compose(struct forward_job *forward, const struct parallel *parallel, struct arena *arena,
                    struct answer_pieces *pieces, struct error *error)
{
    const struct rollout_job *job = rollout_job_of(forward);
    const struct rollout_found found = found_of(job);
    (void)parallel;
    return rollout_answer_compose(&job->asked, &found, maps_job_weights(&job->maps), maps_job_digest(&job->maps), arena,
                                  pieces, error);
}

void rollout_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct rollout_job),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = reserve,
        .compute = compute,
        .compose_bytes = compose_bytes,
        .compose = compose,
    };
    forward_job_begin(request, &route);
}
