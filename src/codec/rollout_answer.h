/* The answer of POST /v1/heads/rollout: JSON, or a safetensors file, with the tensor `rollout`. */
#ifndef ATTND_CODEC_ROLLOUT_ANSWER_H
#define ATTND_CODEC_ROLLOUT_ANSWER_H

#include "base/arena.h"
#include "codec/answer_pieces.h"
#include "codec/rollout_request.h"

struct rollout_found {
    const struct rollout *rollout; /* its sizes */
    bool rank2;                    /* the request had no batch axis */
    const float *result;           /* as rollout_run has it */
};

/* An upper bound of the answer's bytes. `weights` NULL: maps were posted. False on overflow. */
bool rollout_answer_bytes(const struct rollout_request *request, const struct rollout_found *found, const char *weights,
                          size_t *bytes);

/* Memory that rollout_answer_compose takes, as arena_need counts it. Saturates at SIZE_MAX. */
size_t rollout_answer_memory(const struct rollout_request *request, const char *weights);

/* Composes it, of numbers that are finite. ERROR_OUT_OF_MEMORY when the arena has less than that. What the pieces point
 * to outlives them. */
bool rollout_answer_compose(const struct rollout_request *request, const struct rollout_found *found,
                            const char *weights, const char *digest, struct arena *arena, struct answer_pieces *pieces,
                            struct error *error);

#endif
