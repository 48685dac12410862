/* The answer of /v1/heads/similarity. Entered by the thread that computed the result. */
#include "codec/similarity_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"

/* A head's entries in "heads" and "clusters" (a number of 20 digits, brackets, a comma) and in "redundancy", and the
 * brackets of its row. */
#define HEAD_BYTES (2 * 24 + ANALYSIS_NUMBER_BYTES + 8)
/* {"head_a":,"head_b":,"similarity":}, */
#define PAIR_BYTES (40 + 2 * 20 + ANALYSIS_NUMBER_BYTES)

size_t similarity_pairs_most(const struct similarity_request *request, size_t num_heads)
{
    /* Heads have places in memory, so that the product of half of them with the others cannot overflow. */
    const size_t half = num_heads % 2 ? num_heads : num_heads / 2,
                 other = num_heads % 2 ? num_heads / 2 : num_heads - 1;
    size_t all;
    if (num_heads < 2 || !size_multiply(half, other, &all))
        all = num_heads < 2 ? 0 : SIZE_MAX;
    return size_min(request->max_pairs, all);
}

bool similarity_answer_bytes(const struct similarity_request *request, size_t num_heads, const char *weights,
                             size_t *bytes)
{
    size_t row, rows, pairs, lists;
    return size_multiply(num_heads, ANALYSIS_NUMBER_BYTES + 1, &row) && size_add(row, HEAD_BYTES, &row) &&
           size_multiply(row, num_heads, &rows) &&
           size_multiply(similarity_pairs_most(request, num_heads), PAIR_BYTES, &pairs) &&
           size_add(rows, pairs, &lists) &&
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

/* Clusters by their first heads, each with its heads in order. A head is looked for from the one before it on. */
static void write_clusters(struct text *text, const struct similarity_found *found)
{
    for (uint32_t cluster = 0, first = 0; cluster < found->n_clusters; cluster++) {
        while (found->clusters[first] != cluster)
            first++;
        text_append_format(text, "%s[%u", cluster ? "," : "", first);
        for (uint32_t head = first + 1; head < found->num_heads; head++)
            if (found->clusters[head] == cluster)
                text_append_format(text, ",%u", head);
        text_append(text, "]", 1);
    }
}

void similarity_text_found(struct text *text, const struct similarity_found *found)
{
    const size_t heads = found->num_heads;
    text_append_string(text, "\"heads\":[");
    for (size_t head = 0; head < heads; head++)
        text_append_format(text, "%s%zu", head ? "," : "", head);
    text_append_string(text, "],\"similarity\":[");
    for (size_t head = 0; head < heads; head++) {
        if (head)
            text_append(text, ",", 1);
        write_numbers(text, found->similarity.similarity + head * heads, heads);
    }
    text_append_string(text, "],\"redundancy\":");
    write_numbers(text, found->redundancy, heads);
    text_append_string(text, ",\"clusters\":[");
    write_clusters(text, found);
    text_append_string(text, "],\"pairs\":[");
    for (size_t i = 0; i < found->n_pairs; i++) {
        const struct head_pair *pair = &found->pairs[i];
        text_append_format(text, "%s{\"head_a\":%u,\"head_b\":%u,\"similarity\":", i ? "," : "", pair->head_a,
                           pair->head_b);
        analysis_text_number(text, pair->similarity);
        text_append(text, "}", 1);
    }
    text_append_string(text, "],\"diversity\":");
    analysis_text_number(text, found->similarity.diversity);
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
    similarity_text_found(text, found);
    text_append(text, "}", 1);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
