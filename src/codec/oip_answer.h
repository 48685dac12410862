/* The answer to an infer request of the Open Inference Protocol: a JSON object, and behind it the bytes of those
 * outputs that are to be binary. */
#ifndef ATTND_CODEC_OIP_ANSWER_H
#define ATTND_CODEC_OIP_ANSWER_H

#include "base/arena.h"
#include "base/error.h"
#include "codec/answer_pieces.h"
#include "codec/oip_request.h"
#include "engine/compare.h"
#include "engine/parallel.h"

/* Whose answer it is. */
struct oip_model {
    const char *name, *version, *digest;
};

/* An upper bound of the answer's bytes: 16 a number in JSON as the contract has it (decimals n: 42 + n, of maps 3 + n),
 * 4 in binary. ERROR_TOO_LARGE when it does not fit in memory at all. The limit is the caller's to compare. */
bool oip_answer_bytes(const struct oip_request *request, const struct attention_shape *shape,
                      const struct forward_input *problem, size_t *bytes, struct error *error);

/* Whether no number becomes text. */
bool oip_answer_is_raw(const struct oip_request *request);

/* Memory that oip_answer_compose takes, as arena_need counts it: some KiB, with top_k eight bytes for each weight that
 * is kept, and where some outputs are JSON and some binary the text, whose length has to be known before it is sent.
 * Saturates at SIZE_MAX. */
size_t oip_answer_memory(const struct oip_request *request, const struct attention_shape *shape,
                         const struct forward_input *problem);

/* Composes the answer. *json_length: the bytes of the JSON where others follow, else 0. ERROR_NOT_FINITE for an output
 * in JSON names it and the index; ERROR_OUT_OF_MEMORY when the arena has less than oip_answer_memory. result's tensors
 * are those that the request asked for; they and the arena outlive the pieces. */
bool oip_answer_compose(const struct oip_request *request, const struct attention_shape *shape,
                        const struct forward_input *problem, const struct forward_result *result,
                        const struct approximation *approximation, const struct oip_model *model,
                        const struct parallel *parallel, struct arena *arena, struct answer_pieces *pieces,
                        size_t *json_length, struct error *error);

#endif
