/* The answer of POST /v1/heads/stats as JSON. */
#ifndef ATTND_CODEC_STATS_ANSWER_H
#define ATTND_CODEC_STATS_ANSWER_H

#include "analysis/head_statistics.h"
#include "base/text.h"
#include "codec/stats_request.h"

/* An upper bound of the answer's bytes, for n_heads (of all layers together) of maps that `rule` describes. `weights`
 * NULL: they were posted. False on overflow. */
bool stats_answer_bytes(const struct stats_request *request, const struct forward_input *rule, size_t n_heads,
                        const char *weights, size_t *bytes);

/* What was found, beside the request. */
struct stats_found {
    const struct forward_input *rule;
    size_t num_layers;                 /* that were measured; 0: entries have no layer */
    size_t n_heads;                    /* of request->analysis.forward.include_heads, or all; of each layer */
    struct head_statistics statistics; /* of the heads of all layers, layer by layer */
    size_t n_rows, n_excluded;         /* of the layer that has scored the most rows */
    bool aligned;
};

/* Appends the whole document to *text; what is undefined is null. False when memory ran out: *text then has the length
 * it had. */
bool stats_answer_encode(const struct stats_request *request, const struct stats_found *found, const char *weights,
                         const char *digest, struct text *text, struct error *error);

#endif
