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
/* {"layer":,"head_a":,"head_b":,"similarity":}, their numbers, a number, a comma. */
#define PAIR_BYTES 128
/* {"layer":,"head":,"statistic":"","baseline":,"window":,"z":,"effect":,"drifted":false}, the values, a comma. */
#define DRIFT_BYTES (160 + ANALYSIS_HEAD_BYTES + 4 * ANALYSIS_NUMBER_BYTES)
/* A float32 and a comma; a head in a list. */
#define ELEMENT_BYTES 18
/* A head with its layer. */
#define NAME_BYTES (ANALYSIS_HEAD_BYTES + 2)

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

/* Entries of heads: those of every layer. */
static bool count_entries(const struct live_view *view, size_t *entries)
{
    return size_multiply(view->sums->num_layers, view->n_heads, entries);
}

/* The beginning of an entry; with its layer where there are several. */
static void begin_head(const struct live_view *view, size_t entry, size_t layer, size_t head, struct text *text)
{
    analysis_text_begin_head(text, entry, view->sums->num_layers > 1 ? layer : SIZE_MAX, head);
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
    size_t entries, heads;
    return count_entries(view, &entries) &&
           size_multiply(entries, 2 * HEAD_STATISTIC_COUNT * MEMBER_BYTES + NAME_BYTES, &heads) &&
           size_add(heads, envelope_bytes(view), bytes);
}

static void write_member(const char *name, const char *end_of_name, double value, struct text *text)
{
    text_append_string(text, ",\"");
    text_append_string(text, name);
    text_append_string(text, end_of_name);
    analysis_text_number(text, value);
}

static void write_head(const struct live_view *view, size_t entry, struct text *text)
{
    const size_t layer = entry / view->n_heads, head = head_at(view, entry % view->n_heads);
    begin_head(view, entry, layer, head, text);
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
        if (!view->statistics[i])
            continue;
        const struct ratio_sums sums = live_sums_of(view->sums, layer, head, (enum head_statistic)i);
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
    for (size_t i = 0; i < view->sums->num_layers * view->n_heads; i++)
        write_head(view, i, text);
    text_append(text, "]", 1);
    if (!view->rows) {
        text_append_string(text, ",\"units\":{\"entropy\":\"nats\",\"distance\":\"tokens\"}");
        end(view, text);
    }
}

/* ---- similarity */

/* Numbers of all layers' matrices; pairs that are listed at most. */
static bool similarity_elements(const struct live_view *view, const struct live_similarity_question *question,
                                size_t *matrices, size_t *pairs)
{
    const size_t heads = view->sums->num_heads;
    if (!size_multiply(heads, heads, matrices) || !size_multiply(*matrices, view->sums->num_layers, matrices))
        return false;
    *pairs = size_min(question->max_pairs, *matrices / 2);
    return true;
}

bool live_similarity_bytes(const struct live_view *view, const struct live_similarity_question *question, size_t *bytes,
                           size_t *scratch_bytes)
{
    size_t matrices, pairs, scratch, text, one, heads;
    if (!similarity_elements(view, question, &matrices, &pairs) ||
        !size_multiply(view->sums->num_layers, view->sums->num_heads, &heads) ||
        !size_multiply(matrices, sizeof(double), &scratch) || !size_multiply(pairs, sizeof(struct head_pair), &one) ||
        !size_add(scratch, one, &scratch) ||
        !size_add(scratch, heads * (sizeof(double) + sizeof(uint32_t)), scratch_bytes))
        return false;
    if (!size_multiply(view->rows ? matrices / 2 : pairs, PAIR_BYTES, &text) ||
        !size_multiply(matrices + 4 * heads, ELEMENT_BYTES, &one) || !size_add(text, one, &text) ||
        !size_multiply(heads, NAME_BYTES + 16, &one) || !size_add(text, one, &text))
        return false;
    return size_add(text, envelope_bytes(view), bytes);
}

/* The heads' numbers are those within the layer. */
static void write_pair(const struct live_view *view, const struct head_pair *pair, bool first, struct text *text)
{
    const size_t heads = view->sums->num_heads;
    text_append_string(text, first ? "{" : ",{");
    if (view->sums->num_layers > 1)
        text_append_format(text, "\"layer\":%zu,", pair->head_a / heads);
    text_append_format(text, "\"head_a\":%zu,\"head_b\":%zu,\"similarity\":", pair->head_a % heads,
                       pair->head_b % heads);
    analysis_text_float(text, (float)pair->similarity);
    text_append(text, "}", 1);
}

static void write_all_pairs(const struct live_view *view, const double *similarity, struct text *text)
{
    const size_t heads = view->sums->num_heads;
    bool first = true;
    text_append(text, "[", 1);
    for (size_t layer = 0; layer < view->sums->num_layers; layer++)
        for (size_t a = 0; a < heads; a++)
            for (size_t b = a + 1; b < heads; b++) {
                const struct head_pair pair = {(uint32_t)(layer * heads + a), (uint32_t)(layer * heads + b),
                                               similarity[(layer * heads + a) * heads + b]};
                write_pair(view, &pair, first, text);
                first = false;
            }
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

static void write_matrix(const double *similarity, size_t heads, struct text *text)
{
    for (size_t head = 0; head < heads; head++) {
        text_append(text, head ? "," : "[", 1);
        write_numbers(similarity + head * heads, heads, text);
    }
    text_append(text, "]", 1);
}

static void write_clusters(const uint32_t *clusters, size_t heads, size_t count, struct text *text)
{
    text_append(text, "[", 1);
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

static void write_names(const struct live_view *view, struct text *text)
{
    const struct live_sums *sums = view->sums;
    for (size_t i = 0; i < sums->num_layers * sums->num_heads; i++)
        if (sums->num_layers > 1) {
            begin_head(view, i, i / sums->num_heads, i % sums->num_heads, text);
            text_append(text, "}", 1);
        } else {
            text_append_format(text, i ? ",%zu" : "%zu", i);
        }
}

/* Before what there is of a layer: a comma, or the member's name; of several layers it is a list. */
static void begin_layer(const struct live_view *view, size_t layer, const char *name, struct text *text)
{
    if (layer)
        text_append(text, ",", 1);
    else
        text_append_format(text, ",\"%s\":%s", name, view->sums->num_layers > 1 ? "[" : "");
}

static void end_layers(const struct live_view *view, struct text *text)
{
    if (view->sums->num_layers > 1)
        text_append(text, "]", 1);
}

void live_similarity_write(const struct live_view *view, const struct live_similarity_question *question, void *scratch,
                           struct text *text)
{
    const size_t heads = view->sums->num_heads, layers = view->sums->num_layers, square = heads * heads;
    size_t matrices = 0, most = 0;
    similarity_elements(view, question, &matrices, &most); /* did not overflow when it was counted */
    double *similarity = scratch, *redundancy = similarity + matrices;
    struct head_pair *pairs = (struct head_pair *)(redundancy + layers * heads);
    uint32_t *clusters = (uint32_t *)(pairs + most);
    for (size_t layer = 0; layer < layers; layer++)
        live_similarity(view->sums, layer, question->metric, similarity + layer * square);
    if (view->rows) {
        write_all_pairs(view, similarity, text);
        return;
    }
    begin(view, text);
    text_append_format(text, ",\"metric\":\"%s\",\"on\":\"attention\",\"reduce\":\"pooled\",%s\"threshold\":",
                       similarity_metric_name(question->metric), layers > 1 ? "\"across\":\"layer\"," : "");
    analysis_text_number(text, question->threshold);
    text_append_string(text, ",\"heads\":[");
    write_names(view, text);
    text_append(text, "]", 1);
    for (size_t layer = 0; layer < layers; layer++) {
        begin_layer(view, layer, "similarity", text);
        write_matrix(similarity + layer * square, heads, text);
    }
    end_layers(view, text);
    for (size_t layer = 0; layer < layers; layer++) {
        begin_layer(view, layer, "redundancy", text);
        head_redundancy(similarity + layer * square, heads, redundancy + layer * heads);
        write_numbers(redundancy + layer * heads, heads, text);
    }
    end_layers(view, text);
    for (size_t layer = 0; layer < layers; layer++) {
        begin_layer(view, layer, "clusters", text);
        write_clusters(clusters, heads,
                       head_clusters(similarity + layer * square, heads, question->threshold, clusters), text);
    }
    end_layers(view, text);
    const size_t count = head_pairs(similarity, layers, heads, pairs, most);
    text_append_string(text, ",\"pairs\":[");
    for (size_t i = 0; i < count; i++)
        write_pair(view, &pairs[i], i == 0, text);
    text_append(text, "]", 1);
    end(view, text);
}

/* ---- drift */

bool live_drift_bytes(const struct live_view *view, size_t *bytes)
{
    size_t entries, heads;
    return count_entries(view, &entries) && size_multiply(entries, HEAD_STATISTIC_COUNT * DRIFT_BYTES, &heads) &&
           size_add(heads, envelope_bytes(view), bytes);
}

static void write_drift(const struct live_view *view, const struct live_sums *baseline,
                        const struct drift_limits *limits, size_t entry, enum head_statistic statistic, bool first,
                        struct text *text)
{
    const size_t layer = entry / view->n_heads, head = head_at(view, entry % view->n_heads);
    const struct ratio_sums before = live_sums_of(baseline, layer, head, statistic),
                            within = live_sums_of(view->sums, layer, head, statistic);
    const struct drift drift = live_drift(&before, &within, limits);
    begin_head(view, !first, layer, head, text);
    text_append_format(text, ",\"statistic\":\"%s\",\"baseline\":", head_statistic_kinds[statistic].name);
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
    for (size_t i = 0; i < view->sums->num_layers * view->n_heads; i++)
        for (size_t statistic = 0; statistic < HEAD_STATISTIC_COUNT; statistic++) {
            if (!view->statistics[statistic] || head_statistic_kinds[statistic].baseline)
                continue;
            write_drift(view, baseline, limits, i, (enum head_statistic)statistic, first, text);
            first = false;
        }
    text_append_string(text, view->rows ? "]" : "]}");
}
