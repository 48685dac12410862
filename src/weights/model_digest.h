/* The name of a model's numbers: equal for models whose shape and tensors, as float32, are equal. */
#ifndef ATTND_WEIGHTS_MODEL_DIGEST_H
#define ATTND_WEIGHTS_MODEL_DIGEST_H

#include "engine/model.h"
#include "weights/digest.h"
#include "weights/tensor_hash.h"

#include <stdint.h>

/* The tensors of a model in one order: those of the layers, layer by layer, then the model's own. */
static inline size_t model_tensors(const struct model_shape *shape)
{
    return shape->num_layers * LAYER_SLOT_COUNT + MODEL_SLOT_COUNT;
}

static inline struct tensor_slot model_tensor(const struct model_shape *shape, size_t index)
{
    const size_t layer = index / LAYER_SLOT_COUNT;
    if (layer < shape->num_layers)
        return (struct tensor_slot){layer, (unsigned)(index % LAYER_SLOT_COUNT)};
    return (struct tensor_slot){MODEL_ITSELF, (unsigned)(index - shape->num_layers * LAYER_SLOT_COUNT)};
}

/* SHA-256 over the text "attnd-weights/2", the shape, and of each tensor its extents and hash, as model_digest.c
 * describes. */
void model_digest_write(const struct model_shape *shape,
                        const uint8_t (*hashes)[TENSOR_HASH_BYTES] /* [model_tensors] */, char text[DIGEST_TEXT_BYTES]);

#endif
