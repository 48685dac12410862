/* What /v1/heads/importance is asked, decoded from a body. */
#ifndef ATTND_CODEC_IMPORTANCE_REQUEST_H
#define ATTND_CODEC_IMPORTANCE_REQUEST_H

#include "analysis/importance.h"
#include "codec/forward_request.h"

/* Of what the contribution of a head is measured: the output of its layer's attention, or the set's. */
enum importance_at { IMPORTANCE_AT_LAYER, IMPORTANCE_AT_MODEL };

struct importance_request {
    struct forward_request forward; /* the computation; what it says of the answer's form is of no use here */
    enum importance_method method;
    enum importance_at at;
    bool prune_plan;
    bool has_tolerance; /* only with prune_plan */
    double tolerance;   /* >= 0 */
};

/* Decodes a body; memory as forward_request_decode has it. Maps alone (`attention`) are ERROR_INVALID: they do not say
 * what reaches the output. */
bool importance_request_decode(const struct request_body *body, struct arena *arena, struct importance_request *request,
                               struct error *error);

#endif
