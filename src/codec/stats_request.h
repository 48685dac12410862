/* What POST /v1/heads/stats is asked, decoded from a body. */
#ifndef ATTND_CODEC_STATS_REQUEST_H
#define ATTND_CODEC_STATS_REQUEST_H

#include "codec/analysis_request.h"

struct stats_request {
    struct analysis_request analysis;
    bool per_position;
    bool with_stderr;
};

/* Decodes a body; memory as forward_request_decode has it. */
bool stats_request_decode(const struct request_body *body, struct arena *arena, struct stats_request *request,
                          struct error *error);

#endif
