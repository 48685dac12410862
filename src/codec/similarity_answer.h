/* The answer of POST /v1/heads/similarity as JSON. */
#ifndef ATTND_CODEC_SIMILARITY_ANSWER_H
#define ATTND_CODEC_SIMILARITY_ANSWER_H

#include "analysis/head_clusters.h"
#include "base/text.h"
#include "codec/similarity_request.h"

/* Heads that are compared with each other: all of them, or, within layers, those of each. */
struct similarity_blocks_of {
    size_t count, heads; /* [count] matrices [heads, heads] */
};
struct similarity_blocks_of similarity_blocks_compared(const struct similarity_request *request,
                                                       const struct maps_extent *extent);

/* What was found, with the blocks as similarity_blocks_compared has them. */
struct similarity_found {
    struct head_similarity similarity; /* [blocks, heads, heads]; diversity [num_layers] */
    struct maps_extent extent;
    double *redundancy;      /* [blocks, heads] */
    uint32_t *clusters;      /* [blocks, heads] of each head its cluster */
    size_t *n_clusters;      /* [blocks] */
    struct head_pair *pairs; /* [n_pairs], the most similar first */
    size_t n_pairs;
};

/* Pairs that an answer has at most. */
size_t similarity_pairs_most(const struct similarity_request *request, const struct maps_extent *extent);

/* An upper bound of the answer's bytes. `weights` NULL: the maps were posted. False on overflow. */
bool similarity_answer_bytes(const struct similarity_request *request, const struct maps_extent *extent,
                             const char *weights, size_t *bytes);

/* Appends the whole document to *text. False when memory ran out: *text then has the length it had. */
bool similarity_answer_encode(const struct similarity_request *request, const struct similarity_found *found,
                              const char *weights, const char *digest, struct text *text, struct error *error);

#endif
