/* The answer of /v1/heads/importance as JSON. */
#ifndef ATTND_CODEC_IMPORTANCE_ANSWER_H
#define ATTND_CODEC_IMPORTANCE_ANSWER_H

#include "base/text.h"
#include "codec/importance_request.h"

/* The heads that were measured, of the layers of include_layers; num_layers 0: entries have no layer. */
struct importance_found {
    size_t num_layers, num_heads;
    struct importance importance; /* of all layers, layer by layer; rows are those of the layer with the most */
};

/* An upper bound of the answer's bytes, for so many heads of all layers. False on overflow. */
bool importance_answer_bytes(const struct importance_request *request, size_t num_heads, const char *weights,
                             size_t *bytes);

/* Appends the whole document to *text; what is undefined is null, and numbers read back as the same double. `weights`
 * and `digest` are the set's name and digest. False when memory ran out: *text then has the length it had. */
bool importance_answer_encode(const struct importance_request *request, const struct importance_found *found,
                              const char *weights, const char *digest, struct text *text, struct error *error);

#endif
