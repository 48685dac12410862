/* POST /v1/heads/similarity: how alike heads are, by posted maps, or by the maps or outputs of a forward. */
#include "server/endpoints.h"

#include "codec/similarity_answer.h"
#include "codec/similarity_request.h"
#include "server/maps_job.h"

struct similarity_job {
    struct maps_job maps;
    struct similarity_request asked;
    struct similarity_found found; /* points into the results */
};

static struct similarity_job *similarity_job_of(const struct forward_job *job)
{
    return (struct similarity_job *)job; /* its first member */
}

static bool decode(struct forward_job *forward, const struct request_body *body, struct arena *arena,
                   struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    return similarity_request_decode(body, arena, &job->asked, error) &&
           maps_job_decoded(&job->maps, &job->asked.analysis, error);
}

/* Of posted maps there is no output, and no width of it. */
static size_t output_width(const struct forward_job *forward)
{
    return forward->shape ? forward->shape->d_v : 0;
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    const struct forward_input *input = &forward->input;
    maps_job_begin(&job->maps);
    const size_t num_heads = job->maps.extent.num_heads;
    forward->flop =
        maps_job_flop(&job->maps) + head_similarity_flop(&job->asked.question, num_heads, input->batch,
                                                         input->query_length, input->key_length, output_width(forward));
    if (!forward_job_check_flop(forward, error))
        return false;
    const bool counted =
        similarity_answer_bytes(&job->asked, num_heads, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(forward, counted, "send fewer heads, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    struct similarity_found *found = &job->found;
    const struct forward_input *input = &forward->input;
    const size_t heads = job->maps.extent.num_heads, pairs = similarity_pairs_most(&job->asked, heads);
    const struct arena_piece buffers[] = {
        {&forward->result.heads,
         {input->batch, heads, input->query_length, output_width(forward)},
         sizeof(float),
         job->asked.question.subject == SIMILARITY_OF_OUTPUT},
        {&found->similarity.similarity, {heads, heads, 1, 1}, sizeof(double), true},
        {&found->redundancy, {heads, 1, 1, 1}, sizeof *found->redundancy, true},
        {&found->clusters, {heads, 1, 1, 1}, sizeof *found->clusters, true},
        {&found->pairs, {pairs, 1, 1, 1}, sizeof *found->pairs, pairs > 0},
    };
    found->num_heads = heads;
    return maps_job_reserve(&job->maps, buffers, sizeof buffers / sizeof *buffers, error);
}

/* Compares, with the maps prepared. */
static bool compare(struct similarity_job *job, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->maps.forward;
    struct forward_scratch scratch;
    const bool counted = head_similarity_bytes(&job->asked.question, &job->maps.maps, output_width(forward),
                                               parallel->lanes, &scratch.bytes);
    if (!forward_job_take_scratch(forward, counted, &scratch, error))
        return false;
    const bool compared =
        head_similarity_run(&job->asked.question, &job->maps.maps, forward->result.heads, output_width(forward),
                            parallel, &scratch.arena, &job->found.similarity, error);
    forward_job_give_scratch(forward, &scratch);
    return compared;
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    struct similarity_found *found = &job->found;
    const double *similarity = found->similarity.similarity;
    struct forward_scratch prepared;
    if (!maps_job_run(&job->maps, parallel, error) ||
        !forward_job_take_scratch(forward, head_maps_bytes(&job->maps.maps, &prepared.bytes), &prepared, error))
        return false;
    const bool compared = head_maps_prepare(&job->maps.maps, &prepared.arena, error) && compare(job, parallel, error);
    forward_job_give_scratch(forward, &prepared);
    if (!compared)
        return false;
    found->n_clusters = head_clusters(similarity, found->num_heads, job->asked.threshold, found->clusters);
    head_redundancy(similarity, found->num_heads, found->redundancy);
    found->n_pairs =
        head_pairs(similarity, found->num_heads, found->pairs, similarity_pairs_most(&job->asked, found->num_heads));
    return true;
}

static bool encode(const struct forward_job *forward, struct text *text, struct error *error)
{
    const struct similarity_job *job = similarity_job_of(forward);
    return similarity_answer_encode(&job->asked, &job->found, maps_job_weights(&job->maps), maps_job_digest(&job->maps),
                                    text, error);
}

void similarity_handle(struct request *request)
{
    static const struct forward_route route = {
        .job_bytes = sizeof(struct similarity_job),
        .decode = decode,
        .within_limits = within_limits,
        .reserve = reserve,
        .compute = compute,
        .encode = encode,
    };
    forward_job_begin(request, &route);
}
