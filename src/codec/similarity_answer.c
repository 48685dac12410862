/* The answer of /v1/heads/similarity. Entered by the thread that computed the result. */
#include "codec/similarity_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"

/* A head's entries in "heads" ({"layer":,"head":}), "clusters" (a number of 20 digits, brackets, a comma) and
 * "redundancy", that of its layer in "diversity", and the brackets of its row. */
#define HEAD_BYTES (ANALYSIS_HEAD_BYTES + 2 * 24 + 2 * ANALYSIS_NUMBER_BYTES + 16)
/* {"layer":,"head_a":,"head_b":,"similarity":}, */
#define PAIR_BYTES (50 + 3 * 20 + ANALYSIS_NUMBER_BYTES)

struct similarity_blocks_of similarity_blocks_compared(const struct similarity_request *request,
                                                       const struct maps_extent *extent)
{
    if (request->across == SIMILARITY_ACROSS_LAYER)
        return (struct similarity_blocks_of){size_max(extent->num_layers, 1), extent->num_heads};
    return (struct similarity_blocks_of){1, size_max(extent->num_layers, 1) * extent->num_heads};
}

size_t similarity_pairs_most(const struct similarity_request *request, const struct maps_extent *extent)
{
    /* Heads have places in memory, so that the product of half of them with the others cannot overflow. */
    const struct similarity_blocks_of blocks = similarity_blocks_compared(request, extent);
    const size_t heads = blocks.heads, half = heads % 2 ? heads : heads / 2, other = heads % 2 ? heads / 2 : heads - 1;
    size_t all;
    if (heads < 2)
        return 0;
    if (!size_multiply(half, other, &all) || !size_multiply(all, blocks.count, &all))
        all = SIZE_MAX;
    return size_min(request->max_pairs, all);
}

bool similarity_answer_bytes(const struct similarity_request *request, const struct maps_extent *extent,
                             const char *weights, size_t *bytes)
{
    size_t row, rows, pairs, lists, all;
    if (!size_multiply(size_max(extent->num_layers, 1), extent->num_heads, &all))
        return false;
    return size_multiply(similarity_blocks_compared(request, extent).heads, ANALYSIS_NUMBER_BYTES + 1, &row) &&
           size_add(row, HEAD_BYTES, &row) && size_multiply(row, all, &rows) &&
           size_multiply(similarity_pairs_most(request, extent), PAIR_BYTES, &pairs) && size_add(rows, pairs, &lists) &&
           size_add(lists, analysis_text_begin_bytes(&request->analysis.forward, weights), bytes);
}

static void write_numbers(struct text *text, const double *numbers, size_t count)
{
    text_append(text, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i)
            text_append(text, ",", 1);
        analysis_text_number(text, numbers[i]);
    }
    text_append(text, "]", 1);
}

static void write_matrix(struct text *text, const double *numbers /* [heads, heads] */, size_t heads)
{
    text_append(text, "[", 1);
    for (size_t head = 0; head < heads; head++) {
        if (head)
            text_append(text, ",", 1);
        write_numbers(text, numbers + head * heads, heads);
    }
    text_append(text, "]", 1);
}

/* Clusters by their first heads, each with its heads in order. A head is looked for from the one before it on. */
static void write_clusters(struct text *text, const uint32_t *clusters /* [heads] */, size_t heads, size_t n_clusters)
{
    text_append(text, "[", 1);
    for (uint32_t cluster = 0, first = 0; cluster < n_clusters; cluster++) {
        while (clusters[first] != cluster)
            first++;
        text_append_format(text, "%s[%u", cluster ? "," : "", first);
        for (uint32_t head = first + 1; head < heads; head++)
            if (clusters[head] == cluster)
                text_append_format(text, ",%u", head);
        text_append(text, "]", 1);
    }
    text_append(text, "]", 1);
}

/* "heads". */
static void write_heads(struct text *text, const struct forward_request *request, const struct maps_extent *extent)
{
    for (size_t i = 0; i < size_max(extent->num_layers, 1) * extent->num_heads; i++) {
        if (!extent->num_layers) {
            text_append_format(text, "%s%zu", i ? "," : "", i);
            continue;
        }
        analysis_text_begin_head(text, i, forward_request_layer(request, i / extent->num_heads), i % extent->num_heads);
        text_append(text, "}", 1);
    }
}

/* Numbers of heads are those of their layer where layers are compared by themselves. */
static void write_pairs(struct text *text, const struct forward_request *request, const struct similarity_found *found,
                        size_t heads, bool layered)
{
    for (size_t i = 0; i < found->n_pairs; i++) {
        const struct head_pair *pair = &found->pairs[i];
        text_append_string(text, i ? ",{" : "{");
        if (layered)
            text_append_format(text, "\"layer\":%zu,", forward_request_layer(request, pair->head_a / heads));
        text_append_format(text, "\"head_a\":%zu,\"head_b\":%zu,\"similarity\":", pair->head_a % heads,
                           pair->head_b % heads);
        analysis_text_number(text, pair->similarity);
        text_append(text, "}", 1);
    }
}

/* What there is of each block, in a list where layers are compared by themselves. */
static void write_blocks(struct text *text, const char *name, const struct similarity_found *found,
                         const struct similarity_blocks_of *blocks, bool layered,
                         void (*write)(struct text *text, const struct similarity_found *found, size_t block,
                                       size_t heads))
{
    text_append_format(text, ",\"%s\":%s", name, layered ? "[" : "");
    for (size_t block = 0; block < blocks->count; block++) {
        if (block)
            text_append(text, ",", 1);
        write(text, found, block, blocks->heads);
    }
    if (layered)
        text_append(text, "]", 1);
}

static void write_similarity(struct text *text, const struct similarity_found *found, size_t block, size_t heads)
{
    write_matrix(text, found->similarity.similarity + block * heads * heads, heads);
}

static void write_redundancy(struct text *text, const struct similarity_found *found, size_t block, size_t heads)
{
    write_numbers(text, found->redundancy + block * heads, heads);
}

static void write_clusters_of(struct text *text, const struct similarity_found *found, size_t block, size_t heads)
{
    write_clusters(text, found->clusters + block * heads, heads, found->n_clusters[block]);
}

static void write_found(struct text *text, const struct similarity_request *request,
                        const struct similarity_found *found)
{
    const struct similarity_blocks_of blocks = similarity_blocks_compared(request, &found->extent);
    const size_t num_layers = found->extent.num_layers;
    const bool layered = num_layers && request->across == SIMILARITY_ACROSS_LAYER;
    text_append_string(text, "\"heads\":[");
    write_heads(text, &request->analysis.forward, &found->extent);
    text_append(text, "]", 1);
    write_blocks(text, "similarity", found, &blocks, layered, write_similarity);
    write_blocks(text, "redundancy", found, &blocks, layered, write_redundancy);
    write_blocks(text, "clusters", found, &blocks, layered, write_clusters_of);
    text_append_string(text, ",\"pairs\":[");
    write_pairs(text, &request->analysis.forward, found, blocks.heads, layered);
    text_append_string(text, "],\"diversity\":");
    if (num_layers)
        write_numbers(text, found->similarity.diversity, num_layers);
    else
        analysis_text_number(text, found->similarity.diversity[0]);
    text_append_format(text, ",\"n_rows\":%zu,\"n_excluded\":%zu", found->similarity.n_rows,
                       found->similarity.n_excluded);
}

bool similarity_answer_encode(const struct similarity_request *request, const struct similarity_found *found,
                              const char *weights, const char *digest, struct text *text, struct error *error)
{
    const size_t length = text->length;
    analysis_text_begin(text, &request->analysis.forward, weights, digest);
    text_append_format(
        text, "\"metric\":\"%s\",\"on\":\"%s\",\"reduce\":\"%s\",", similarity_metric_name(request->question.metric),
        similarity_subject_names[request->question.subject], similarity_reduction_names[request->question.reduction]);
    if (found->extent.num_layers)
        text_append_format(text, "\"across\":\"%s\",", similarity_across_names[request->across]);
    write_found(text, request, found);
    text_append(text, "}", 1);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
