/* A bare layer as a model of one layer with nothing around it: for what models return and layers do not, the hidden
 * states. All else has the bits that forward_run gives. */
#ifndef ATTND_ENGINE_BARE_MODEL_H
#define ATTND_ENGINE_BARE_MODEL_H

#include "engine/model_run.h"

/* As forward_run_observed, of a layer with projections; inputs are self-attention. n_states of results is 2. */
bool bare_model_run(const struct attention_layer *layer, const struct forward_input *const *inputs,
                    struct forward_result *const *results, size_t count, const struct forward_observer *observer,
                    const struct parallel *parallel, struct arena *arena, struct error *error);

/* As forward_scratch_bytes. */
bool bare_model_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                      unsigned lanes, size_t *bytes);

#endif
