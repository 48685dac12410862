/* POST /v1/heads/links: the strongest links of heads, of posted maps or of those of a forward. */
#include "server/endpoints.h"

#include "analysis/head_links.h"
#include "base/size.h"
#include "codec/links_answer.h"
#include "codec/links_request.h"
#include "server/maps_job.h"

struct links_job {
    struct maps_job maps;
    struct links_request asked;
    struct links_found found; /* points into the results */
};

static struct links_job *links_job_of(const struct forward_job *job)
{
    return (struct links_job *)job; /* its first member */
}

static bool decode(struct forward_job *forward, const struct request_body *body, struct arena *arena,
                   struct error *error)
{
    struct links_job *job = links_job_of(forward);
    return links_request_decode(body, arena, &job->asked, error) &&
           maps_job_decoded(&job->maps, &job->asked.analysis, error);
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct links_job *job = links_job_of(forward);
    const struct forward_input *input = &forward->input;
    const size_t pairs[] = {input->batch, input->query_length, input->key_length};
    struct head_links *links = &job->found.links;
    size_t most, heads;
    maps_job_begin(&job->maps);
    if (!links_request_check_tokens(&job->asked, input, error))
        return false;
    forward->flop = maps_job_flop(&job->maps) +
                    (double)maps_job_layers(&job->maps) * head_links_flop(input, job->maps.extent.num_heads);
    if (!forward_job_check_flop(forward, error))
        return false;
    if (!tensor_bytes(pairs, 3, 1, &most)) /* a head has no more links */
        most = SIZE_MAX;
    links->top_k = size_min(job->asked.top_k, most);
    links->min_weight = (float)job->asked.min_weight;
    const bool counted =
        size_multiply(maps_job_layers(&job->maps), job->maps.extent.num_heads, &heads) &&
        links_answer_bytes(&job->asked, heads, links->top_k, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(
        forward, counted, "ask for fewer links (top_k), name fewer layers with include_layers, or raise the setting",
        error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct links_job *job = links_job_of(forward);
    struct head_links *links = &job->found.links;
    const size_t heads = maps_job_layers(&job->maps) * job->maps.extent.num_heads;
    const struct arena_piece buffers[] = {
        {&links->links, {heads, links->top_k, 1, 1}, sizeof *links->links, true},
        {&links->counts, {heads, 1, 1, 1}, sizeof *links->counts, true},
    };
    return maps_job_reserve(&job->maps, false, buffers, sizeof buffers / sizeof *buffers, error);
}

static bool link_up(struct maps_job *maps_job, size_t place, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &maps_job->forward;
    struct head_maps *maps = &maps_job->maps;
    struct links_found *found = &links_job_of(forward)->found;
    const size_t first = place * maps_job->extent.num_heads;
    struct head_links links = found->links;
    struct forward_scratch scratch;
    links.links += first * links.top_k;
    links.counts += first;
    if (!forward_job_take_scratch(forward, head_links_scratch_bytes(maps, parallel->lanes, &scratch.bytes), &scratch,
                                  error))
        return false;
    bool computed = head_links_run(maps, parallel, &scratch.arena, &links, error);
    forward_job_give_scratch(forward, &scratch);
    if (computed && maps->n_rows >= found->n_rows) {
        found->n_rows = maps->n_rows;
        found->n_excluded = maps->n_excluded;
    }
    return computed;
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct links_job *job = links_job_of(forward);
    const bool computed = maps_job_each(&job->maps, link_up, parallel, error);
    job->found.extent = job->maps.extent;
    job->found.shift = job->maps.maps.shift;
    return computed;
}

static bool encode(const struct forward_job *forward, struct text *text, struct error *error)
{
    const struct links_job *job = links_job_of(forward);
    return links_answer_encode(&job->asked, &job->found, maps_job_weights(&job->maps), maps_job_digest(&job->maps),
                               text, error);
}

void links_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct links_job),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = reserve,
        .compute = compute,
        .encode = encode,
    };
    forward_job_begin(request, &route);
}
