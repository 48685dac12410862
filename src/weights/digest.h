/* The name of a set's numbers and rules: equal for equal ones, whatever they were loaded from. */
#ifndef ATTND_WEIGHTS_DIGEST_H
#define ATTND_WEIGHTS_DIGEST_H

#include "engine/attention.h"
#include "weights/layer_tensors.h"
#include "weights/set_rules.h"

#define DIGEST_TEXT_BYTES 65 /* 64 hexadecimal digits of SHA-256 and a NUL */

/* SHA-256 over the text "attnd-weights/1", the shape and the tensors, and what the set does by default where that is
 * more than attention, as digest.c describes. */
void digest_write(const struct attention_shape *shape, const struct layer_tensors *tensors,
                  const struct set_rules *rules, char text[DIGEST_TEXT_BYTES]);

/* Of a model: `text` has what model_digest_write says of its numbers, and becomes the digest of these 64 digits, what
 * the set does by default as above, its precision, and each layer's own rules. With nothing but numbers, as float32, it
 * stays. */
void digest_add_rules(const struct model_shape *shape, const struct set_rules *rules, char text[DIGEST_TEXT_BYTES]);

#endif
