/* The answer of /v1/forward as JSON. */
#ifndef ATTND_CODEC_FORWARD_ANSWER_H
#define ATTND_CODEC_FORWARD_ANSWER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include "codec/forward_request.h"

struct forward_timing {
    double parse_us, queue_us, compute_us, encode_us;
};

/* What forward_answer_bytes reckons for the set's name and its digest as JSON text. */
#define FORWARD_ANSWER_NAME_BYTES 512

/* An upper bound of the answer's bytes, as the contract predicts it: 16 a number (decimals n: 42 + n, of maps 3 + n;
 * base64 4/3 of 4), the keys of top_k at their digits, two a bracket. For the rank the request has. ERROR_TOO_LARGE
 * when it does not fit in memory at all. The limit is the caller's to compare. */
bool forward_answer_bytes(const struct forward_request *request, const struct attention_shape *shape,
                          const struct forward_input *problem, size_t *bytes, struct error *error);

/* Memory that forward_answer_encode takes beside the text, as arena_need counts it: none but for top_k, eight bytes for
 * each weight that is kept. Saturates at SIZE_MAX. */
size_t forward_answer_scratch_bytes(const struct forward_request *request, const struct attention_shape *shape,
                                    const struct forward_input *problem);

/* Appends the whole document to *text, timing_us last but for its closing: the caller's timing.encode_us is replaced by
 * the time this call took. ERROR_NOT_FINITE (only without base64) names the tensor and index: "output[0][3][17] is
 * infinity"; then, and when memory runs out, *text has the length it had. `weights` and `digest` are the set's name and
 * digest. result's tensors are those that the request asked for.
 *
 * A text of fixed memory needs room for forward_answer_bytes, and `scratch` for forward_answer_scratch_bytes, which are
 * given back. ERROR_OUT_OF_MEMORY without; and where a map holds numbers that are no weights, outside [0, 2), a fixed
 * text may be too short. */
bool forward_answer_encode(const struct forward_request *request, const struct attention_shape *shape,
                           const struct forward_input *problem, const struct forward_result *result,
                           const char *weights, const char *digest, struct forward_timing *timing,
                           struct arena *scratch, struct text *text, struct error *error);

#endif
