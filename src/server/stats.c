/* POST /v1/heads/stats: the statistics of heads, of posted maps or of those of a forward. */
#include "server/endpoints.h"

#include "analysis/head_statistics.h"
#include "base/size.h"
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

/* Entries of the answer: the heads of every layer. They have places in memory, or `within_limits` has refused them. */
static size_t n_entries(const struct stats_job *job)
{
    return maps_job_layers(&job->maps) * maps_job_heads(&job->maps);
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    maps_job_begin(&job->maps);
    const size_t layers = maps_job_layers(&job->maps), n_heads = maps_job_heads(&job->maps);
    forward->flop = maps_job_flop(&job->maps) + (double)layers * head_statistics_flop(&forward->input, n_heads);
    if (!forward_job_check_flop(forward, error))
        return false;
    size_t entries;
    const bool counted =
        size_multiply(layers, n_heads, &entries) &&
        stats_answer_bytes(&job->asked, &forward->input, entries, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(
        forward, counted, "leave per_position out, name fewer layers with include_layers, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    struct head_statistics *statistics = &job->found.statistics;
    const struct forward_input *input = &forward->input;
    const size_t entries = n_entries(job);
    const bool positions = job->asked.per_position;
    const struct arena_piece buffers[] = {
        {&statistics->means, {entries, HEAD_STATISTIC_COUNT, 1, 1}, sizeof *statistics->means, true},
        {&statistics->peaks, {entries, 1, 1, 1}, sizeof *statistics->peaks, true},
        {&statistics->entropy_per_position, {entries, input->batch, input->query_length, 1}, sizeof(float), positions},
        {&statistics->distance_per_position, {entries, input->batch, input->query_length, 1}, sizeof(float), positions},
    };
    return maps_job_reserve(&job->maps, false, buffers, sizeof buffers / sizeof *buffers, error);
}

/* The buffers of one layer. */
static struct head_statistics statistics_of_layer(const struct stats_job *job, size_t place)
{
    const struct forward_input *input = &job->maps.forward.input;
    const struct head_statistics *all = &job->found.statistics;
    const size_t first = place * maps_job_heads(&job->maps), positions = input->batch * input->query_length;
    return (struct head_statistics){
        .means = all->means + first * HEAD_STATISTIC_COUNT,
        .peaks = all->peaks + first,
        .entropy_per_position = job->asked.per_position ? all->entropy_per_position + first * positions : NULL,
        .distance_per_position = job->asked.per_position ? all->distance_per_position + first * positions : NULL,
    };
}

static bool measure(struct maps_job *maps_job, size_t place, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &maps_job->forward;
    struct stats_job *job = stats_job_of(forward);
    struct head_maps *maps = &maps_job->maps;
    struct head_statistics statistics = statistics_of_layer(job, place);
    const size_t n_heads = maps_job_heads(maps_job);
    struct forward_scratch scratch;
    if (!forward_job_take_scratch(
            forward, head_statistics_scratch_bytes(maps, n_heads, parallel->lanes, &scratch.bytes), &scratch, error))
        return false;
    bool computed =
        head_statistics_run(maps, maps_job_selection(maps_job), n_heads, parallel, &scratch.arena, &statistics, error);
    forward_job_give_scratch(forward, &scratch);
    if (computed && maps->n_rows >= job->found.n_rows) {
        job->found.n_rows = maps->n_rows;
        job->found.n_excluded = maps->n_excluded;
    }
    return computed;
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct stats_job *job = stats_job_of(forward);
    const bool computed = maps_job_each(&job->maps, measure, parallel, error);
    job->found.rule = &forward->input;
    job->found.num_layers = job->maps.extent.num_layers;
    job->found.n_heads = maps_job_heads(&job->maps);
    job->found.aligned = job->maps.maps.aligned;
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
