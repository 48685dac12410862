/* The rows that a model's first layer reads, from token ids, from rows in their place, or from pixels. */
#ifndef ATTND_ENGINE_EMBED_H
#define ATTND_ENGINE_EMBED_H

#include "engine/batch.h"
#include "engine/model.h"

/* Which row of the position table each token of a sequence has, positions [T]: position_ids, or counted over the ids
 * that are not padding, or in order. */
void embed_positions(const struct embeddings_shape *shape, const struct forward_input *input, size_t sequence,
                     uint32_t *positions);

/* Scratch of batch_embed for so many rows. False on overflow. */
bool embed_bytes(const struct model_shape *shape, size_t n_rows, size_t *bytes);

/* Fills batch->x_query with the kept rows of all inputs, which have an embedding. `scratch` holds embed_bytes of the
 * batch's rows. False when cancelled. */
bool batch_embed(const struct model *model, const struct batch *batch, void *scratch, struct work *work);

#endif
