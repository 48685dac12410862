/* POST /v1/heads/similarity: how alike heads are, by posted maps, or by the maps or outputs of a forward. */
#include "server/endpoints.h"

#include "analysis/layer_similarity.h"
#include "base/size.h"
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

/* Whether heads of different layers are compared, for which all are in memory at once. */
static bool is_across_layers(const struct similarity_job *job)
{
    return job->maps.extent.num_layers && job->asked.across == SIMILARITY_ACROSS_MODEL;
}

static bool within_limits(struct forward_job *forward, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    const struct forward_input *input = &forward->input;
    size_t all;
    maps_job_begin(&job->maps);
    if (!size_multiply(maps_job_layers(&job->maps), job->maps.extent.num_heads, &all))
        return forward_job_too_large(error);
    const struct similarity_blocks_of blocks = similarity_blocks_compared(&job->asked, &job->maps.extent);
    forward->flop =
        maps_job_flop(&job->maps) +
        (double)blocks.count * head_similarity_flop(&job->asked.question, blocks.heads, input->batch,
                                                    input->query_length, input->key_length, output_width(forward));
    if (!forward_job_check_flop(forward, error))
        return false;
    const bool counted =
        similarity_answer_bytes(&job->asked, &job->maps.extent, maps_job_weights(&job->maps), &forward->answer_bytes);
    return forward_job_check_answer(
        forward, counted, "send fewer heads, name fewer layers with include_layers, or raise the setting", error);
}

static bool reserve(struct forward_job *forward, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    struct similarity_found *found = &job->found;
    const struct forward_input *input = &forward->input;
    const struct similarity_blocks_of blocks = similarity_blocks_compared(&job->asked, &job->maps.extent);
    const bool at_once = is_across_layers(job);
    const size_t layers = maps_job_layers(&job->maps), heads = job->maps.extent.num_heads,
                 pairs = similarity_pairs_most(&job->asked, &job->maps.extent);
    size_t planes;
    if (!size_multiply(input->batch, at_once ? layers : 1, &planes))
        return forward_job_too_large(error);
    const struct arena_piece buffers[] = {
        {&forward->result.heads,
         {planes, heads, input->query_length, output_width(forward)},
         sizeof(float),
         job->asked.question.subject == SIMILARITY_OF_OUTPUT},
        {&found->similarity.similarity, {blocks.count, blocks.heads, blocks.heads, 1}, sizeof(double), true},
        {&found->similarity.diversity, {layers, 1, 1, 1}, sizeof(double), true},
        {&found->redundancy, {layers, heads, 1, 1}, sizeof *found->redundancy, true},
        {&found->clusters, {layers, heads, 1, 1}, sizeof *found->clusters, true},
        {&found->n_clusters, {blocks.count, 1, 1, 1}, sizeof *found->n_clusters, true},
        {&found->pairs, {pairs, 1, 1, 1}, sizeof *found->pairs, pairs > 0},
    };
    found->extent = job->maps.extent;
    return maps_job_reserve(&job->maps, at_once, buffers, sizeof buffers / sizeof *buffers, error);
}

/* Compares the heads of one layer, with its maps prepared. */
static bool compare(struct similarity_job *job, size_t place, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->maps.forward;
    const size_t heads = job->maps.extent.num_heads;
    struct head_similarity *all = &job->found.similarity;
    struct head_similarity found = {.similarity = all->similarity + place * heads * heads,
                                    .diversity = all->diversity + place};
    struct forward_scratch scratch;
    const bool counted = head_similarity_bytes(&job->asked.question, &job->maps.maps, output_width(forward),
                                               parallel->lanes, &scratch.bytes);
    if (!forward_job_take_scratch(forward, counted, &scratch, error))
        return false;
    const bool compared = head_similarity_run(&job->asked.question, &job->maps.maps, forward->result.heads,
                                              output_width(forward), parallel, &scratch.arena, &found, error);
    forward_job_give_scratch(forward, &scratch);
    if (compared && found.n_rows >= all->n_rows) {
        all->n_rows = found.n_rows;
        all->n_excluded = found.n_excluded;
    }
    return compared;
}

static bool compare_layer(struct maps_job *maps_job, size_t place, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &maps_job->forward;
    struct forward_scratch prepared;
    if (!forward_job_take_scratch(forward, head_maps_bytes(&maps_job->maps, &prepared.bytes), &prepared, error))
        return false;
    const bool compared = head_maps_prepare(&maps_job->maps, &prepared.arena, error) &&
                          compare(similarity_job_of(forward), place, parallel, error);
    forward_job_give_scratch(forward, &prepared);
    return compared;
}

/* ---- heads of all layers that are measured */

/* The maps of each layer with its rule, which both lie in `prepared`. */
struct layer_maps {
    struct head_maps maps;
    struct forward_input rule;
    struct attention_rules rules;
};

static bool layers_bytes(struct maps_job *job, size_t *bytes)
{
    const size_t layers = maps_job_layers(job);
    size_t one, total = 0, list;
    if (!tensor_bytes(&layers, 1, sizeof(struct head_maps) + sizeof(struct layer_maps), &list) ||
        !arena_need(&total, list))
        return false;
    for (size_t place = 0; place < layers; place++) {
        maps_job_look_at(job, place);
        if (!head_maps_bytes(&job->maps, &one) || !size_add(total, one, &total))
            return false;
    }
    *bytes = total;
    return true;
}

/* Prepares them all: maps [num_layers]. */
static bool prepare_layers(struct maps_job *job, struct arena *arena, struct head_maps **maps, struct error *error)
{
    const size_t layers = maps_job_layers(job);
    struct head_maps *made = arena_take(arena, layers * (sizeof *made + sizeof(struct layer_maps)));
    struct layer_maps *own = (struct layer_maps *)(made + layers);
    if (!made)
        return error_out_of_memory(error);
    for (size_t place = 0; place < layers; place++) {
        maps_job_look_at(job, place);
        own[place].rule = *job->maps.rule;
        if (own[place].rule.rules == &job->layer_rules) {
            own[place].rules = job->layer_rules;
            own[place].rule.rules = &own[place].rules;
        }
        made[place] = job->maps;
        made[place].rule = &own[place].rule;
        if (!head_maps_prepare(&made[place], arena, error))
            return false;
    }
    *maps = made;
    return true;
}

static bool compare_all(struct similarity_job *job, const struct head_maps *maps, const struct parallel *parallel,
                        struct error *error)
{
    struct forward_job *forward = &job->maps.forward;
    const size_t layers = maps_job_layers(&job->maps), d_v = output_width(forward);
    struct forward_scratch scratch;
    if (!forward_job_take_scratch(
            forward, layer_similarity_bytes(&job->asked.question, maps, layers, d_v, parallel->lanes, &scratch.bytes),
            &scratch, error))
        return false;
    const bool compared = layer_similarity_run(&job->asked.question, maps, layers, forward->result.heads, d_v, parallel,
                                               &scratch.arena, &job->found.similarity, error);
    forward_job_give_scratch(forward, &scratch);
    return compared;
}

static bool compare_layers(struct similarity_job *job, const struct parallel *parallel, struct error *error)
{
    struct forward_job *forward = &job->maps.forward;
    struct forward_scratch prepared;
    struct head_maps *maps = NULL;
    if (!maps_job_run(&job->maps, parallel, error) ||
        !forward_job_take_scratch(forward, layers_bytes(&job->maps, &prepared.bytes), &prepared, error))
        return false;
    const bool compared =
        prepare_layers(&job->maps, &prepared.arena, &maps, error) && compare_all(job, maps, parallel, error);
    forward_job_give_scratch(forward, &prepared);
    return compared;
}

static bool compute(struct forward_job *forward, const struct parallel *parallel, struct error *error)
{
    struct similarity_job *job = similarity_job_of(forward);
    struct similarity_found *found = &job->found;
    const struct similarity_blocks_of blocks = similarity_blocks_compared(&job->asked, &job->maps.extent);
    if (!(is_across_layers(job) ? compare_layers(job, parallel, error)
                                : maps_job_each(&job->maps, compare_layer, parallel, error)))
        return false;
    for (size_t block = 0; block < blocks.count; block++) {
        const double *similarity = found->similarity.similarity + block * blocks.heads * blocks.heads;
        const size_t first = block * blocks.heads;
        found->n_clusters[block] =
            head_clusters(similarity, blocks.heads, job->asked.threshold, found->clusters + first);
        head_redundancy(similarity, blocks.heads, found->redundancy + first);
    }
    found->n_pairs = head_pairs(found->similarity.similarity, blocks.count, blocks.heads, found->pairs,
                                similarity_pairs_most(&job->asked, &job->maps.extent));
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
