/* The answer of POST /v1/heads/links as JSON. */
#ifndef ATTND_CODEC_LINKS_ANSWER_H
#define ATTND_CODEC_LINKS_ANSWER_H

#include "analysis/head_links.h"
#include "base/text.h"
#include "codec/links_request.h"

/* An upper bound of the answer's bytes: `top_k` links of each head. `weights` NULL: maps were posted. False on
 * overflow.
 */
bool links_answer_bytes(const struct links_request *request, size_t num_heads, size_t top_k, const char *weights,
                        size_t *bytes);

/* Appends the whole document to *text. False when memory ran out: *text then has the length it had. */
bool links_answer_encode(const struct links_request *request, const struct head_maps *maps,
                         const struct head_links *links, const char *weights, const char *digest, struct text *text,
                         struct error *error);

#endif
