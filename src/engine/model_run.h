/* A forward through all layers of a model. One layer's working memory is used by all; what nobody asked for of a layer
 * is not written. The promises of forward.h hold: the same bits in any company, on any number of lanes, whatever is
 * returned beside. */
#ifndef ATTND_ENGINE_MODEL_RUN_H
#define ATTND_ENGINE_MODEL_RUN_H

#include "engine/model.h"
#include "engine/observer.h"

/* Inputs of a call, at most. */
#define MODEL_MOST_INPUTS ((size_t)32)

/* Layers whose tensors are returned: all unless the result lists them. */
static inline size_t model_included_layers(const struct model_shape *shape, const struct forward_result *result)
{
    return result->include_layers ? result->n_layers : shape->num_layers;
}

/* An input as a layer sees it, under the rules that hold there, which are written to *rules: for who measures its maps.
 */
struct forward_input model_layer_input(const struct model_shape *shape, size_t layer, const struct forward_input *input,
                                       struct attention_rules *rules);

/* A layer's attention. */
const struct attention_layer *model_attention(const struct model *model, size_t layer);

/* Floating-point operations, as forward_flop. */
double model_flop(const struct model_shape *shape, const struct forward_input *input);

/* The arena that model_run needs, as forward_scratch_bytes. False on overflow. */
bool model_scratch_bytes(const struct model_shape *shape, const struct forward_input *const *inputs, size_t count,
                         unsigned lanes, size_t *bytes);

/* As forward_run_observed. Inputs are self-attention; all have an embedding, or none. fully_masked_rows is the sum over
 * the layers. */
bool model_run(const struct model *model, const struct forward_input *const *inputs,
               struct forward_result *const *results, size_t count, const struct forward_observer *observer,
               const struct parallel *parallel, struct arena *arena, struct error *error);

#endif
