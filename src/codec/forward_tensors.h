/* The answer of /v1/forward as a safetensors file: the tensors by their members' names, as they lie in memory, and all
 * else in __metadata__, each value JSON text.
 *
 * With top_k there are attention_keys (I32) and attention_weights in place of attention; heads_used is I32 too. Numbers
 * that are not finite are carried; `decimals` and `encoding` say how JSON prints numbers, and mean nothing here. */
#ifndef ATTND_CODEC_FORWARD_TENSORS_H
#define ATTND_CODEC_FORWARD_TENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/answer_pieces.h"
#include "codec/forward_request.h"
#include "codec/forward_timing.h"
#include "engine/compare.h"
#include "engine/parallel.h"

/* The answer's bytes: four a number, exactly, and what the header takes at most. ERROR_TOO_LARGE when it does not fit
 * in memory at all. The limit is the caller's to compare. */
bool forward_tensors_bytes(const struct forward_request *request, const struct attention_shape *shape,
                           const struct forward_input *problem, size_t *bytes, struct error *error);

/* Memory that forward_tensors_compose takes, as forward_answer_memory has it. */
size_t forward_tensors_memory(const struct forward_request *request, const struct attention_shape *shape,
                              const struct forward_input *problem);

/* Composes the file, of pieces that are all bytes: the results are sent from where they lie. `encode` of timing_us is
 * what that takes. ERROR_OUT_OF_MEMORY when the arena has less than forward_tensors_memory; all else as
 * forward_answer_compose has it. */
bool forward_tensors_compose(const struct forward_request *request, const struct attention_shape *shape,
                             const struct forward_input *problem, const struct forward_result *result,
                             const struct approximation *approximation, const char *weights, const char *digest,
                             const struct forward_timing *timing, const struct parallel *parallel, struct arena *arena,
                             struct answer_pieces *pieces, struct error *error);

#endif
