/* Layers of lower rank, made when weights are loaded: of each head [W_Q; b_Q] [W_K; b_K]^T, the form that its scores
 * are, and with `values` [W_V; b_V] W_O, is replaced by its best approximation of that rank. */
#ifndef ATTND_WEIGHTS_SVD_H
#define ATTND_WEIGHTS_SVD_H

#include "base/error.h"
#include "engine/attention.h"
#include "engine/rules.h"
#include "weights/layer_tensors.h"

#include <stdbool.h>

/* The shape of the layer that the rule makes of a layer of `shape`: d_k is the rank, with values d_v too, every query
 * head has its own keys and values; scale stays. ERROR_INVALID at /low_rank/rank or /low_rank where there is none. */
bool svd_layer_shape(const struct attention_shape *shape, const struct low_rank_rule *rule,
                     struct attention_shape *made, struct error *error);

/* The extents of its tensors, where the layer's own biases are those in `tensors`. Nothing is allocated. */
struct layer_tensors svd_layer_describe(const struct attention_shape *made, const struct layer_tensors *tensors);

/* Its matrices that are not those of the layer itself, as bits 1 << LAYER_W_Q to 1 << LAYER_W_O; a bias goes with its
 * matrix. */
unsigned svd_layer_own(const struct attention_shape *shape, const struct low_rank_rule *rule);

/* Makes it, in float64, with up to `threads` threads, the caller among them; made_tensors are to be freed with
 * layer_tensors_free. ERROR_INVALID as above, ERROR_NOT_FINITE when a factor leaves float32, ERROR_OUT_OF_MEMORY. */
bool svd_layer_make(const struct attention_shape *shape, const struct layer_tensors *tensors,
                    const struct low_rank_rule *rule, unsigned threads, struct attention_shape *made,
                    struct layer_tensors *made_tensors, struct error *error);

/* Bytes of scratch that svd_layer_make takes beside the tensors it makes. False on overflow. */
bool svd_layer_scratch(const struct attention_shape *shape, const struct low_rank_rule *rule, unsigned threads,
                       size_t *bytes);

#endif
