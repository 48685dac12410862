/* Writing of state documents. Entered by the thread that merged the sums. */
#include "codec/live_state.h"

#include "base/size.h"
#include "codec/analysis_text.h"

#include <string.h>

/* The members that are not lists, but for the name, and the names of the statistics. */
#define ENVELOPE_BYTES ((size_t)8192)

bool live_state_bytes(const struct live_state *state, size_t *bytes)
{
    const size_t layers = state->sums.num_layers, heads = state->sums.num_heads;
    size_t products, statistics;
    return size_multiply(live_sums_pairs(heads), layers * ANALYSIS_NUMBER_BYTES, &products) &&
           size_multiply(heads, layers * 4 * LIVE_STATISTIC_COUNT * ANALYSIS_NUMBER_BYTES, &statistics) &&
           size_add(products, statistics, bytes) &&
           size_add(*bytes, ENVELOPE_BYTES + 6 * strlen(state->weights), bytes);
}

static void member(struct text *text, const char *name, const char *value)
{
    text_append_format(text, ",\"%s\":", name);
    text_append_json(text, value, strlen(value));
}

static void number(struct text *text, const char *name, double value)
{
    text_append_format(text, ",\"%s\":", name);
    analysis_text_number(text, value);
}

static void list(struct text *text, const char *name, const double *numbers, size_t count)
{
    text_append_format(text, ",\"%s\":", name);
    for (size_t i = 0; i < count; i++) {
        text_append(text, i ? "," : "[", 1);
        analysis_text_number(text, numbers[i]);
    }
    text_append(text, "]", 1);
}

/* The sums of `count` heads, which have the rows of a statistic in common. */
static void write_sums(struct text *text, const char *name, const struct live_means *means,
                       const double *values /* [4, columns] */, size_t columns, size_t count, bool first)
{
    text_append_format(text, "%s\"%s\":{\"sequences\":%.0f", first ? "" : ",", name, means->sequences);
    number(text, "n", means->n);
    number(text, "nn", means->nn);
    list(text, "offset", values, count);
    list(text, "z", values + columns, count);
    list(text, "zz", values + 2 * columns, count);
    list(text, "zn", values + 3 * columns, count);
    text_append(text, "}", 1);
}

void live_state_write(const struct live_state *state, struct text *text)
{
    const struct live_sums *sums = &state->sums;
    const struct live_counts *counts = &sums->counts;
    text_append_string(text, "{\"format\":\"" LIVE_STATE_FORMAT "\"");
    member(text, "instance", state->instance);
    member(text, "weights", state->weights);
    member(text, "digest", state->digest);
    text_append_format(text, ",\"num_layers\":%zu,\"num_heads\":%zu", sums->num_layers, sums->num_heads);
    number(text, "sample_rate", state->sample_rate);
    member(text, "since", state->since);
    if (state->window_s > 0)
        number(text, "window_s", state->window_s);
    number(text, "n_sequences", counts->sequences);
    number(text, "n_rows", counts->rows);
    number(text, "n_excluded", counts->excluded);
    number(text, "n_skipped", counts->skipped);
    number(text, "n_allowed", counts->allowed);
    number(text, "even", counts->even);
    text_append_string(text, ",\"statistics\":{");
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        write_sums(text, head_statistic_kinds[live_statistics[i]].name, &sums->means[i], live_sums_values(sums, i),
                   sums->columns, sums->num_layers * sums->num_heads, i == 0);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++) {
        const struct ratio_sums *one = &sums->baselines[i];
        const struct live_means means = {one->sequences, one->n, one->nn};
        const double values[] = {one->offset, one->z, one->zz, one->zn};
        write_sums(text, head_statistic_kinds[live_baselines[i]].name, &means, values, 1, 1, false);
    }
    text_append(text, "}", 1);
    list(text, "products", sums->products, sums->num_layers * live_sums_pairs(sums->num_heads));
    text_append(text, "}", 1);
}
