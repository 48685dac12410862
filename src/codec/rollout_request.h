/* What POST /v1/heads/rollout is asked, decoded from a body. */
#ifndef ATTND_CODEC_ROLLOUT_REQUEST_H
#define ATTND_CODEC_ROLLOUT_REQUEST_H

#include "analysis/rollout.h"
#include "codec/analysis_request.h"

struct rollout_request {
    struct analysis_request analysis; /* its forward has `decimals` and `encoding` too */
    enum rollout_fusion fusion;
    bool per_head;
};

/* Decodes a body; memory as forward_request_decode has it. */
bool rollout_request_decode(const struct request_body *body, struct arena *arena, struct rollout_request *request,
                            struct error *error);

/* Checks the shapes of posted maps, [B,L,H,T,T] or [L,H,T,T], and of attention_mask, and fills *rule and *extent.
 * The rows are for head_maps_check to look at. */
bool rollout_request_check_maps(const struct rollout_request *request, struct forward_input *rule,
                                struct maps_extent *extent, struct error *error);

/* Refuses a forward whose queries are not its keys. */
bool rollout_request_check_input(const struct forward_input *input, struct error *error);

#endif
