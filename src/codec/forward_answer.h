/* The answer of /v1/forward as JSON. */
#ifndef ATTND_CODEC_FORWARD_ANSWER_H
#define ATTND_CODEC_FORWARD_ANSWER_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/answer_pieces.h"
#include "codec/forward_request.h"
#include "codec/forward_timing.h"
#include "engine/compare.h"
#include "engine/parallel.h"

/* What forward_answer_bytes reckons for the set's name and its digest as JSON text. */
#define FORWARD_ANSWER_NAME_BYTES 512

/* An upper bound of the answer's bytes, as the contract predicts it: 16 a number (decimals n: 42 + n, of maps 3 + n;
 * base64 4/3 of 4), the keys of top_k at their digits, two a bracket. For the rank the request has. ERROR_TOO_LARGE
 * when it does not fit in memory at all. The limit is the caller's to compare. */
bool forward_answer_bytes(const struct forward_request *request, const struct attention_shape *shape,
                          const struct forward_input *problem, size_t *bytes, struct error *error);

/* Memory that forward_answer_compose takes, as arena_need counts it: some KiB, and with top_k eight bytes for each
 * weight that is kept. Saturates at SIZE_MAX. */
size_t forward_answer_memory(const struct forward_request *request, const struct attention_shape *shape,
                             const struct forward_input *problem);

/* Composes the document, timing_us last but for its closing, `encode` being what its writing takes. ERROR_NOT_FINITE
 * (only without base64) names the tensor and index: "output[0][3][17] is infinity"; ERROR_OUT_OF_MEMORY when the arena
 * has less than forward_answer_memory. `weights` and `digest` are the set's name and digest. result's tensors are those
 * that the request asked for, and what its rules add to them; `approximation`: what compare has found, or NULL; they
 * and the arena outlive the pieces. */
bool forward_answer_compose(const struct forward_request *request, const struct attention_shape *shape,
                            const struct forward_input *problem, const struct forward_result *result,
                            const struct approximation *approximation, const char *weights, const char *digest,
                            const struct forward_timing *timing, const struct parallel *parallel, struct arena *arena,
                            struct answer_pieces *pieces, struct error *error);

#endif
