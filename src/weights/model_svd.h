/* Models of lower rank: all layers' projections as svd.h makes those of one, over a model that is in memory. */
#ifndef ATTND_WEIGHTS_MODEL_SVD_H
#define ATTND_WEIGHTS_MODEL_SVD_H

#include "base/error.h"
#include "engine/model.h"
#include "engine/rules.h"

/* The matrices that are made are float32 in any precision; they approximate those of the model as it holds them. All
 * else is the model's, which must outlive what is made. Layer by layer, the heads of one on up to `threads` threads.
 * NULL on failure, as svd_layer_make; the error names the layer. */
struct model *model_svd_make(const struct model *model, const struct low_rank_rule *rule, unsigned threads,
                             struct error *error);

/* What it holds beside the model, and what making it takes beside both. As svd_layer_shape; ERROR_OUT_OF_MEMORY on
 * overflow. */
bool model_svd_need(const struct model_shape *shape, const struct low_rank_rule *rule, unsigned threads, size_t *bytes,
                    size_t *scratch, struct error *error);

#endif
