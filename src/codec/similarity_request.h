/* What POST /v1/heads/similarity is asked, decoded from a body. */
#ifndef ATTND_CODEC_SIMILARITY_REQUEST_H
#define ATTND_CODEC_SIMILARITY_REQUEST_H

#include "analysis/head_similarity.h"
#include "codec/analysis_request.h"

/* Which heads of many layers are compared. */
enum similarity_across { SIMILARITY_ACROSS_MODEL, SIMILARITY_ACROSS_LAYER };

struct similarity_request {
    struct analysis_request analysis;
    struct similarity_question question;
    enum similarity_across across; /* says nothing where there is one layer */
    double threshold;              /* of clusters, -1 to 1 */
    size_t max_pairs;
};

/* "attention" and "output", "pooled" and "mean", "model" and "layer". */
extern const char *const similarity_subject_names[], *const similarity_reduction_names[],
                                                         *const similarity_across_names[];

/* Decodes a body; memory as forward_request_decode has it. */
bool similarity_request_decode(const struct request_body *body, struct arena *arena, struct similarity_request *request,
                               struct error *error);

#endif
