/* From the files of a model to the model in memory: each tensor is read, hashed and packed piece by piece, several at a
 * time, so that beside the packed weights and some pieces nothing is held. */
#ifndef ATTND_WEIGHTS_MODEL_LOAD_H
#define ATTND_WEIGHTS_MODEL_LOAD_H

#include "base/error.h"
#include "engine/model.h"
#include "weights/digest.h"
#include "weights/model_source.h"

/* Memory beside the model's own, at most, with so many threads, of a source whose places have been checked. False on
 * overflow. */
bool model_load_scratch_bytes(const struct model_source *source, unsigned threads, size_t *bytes);

/* Makes the model of a source whose places have been checked against its shape, and its digest (model_digest.h), with
 * up to `threads` threads, the caller among them. NULL on failure: ERROR_NOT_FINITE names the tensor and its place,
 * ERROR_IO when a file ends early or was written to meanwhile, ERROR_OUT_OF_MEMORY. */
struct model *model_load(const struct model_source *source, unsigned threads, char digest[DIGEST_TEXT_BYTES],
                         struct error *error);

#endif
