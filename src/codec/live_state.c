/* Writing of state documents. Entered by the thread that merged the sums. */
#include "codec/live_state.h"

#include "base/size.h"
#include "codec/analysis_text.h"
#include "codec/state_sums.h"

#include <string.h>

/* The members that are not lists, but for the name, and the names of the statistics. */
#define ENVELOPE_BYTES ((size_t)8192)

/* Of a part: the keys; what the heads have in common; the baselines. */
#define PART_NUMBERS ((size_t)(2 + 3 * LIVE_STATISTIC_COUNT + 7 * LIVE_BASELINE_COUNT))

bool live_state_bytes(const struct live_state *state, size_t *bytes)
{
    const size_t layers = state->sums.num_layers, heads = state->sums.num_heads;
    size_t products, statistics, parts;
    return size_multiply(live_sums_pairs(heads), layers * ANALYSIS_NUMBER_BYTES, &products) &&
           size_multiply(heads, layers * 4 * LIVE_STATISTIC_COUNT * ANALYSIS_NUMBER_BYTES, &statistics) &&
           size_multiply(state->sums.num_parts, PART_NUMBERS * ANALYSIS_NUMBER_BYTES, &parts) &&
           size_add(products, statistics, bytes) && size_add(*bytes, parts, bytes) &&
           size_add(*bytes, ENVELOPE_BYTES + 6 * strlen(state->weights), bytes);
}

static void member(struct text *text, const char *name, const char *value)
{
    text_append_format(text, ",\"%s\":", name);
    text_append_json(text, value, strlen(value));
}

/* The name of a member, behind a comma where it is not an object's first. */
static void name_member(struct text *text, const char *name)
{
    text_append_format(text, "%s\"%s\":", text->length > 0 && text->data[text->length - 1] == '{' ? "" : ",", name);
}

static void number(struct text *text, const char *name, double value)
{
    name_member(text, name);
    analysis_text_number(text, value);
}

/* Numbers of each part, `stride` apart: one after the other. */
static void list(struct text *text, const char *name, const double *numbers, size_t parts, size_t stride, size_t count)
{
    name_member(text, name);
    text_append(text, "[", 1);
    for (size_t part = 0; part < parts; part++)
        for (size_t i = 0; i < count; i++) {
            if (part + i > 0)
                text_append(text, ",", 1);
            analysis_text_number(text, numbers[part * stride + i]);
        }
    text_append(text, "]", 1);
}

/* A number that all layers have in common, or each its own. */
static void of_parts(struct text *text, const char *name, const double *numbers, size_t parts, size_t stride)
{
    if (parts == 1)
        number(text, name, *numbers);
    else
        list(text, name, numbers, parts, stride, 1);
}

static void write_statistic(struct text *text, const struct state_sums *sums, bool first)
{
    text_append_format(text, "%s\"%s\":{", first ? "" : ",", sums->name);
    of_parts(text, "sequences", sums->sequences, sums->parts, sums->stride);
    of_parts(text, "n", sums->n, sums->parts, sums->stride);
    of_parts(text, "nn", sums->nn, sums->parts, sums->stride);
    for (size_t i = 0; i < STATE_VALUES; i++)
        list(text, state_value_names[i], sums->values[i], sums->parts, sums->values_stride, sums->count);
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
    of_parts(text, "n_allowed", &sums->keys->allowed, sums->num_parts, STATE_KEYS_STRIDE);
    of_parts(text, "even", &sums->keys->even, sums->num_parts, STATE_KEYS_STRIDE);
    text_append_string(text, ",\"statistics\":{");
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        write_statistic(text, (struct state_sums[]){state_sums_of_statistic(sums, i)}, i == 0);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        write_statistic(text, (struct state_sums[]){state_sums_of_baseline(sums, i)}, false);
    text_append(text, "}", 1);
    list(text, "products", sums->products, 1, 0, sums->num_layers * live_sums_pairs(sums->num_heads));
    text_append(text, "}", 1);
}
