/* The answer of POST /v1/heads/stats: the members of a head in the order of HEAD_STATISTICS, then what is no mean.
 * Entered by the thread that computed the result. */
#include "codec/stats_answer.h"

#include "base/size.h"
#include "codec/analysis_text.h"

#include <math.h>

/* "uniform_previous_mass_stderr":, a number, a comma. */
#define MEMBER_BYTES (36 + ANALYSIS_NUMBER_BYTES)
/* {"layer":,"head":, sink_key, best_offset and n_rows as numbers of 20 digits, sink_mass and best_offset_share, the
 * names of the lists. */
#define HEAD_BYTES 512
/* A float32 in full, a comma. */
#define ELEMENT_BYTES 18

bool stats_answer_bytes(const struct stats_request *request, const struct forward_input *rule, size_t n_heads,
                        const char *weights, size_t *bytes)
{
    const size_t members = HEAD_STATISTIC_COUNT * (1 + request->with_stderr) * MEMBER_BYTES + HEAD_BYTES;
    size_t one = 0, heads;
    if (request->per_position) {
        const size_t list[] = {rule->batch, rule->query_length + 1};
        if (!tensor_bytes(list, 2, 2 * ELEMENT_BYTES, &one))
            return false;
    }
    return size_add(one, members, &one) && size_multiply(one, n_heads, &heads) &&
           size_add(heads, analysis_text_begin_bytes(&request->analysis.forward, weights), bytes);
}

static void write_statistics(struct text *text, const struct stats_request *request, const struct ratio_sums *means)
{
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
        text_append_format(text, ",\"%s\":", head_statistic_kinds[i].name);
        analysis_text_number(text, ratio_sums_mean(&means[i]));
        if (!request->with_stderr)
            continue;
        text_append_format(text, ",\"%s_stderr\":", head_statistic_kinds[i].name);
        analysis_text_number(text, ratio_sums_stderr(&means[i]));
    }
}

static void write_peaks(struct text *text, const struct head_peaks *peaks, bool aligned)
{
    if (peaks->n_rows > 0) {
        text_append_format(text, ",\"sink_key\":%zu,\"sink_mass\":", peaks->sink_key);
        analysis_text_number(text, peaks->sink_mass);
    } else {
        text_append_string(text, ",\"sink_key\":null,\"sink_mass\":null");
    }
    if (peaks->n_rows > 0 && aligned) {
        text_append_format(text, ",\"best_offset\":%td,\"best_offset_share\":", peaks->best_offset);
        analysis_text_number(text, peaks->best_offset_share);
    } else {
        text_append_string(text, ",\"best_offset\":null,\"best_offset_share\":null");
    }
    text_append_format(text, ",\"n_rows\":%zu", peaks->n_rows);
}

/* The rows of a sequence as the lists have them: positions of the request, or words. */
static size_t rows_of_sequence(const struct stats_request *request, const struct forward_input *rule, size_t sequence)
{
    const uint32_t *ends = request->analysis.words.list_ends;
    if (!request->analysis.has_words)
        return rule->query_length;
    return ends[sequence] - (sequence ? ends[sequence - 1] : 0);
}

static void write_positions(struct text *text, const char *name, const struct stats_request *request,
                            const struct forward_input *rule, const float *values /* [B, Tq] */)
{
    text_append_format(text, ",\"%s_per_position\":[", name);
    for (size_t sequence = 0; sequence < rule->batch; sequence++) {
        const size_t rows = rows_of_sequence(request, rule, sequence);
        text_append_string(text, sequence ? ",[" : "[");
        for (size_t row = 0; row < rows; row++) {
            if (row)
                text_append(text, ",", 1);
            analysis_text_float(text, values[sequence * rule->query_length + row]);
        }
        text_append(text, "]", 1);
    }
    text_append(text, "]", 1);
}

bool stats_answer_encode(const struct stats_request *request, const struct stats_found *found, const char *weights,
                         const char *digest, struct text *text, struct error *error)
{
    const size_t length = text->length, positions = found->rule->batch * found->rule->query_length;
    const struct forward_request *forward = &request->analysis.forward;
    const struct head_statistics *statistics = &found->statistics;
    analysis_text_begin(text, forward, weights, digest);
    text_append_string(text, "\"heads\":[");
    for (size_t i = 0; i < size_max(found->num_layers, 1) * found->n_heads; i++) {
        const size_t head = i % found->n_heads;
        analysis_text_begin_head(text, i,
                                 found->num_layers ? forward_request_layer(forward, i / found->n_heads) : SIZE_MAX,
                                 forward->include_heads ? (size_t)forward->include_heads[head] : head);
        write_statistics(text, request, statistics->means + i * HEAD_STATISTIC_COUNT);
        write_peaks(text, &statistics->peaks[i], found->aligned);
        if (request->per_position) {
            write_positions(text, "distance", request, found->rule, statistics->distance_per_position + i * positions);
            write_positions(text, "entropy", request, found->rule, statistics->entropy_per_position + i * positions);
        }
        text_append(text, "}", 1);
    }
    text_append_format(text,
                       "],\"units\":{\"entropy\":\"nats\",\"distance\":\"tokens\"},\"n_rows\":%zu,\"n_excluded\":%zu}",
                       found->n_rows, found->n_excluded);
    if (!text->failed)
        return true;
    text->length = length;
    return error_out_of_memory(error);
}
