/* POST /v1/heads/stats: the statistics of heads, of posted maps or of those of a forward. */
#include "server/endpoints.h"

#include "analysis/head_statistics.h"
#include "codec/stats_answer.h"
#include "codec/stats_request.h"
#include "server/maps_job.h"

struct stats_job {
    struct maps_job maps;
    struct stats_request asked;
    struct stats_found found; /* points into the results */
};

static struct stats_job *stats_job_of(const struct forward_job *job)
{
    return (struct stats_job *)job; /* its first member */
}

static bool decode(struct forward_job *forward, const struct request_body *body, struct arena *arena,
                   struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    return stats_request_decode(body, arena, &job->asked, error) &&
           maps_job_decoded(&job->maps, &job->asked.analysis, error);
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    maps_job_begin(&job->maps);
    const size_t n_heads = maps_job_heads(&job->maps);
    forward->flop = maps_job_flop(&job->maps) + head_statistics_flop(&forward->input, n_heads);
    if (!forward_job_check_flop(forward, error))
        return false;
    const bool counted =
        stats_answer_bytes(&job->asked, &forward->input, n_heads, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(forward, counted, "leave per_position out, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    struct head_statistics *statistics = &job->found.statistics;
    const struct forward_input *input = &forward->input;
    const size_t n_heads = maps_job_heads(&job->maps);
    const bool positions = job->asked.per_position;
    const struct arena_piece buffers[] = {
        {&statistics->means, {n_heads, HEAD_STATISTIC_COUNT, 1, 1}, sizeof *statistics->means, true},
        {&statistics->peaks, {n_heads, 1, 1, 1}, sizeof *statistics->peaks, true},
        {&statistics->entropy_per_position, {n_heads, input->batch, input->query_length, 1}, sizeof(float), positions},
        {&statistics->distance_per_position, {n_heads, input->batch, input->query_length, 1}, sizeof(float), positions},
    };
    return maps_job_reserve(&job->maps, buffers, sizeof buffers / sizeof *buffers, error);
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    struct head_maps *maps = &job->maps.maps;
    const size_t n_heads = maps_job_heads(&job->maps);
    struct forward_scratch scratch;
    if (!maps_job_run(&job->maps, parallel, error) ||
        !forward_job_take_scratch(
            forward, head_statistics_scratch_bytes(maps, n_heads, parallel->lanes, &scratch.bytes), &scratch, error))
        return false;
    bool computed = head_statistics_run(maps, maps_job_selection(&job->maps), n_heads, parallel, &scratch.arena,
                                        &job->found.statistics, error);
    forward_job_give_scratch(forward, &scratch);
    job->found.rule = &forward->input;
    job->found.n_heads = n_heads;
    job->found.n_rows = maps->n_rows;
    job->found.n_excluded = maps->n_excluded;
    job->found.aligned = maps->aligned;
    return computed;
}

static bool encode(const struct forward_job *forward, struct text *text, struct error *error)
{
    const struct stats_job *job = stats_job_of(forward);
    return stats_answer_encode(&job->asked, &job->found, maps_job_weights(&job->maps), maps_job_digest(&job->maps),
                               text, error);
}

void stats_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct stats_job),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = reserve,
        .compute = compute,
        .encode = encode,
    };
    forward_job_begin(request, &route);
}
