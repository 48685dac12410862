/* Numbers and the beginning of an analysis' answer. As text, not as a tree: an id may be an integer of more digits than
 * a tree holds. */
#include "codec/analysis_text.h"

#include "json/number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The names of the members, a digest, two counts, braces. */
#define ENVELOPE_BYTES 512

void analysis_text_number(struct text *text, double value)
{
    char digits[ANALYSIS_NUMBER_BYTES];
    if (isfinite(value))
        text_append(text, digits, (size_t)(number_write_f64(digits, value) - digits));
    else
        text_append_string(text, "null");
}

void analysis_text_float(struct text *text, float value)
{
    char digits[ANALYSIS_NUMBER_BYTES];
    if (isfinite(value))
        text_append(text, digits, (size_t)(number_write_f32(digits, value) - digits));
    else
        text_append_string(text, "null");
}

void analysis_text_begin(struct text *text, const struct forward_request *forward, const char *weights,
                         const char *digest)
{
    text_append(text, "{", 1);
    if (forward->id)
        text_append_format(text, "\"id\":%s,", forward->id);
    if (!weights)
        return;
    text_append_string(text, "\"weights\":");
    text_append_json(text, weights, strlen(weights));
    text_append_string(text, ",\"digest\":");
    text_append_json(text, digest, strlen(digest));
    text_append(text, ",", 1);
}

void analysis_text_begin_head(struct text *text, size_t entry, size_t layer, size_t head)
{
    text_append_string(text, entry ? ",{" : "{");
    if (layer != SIZE_MAX)
        text_append_format(text, "\"layer\":%zu,", layer);
    text_append_format(text, "\"head\":%zu", head);
}

size_t analysis_text_begin_bytes(const struct forward_request *forward, const char *weights)
{
    /* A byte of the name takes at most six. */
    return ENVELOPE_BYTES + (weights ? 6 * strlen(weights) : 0) + (forward->id ? strlen(forward->id) : 0);
}
