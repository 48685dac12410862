/* A Hugging Face folder, read as it is: config.json beside model.safetensors or an index and its shards. One thread. */
#ifndef ATTND_WEIGHTS_HUGGINGFACE_SOURCE_H
#define ATTND_WEIGHTS_HUGGINGFACE_SOURCE_H

#include "weights/model_source.h"

/* Fills *source (to be freed) with the model in `folder`: of the files no more than headers, config.json and the small
 * tables of its positions are read. Every tensor that the model needs is found and has its shape, or the error names
 * it, with what was found and expected. Errors have the pointer /path and begin with the name of the file in the
 * folder, where they are about one: ERROR_IO, ERROR_BAD_ENCODING, ERROR_INVALID, ERROR_NOT_FINITE; ERROR_OUT_OF_MEMORY.
 */
bool huggingface_source_open(const char *folder, struct model_source *source, struct error *error);

#endif
