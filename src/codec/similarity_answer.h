/* The answer of POST /v1/heads/similarity as JSON. */
#ifndef ATTND_CODEC_SIMILARITY_ANSWER_H
#define ATTND_CODEC_SIMILARITY_ANSWER_H

#include "analysis/head_clusters.h"
#include "base/text.h"
#include "codec/similarity_request.h"

/* What was found. */
struct similarity_found {
    struct head_similarity similarity;
    size_t num_heads;
    double *redundancy; /* [num_heads] */
    uint32_t *clusters; /* [num_heads] of each head its cluster */
    size_t n_clusters;
    struct head_pair *pairs; /* [n_pairs], the most similar first */
    size_t n_pairs;
};

/* Pairs that an answer has at most. */
size_t similarity_pairs_most(const struct similarity_request *request, size_t num_heads);

/* An upper bound of the answer's bytes. `weights` NULL: the maps were posted. False on overflow. */
bool similarity_answer_bytes(const struct similarity_request *request, size_t num_heads, const char *weights,
                             size_t *bytes);

/* Appends "heads", "similarity", "redundancy", "clusters", "pairs", "diversity", "n_rows" and "n_excluded", with commas
 * between them; what is undefined is null. */
void similarity_text_found(struct text *text, const struct similarity_found *found);

/* Appends the whole document to *text. False when memory ran out: *text then has the length it had. */
bool similarity_answer_encode(const struct similarity_request *request, const struct similarity_found *found,
                              const char *weights, const char *digest, struct text *text, struct error *error);

#endif
