/* The thread that runs the job. */

#include "engine/bare_model.h"

#include "engine/model_parts.h"

bool bare_model_run(const struct attention_layer *layer, const struct forward_input *const *inputs,
                    struct forward_result *const *results, size_t count, const struct forward_observer *observer,
                    const struct parallel *parallel, struct arena *arena, struct error *error)
{
    const struct layer_shape shape = {.scale = layer->shape.scale};
    struct model_layer only = {.shape = &shape, .attention = *layer};
    const struct model model = {.shape = {.attention = layer->shape, .num_layers = 1, .layers = &shape},
                                .kernels = layer->kernels,
                                .layers = &only};
    return model_run(&model, inputs, results, count, observer, parallel, arena, error);
}

bool bare_model_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                      unsigned lanes, size_t *bytes)
{
    const struct layer_shape layer = {.scale = shape->scale};
    const struct model_shape model = {.attention = *shape, .num_layers = 1, .layers = &layer};
    return model_scratch_bytes(&model, inputs, count, lanes, bytes);
}
