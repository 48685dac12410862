/* The answer of /v1/heads/importance as JSON. */
#ifndef ATTND_CODEC_IMPORTANCE_ANSWER_H
#define ATTND_CODEC_IMPORTANCE_ANSWER_H

#include "base/text.h"
#include "codec/importance_request.h"

/* An upper bound of the answer's bytes. False on overflow. */
bool importance_answer_bytes(const struct importance_request *request, size_t num_heads, const char *weights,
                             size_t *bytes);

/* Appends the whole document to *text; what is undefined is null, and numbers read back as the same double. `weights`
 * and `digest` are the set's name and digest. False when memory ran out: *text then has the length it had. */
bool importance_answer_encode(const struct importance_request *request, size_t num_heads,
                              const struct importance *importance, const char *weights, const char *digest,
                              struct text *text, struct error *error);

#endif
