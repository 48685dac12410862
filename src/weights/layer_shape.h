/* What a configuration entry and d_model make of a layer's shape. Any thread. */
#ifndef ATTND_WEIGHTS_LAYER_SHAPE_H
#define ATTND_WEIGHTS_LAYER_SHAPE_H

#include "base/error.h"
#include "config/config.h"
#include "engine/attention.h"

#include <stddef.h>

/* Fills *shape with the entry's numbers and, where it gives none, num_kv_heads = num_heads, d_k = d_model / num_heads,
 * d_v = d_k, scale = 1/sqrt(d_k). ERROR_INVALID, with the pointer of the member, when they do not fit together or make
 * matrices beyond memory's addresses: afterwards every product of the shape's numbers that makes a matrix, in bytes of
 * float64 or less, fits in a size_t. */
bool layer_shape_make(const struct weights_config *config, size_t d_model, struct attention_shape *shape,
                      struct error *error);

#endif
