/* How far a model under rules is from the same model without what approximates. */
#ifndef ATTND_ENGINE_MODEL_COMPARE_H
#define ATTND_ENGINE_MODEL_COMPARE_H

#include "engine/compare.h"
#include "engine/model_run.h"

/* As forward_run_compared: model_run of one input, and again with pattern, low_rank, keep_heads and dropout off in
 * every layer, by `full_model`: the same one, but where the rule is low_rank svd. output_error goes by the rows that
 * the last layer scores, attention_error by those of each layer and all its heads; pairs are summed over layers. The
 * arena must hold model_compare_bytes. False as from model_run. */
bool model_run_compared(const struct model *model, const struct model *full_model, const struct forward_input *input,
                        struct forward_result *result, const struct parallel *parallel, struct arena *arena,
                        struct approximation *approximation, struct error *error);

/* False on overflow. */
bool model_compare_bytes(const struct model_shape *shape, const struct model_shape *full_shape,
                         const struct forward_input *input, unsigned lanes, size_t *bytes);
/* model_flop of all that it does. */
double model_compare_flop(const struct model_shape *shape, const struct model_shape *full_shape,
                          const struct forward_input *input);

#endif
