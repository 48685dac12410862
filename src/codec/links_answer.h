/* The answer of POST /v1/heads/links as JSON. */
#ifndef ATTND_CODEC_LINKS_ANSWER_H
#define ATTND_CODEC_LINKS_ANSWER_H

#include "analysis/head_links.h"
#include "base/text.h"
#include "codec/links_request.h"

/* What was found. */
struct links_found {
    struct maps_extent extent;
    struct head_links links;   /* of the heads of all layers, layer by layer */
    size_t shift;              /* of the maps: label of row i is that of key i + shift */
    size_t n_rows, n_excluded; /* of the layer that has scored the most rows */
};

/* An upper bound of the answer's bytes: `top_k` links of each head, of all layers together. `weights` NULL: maps were
 * posted. False on overflow.
 */
bool links_answer_bytes(const struct links_request *request, size_t num_heads, size_t top_k, const char *weights,
                        size_t *bytes);

/* Appends the whole document to *text. False when memory ran out: *text then has the length it had. */
bool links_answer_encode(const struct links_request *request, const struct links_found *found, const char *weights,
                         const char *digest, struct text *text, struct error *error);

#endif
