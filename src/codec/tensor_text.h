/* Nested arrays of decimal numbers: the form of tensors that is measured in megabytes, so it has a loop of its own. */
#ifndef ATTND_CODEC_TENSOR_TEXT_H
#define ATTND_CODEC_TENSOR_TEXT_H

#include "codec/tensor.h"

/* Reads the nested arrays that come next in the reader (json_peek says JSON_ARRAY); the nesting is the shape. With
 * `booleans`, true and false may stand where numbers may and are 1 and 0. Memory and errors as tensor_read_json has
 * them. Returns the numbers, tensor->data, to be written to; NULL on failure. */
float *tensor_text_read(struct json_reader *r, struct arena *arena, struct tensor *tensor, unsigned max_rank,
                        bool booleans, struct error *error);

/* error_set_at the element `index` [depth] of the value that the reader stands at. Always false. */
bool tensor_text_error(const struct json_reader *r, const size_t *index, unsigned depth, struct error *error,
                       enum error_code code, const char *format, ...) __attribute__((format(printf, 6, 7), cold));

#endif
