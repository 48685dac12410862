/* The answers of the GET forms under /v1/heads. What is undefined is null. */
#include "codec/live_answer.h"

#include "analysis/live_similarity.h"
#include "base/size.h"
#include "codec/analysis_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The members that all have, apart from the name; a name's byte takes at most six. */
#define ENVELOPE_BYTES 1024
/* "uniform_previous_mass_stderr":, a number, a comma. */
#define MEMBER_BYTES (36 + ANALYSIS_NUMBER_BYTES)
/* {"head_a":,"head_b":,"similarity":}, two heads, a number, a comma. */
#define PAIR_BYTES 96
/* {"head":,"statistic":"","baseline":,"window":,"z":,"effect":,"drifted":false}, the values, a comma. */
#define DRIFT_BYTES (160 + 4 * ANALYSIS_NUMBER_BYTES)
/* A float32 and a comma; a head in a list. */
#define ELEMENT_BYTES 18

struct live_view live_view_of(const char *weights, const char *digest, const struct live_sums *sums)
{
    struct live_view view = {.weights = weights, .digest = digest, .sums = sums, .n_heads = sums->num_heads};
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
        view.statistics[i] = head_statistic_kinds[i].live;
    return view;
}

void live_date(uint64_t ms, char text[LIVE_DATE_BYTES])
{
    const time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    const size_t length = strftime(text, LIVE_DATE_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, LIVE_DATE_BYTES - length, ".%03uZ", (unsigned)(ms % 1000));
}

static size_t envelope_bytes(const struct live_view *view)
{
    return ENVELOPE_BYTES + 6 * strlen(view->weights) + strlen(view->digest);
}

static uint32_t head_at(const struct live_view *view, size_t i)
{
    return view->heads ? view->heads[i] : (uint32_t)i;
}

static void begin(const struct live_view *view, struct text *text)
{
    char since[LIVE_DATE_BYTES];
    live_date(view->since_ms, since);
    text_append_string(text, "{\"weights\":");
    text_append_json(text, view->weights, strlen(view->weights));
    text_append_string(text, ",\"digest\":");
    text_append_json(text, view->digest, strlen(view->digest));
    text_append_format(text, ",\"since\":\"%s\"", since);
    if (view->window_s > 0) {
        text_append_string(text, ",\"window_s\":");
        analysis_text_number(text, view->window_s);
    }
}

static void end(const struct live_view *view, struct text *text)
{
    const struct live_counts *counts = &view->sums->counts;
    text_append_format(text, ",\"n_sequences\":%.0f,\"n_rows\":%.0f,\"n_excluded\":%.0f,\"n_skipped\":%.0f}",
                       counts->sequences, counts->rows, counts->excluded, counts->skipped);
}

/* ---- statistics */

bool live_stats_bytes(const struct live_view *view, size_t *bytes)
{
    size_t heads;
    return size_multiply(view->n_heads, 2 * HEAD_STATISTIC_COUNT * MEMBER_BYTES + ELEMENT_BYTES, &heads) &&
           size_add(heads, envelope_bytes(view), bytes);
}

static void write_member(const char *name, const char *end_of_name, double value, struct text *text)
{
    text_append_string(text, ",\"");
    text_append_string(text, name);
    text_append_string(text, end_of_name);
    analysis_text_number(text, value);
}

static void write_head(const struct live_view *view, uint32_t head, struct text *text)
{
    text_append_string(text, "{\"head\":");
    text_append_size(text, head);
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
        if (!view->statistics[i])
            continue;
        const struct ratio_sums sums = live_sums_of(view->sums, 0, head, (enum head_statistic)i);
        const char *name = head_statistic_kinds[i].name;
        write_member(name, "\":", ratio_sums_mean(&sums), text);
        write_member(name, "_stderr\":", ratio_sums_stderr(&sums), text);
    }
    text_append(text, "}", 1);
}

void live_stats_write(const struct live_view *view, struct text *text)
{
    if (!view->rows) {
        begin(view, text);
        text_append_string(text, ",\"heads\":");
    }
    text_append(text, "[", 1);
    for (size_t i = 0; i < view->n_heads; i++) {
        if (i)
            text_append(text, ",", 1);
        write_head(view, head_at(view, i), text);
    }
    text_append(text, "]", 1);
    if (!view->rows) {
        text_append_string(text, ",\"units\":{\"entropy\":\"nats\",\"distance\":\"tokens\"}");
        end(view, text);
    }
}

/* ---- similarity */

static bool similarity_elements(const struct live_view *view, const struct live_similarity_question *question,
                                size_t *matrix, size_t *pairs)
{
    const size_t heads = view->sums->num_heads;
    if (!size_multiply(heads, heads, matrix))
        return false;
    *pairs = size_min(question->max_pairs, *matrix / 2);
    return true;
}

bool live_similarity_bytes(const struct live_view *view, const struct live_similarity_question *question, size_t *bytes,
                           size_t *scratch_bytes)
{
    const size_t heads = view->sums->num_heads;
    size_t matrix, pairs, scratch, text, one;
    if (!similarity_elements(view, question, &matrix, &pairs) || !size_multiply(matrix, sizeof(double), &scratch) ||
        !size_multiply(pairs, sizeof(struct head_pair), &one) || !size_add(scratch, one, &scratch) ||
        !size_add(scratch, heads * (sizeof(double) + sizeof(uint32_t)), scratch_bytes))
        return false;
    if (!size_multiply(view->rows ? matrix / 2 : pairs, PAIR_BYTES, &text) ||
        !size_multiply(matrix + 4 * heads, ELEMENT_BYTES, &one) || !size_add(text, one, &text))
        return false;
    return size_add(text, envelope_bytes(view), bytes);
}

static void write_pair(const struct head_pair *pair, bool first, struct text *text)
{
    text_append_string(text, first ? "{\"head_a\":" : ",{\"head_a\":");
    text_append_size(text, pair->head_a);
    text_append_string(text, ",\"head_b\":");
    text_append_size(text, pair->head_b);
    text_append_string(text, ",\"similarity\":");
    analysis_text_float(text, (float)pair->similarity);
    text_append(text, "}", 1);
}

static void write_all_pairs(const double *similarity, size_t heads, struct text *text)
{
    text_append(text, "[", 1);
    for (uint32_t a = 0; a < heads; a++)
        for (uint32_t b = a + 1; b < heads; b++)
            write_pair(&(struct head_pair){a, b, similarity[a * heads + b]}, a == 0 && b == 1, text);
    text_append(text, "]", 1);
}

static void write_numbers(const double *numbers, size_t count, struct text *text)
{
    for (size_t i = 0; i < count; i++) {
        text_append(text, i ? "," : "[", 1);
        analysis_text_float(text, (float)numbers[i]);
    }
    text_append(text, "]", 1);
}

static void write_clusters(const uint32_t *clusters, size_t heads, size_t count, struct text *text)
{
    text_append_string(text, ",\"clusters\":[");
    for (size_t cluster = 0; cluster < count; cluster++) {
        bool first = true;
        text_append_string(text, cluster ? ",[" : "[");
        for (size_t head = 0; head < heads; head++)
            if (clusters[head] == cluster) {
                text_append_format(text, "%s%zu", first ? "" : ",", head);
                first = false;
            }
        text_append(text, "]", 1);
    }
    text_append(text, "]", 1);
}

void live_similarity_write(const struct live_view *view, const struct live_similarity_question *question, void *scratch,
                           struct text *text)
{
    const size_t heads = view->sums->num_heads;
    size_t matrix = 0, most = 0;
    similarity_elements(view, question, &matrix, &most); /* did not overflow when it was counted */
    double *similarity = scratch, *redundancy = similarity + matrix;
    struct head_pair *pairs = (struct head_pair *)(redundancy + heads);
    uint32_t *clusters = (uint32_t *)(pairs + most);
    live_similarity(view->sums, 0, question->metric, similarity);
    if (view->rows) {
        write_all_pairs(similarity, heads, text);
        return;
    }
    begin(view, text);
    text_append_format(text, ",\"metric\":\"%s\",\"on\":\"attention\",\"reduce\":\"pooled\",\"threshold\":",
                       similarity_metric_name(question->metric));
    analysis_text_number(text, question->threshold);
    for (size_t head = 0; head < heads; head++)
        text_append_format(text, head ? ",%zu" : ",\"heads\":[%zu", head);
    text_append_string(text, "],\"similarity\":[");
    for (size_t head = 0; head < heads; head++) {
        if (head)
            text_append(text, ",", 1);
        write_numbers(similarity + head * heads, heads, text);
    }
    head_redundancy(similarity, heads, redundancy);
    text_append_string(text, "],\"redundancy\":");
    write_numbers(redundancy, heads, text);
    write_clusters(clusters, heads, head_clusters(similarity, heads, question->threshold, clusters), text);
    const size_t count = head_pairs(similarity, 1, heads, pairs, most);
    text_append_string(text, ",\"pairs\":[");
    for (size_t i = 0; i < count; i++)
        write_pair(&pairs[i], i == 0, text);
    text_append(text, "]", 1);
    end(view, text);
}

/* ---- drift */

bool live_drift_bytes(const struct live_view *view, size_t *bytes)
{
    size_t heads;
    return size_multiply(view->n_heads, HEAD_STATISTIC_COUNT * DRIFT_BYTES, &heads) &&
           size_add(heads, envelope_bytes(view), bytes);
}

static void write_drift(const struct live_view *view, const struct live_sums *baseline,
                        const struct drift_limits *limits, uint32_t head, enum head_statistic statistic,
                        struct text *text)
{
    const struct ratio_sums before = live_sums_of(baseline, 0, head, statistic),
                            within = live_sums_of(view->sums, 0, head, statistic);
    const struct drift drift = live_drift(&before, &within, limits);
    text_append_format(text, "{\"head\":%u,\"statistic\":\"%s\",\"baseline\":", head,
                       head_statistic_kinds[statistic].name);
    analysis_text_number(text, drift.baseline);
    text_append_string(text, ",\"window\":");
    analysis_text_number(text, drift.window);
    text_append_string(text, ",\"z\":");
    analysis_text_number(text, drift.z);
    text_append_string(text, ",\"effect\":");
    analysis_text_number(text, drift.effect);
    text_append_format(text, ",\"drifted\":%s}", drift.drifted ? "true" : "false");
}

static void write_side(const char *name, const struct live_sums *sums, struct text *text)
{
    text_append_format(text, ",\"%s\":{\"n_sequences\":%.0f,\"n_rows\":%.0f}", name, sums->counts.sequences,
                       sums->counts.rows);
}

void live_drift_write(const struct live_view *view, const struct live_sums *baseline, const struct drift_limits *limits,
                      struct text *text)
{
    bool first = true;
    if (!view->rows) {
        begin(view, text);
        text_append_string(text, ",\"threshold\":");
        analysis_text_number(text, limits->threshold);
        text_append_string(text, ",\"min_effect\":");
        analysis_text_number(text, limits->min_effect);
        text_append_string(text, ",\"min_sequences\":");
        analysis_text_number(text, limits->min_sequences);
        write_side("baseline", baseline, text);
        write_side("window", view->sums, text);
        text_append_string(text, ",\"heads\":");
    }
    text_append(text, "[", 1);
    for (size_t i = 0; i < view->n_heads; i++)
        for (size_t statistic = 0; statistic < HEAD_STATISTIC_COUNT; statistic++) {
            if (!view->statistics[statistic] || head_statistic_kinds[statistic].baseline)
                continue;
            if (!first)
                text_append(text, ",", 1);
            first = false;
            write_drift(view, baseline, limits, head_at(view, i), (enum head_statistic)statistic, text);
        }
    text_append_string(text, view->rows ? "]" : "]}");
}
