/* What POST /v1/heads/links is asked, decoded from a body. */
#ifndef ATTND_CODEC_LINKS_REQUEST_H
#define ATTND_CODEC_LINKS_REQUEST_H

#include "codec/analysis_request.h"
#include "codec/position_lists.h"

struct links_request {
    struct analysis_request analysis;
    struct label_lists tokens;
    size_t top_k;      /* at least 1 */
    double min_weight; /* 0 to 1 */
};

/* Decodes a body; memory as forward_request_decode has it. */
bool links_request_decode(const struct request_body *body, struct arena *arena, struct links_request *request,
                          struct error *error);

/* Checks the labels against the sequences: a list for each, with a label for each of its positions (those of the keys,
 * where queries stand at the last of them), or for each of its words. */
bool links_request_check_tokens(const struct links_request *request, const struct forward_input *rule,
                                struct error *error);

#endif
