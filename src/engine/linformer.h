/* Linformer: keys and values of a sequence are projected to a few rows, E k and F v, before attention (Wang et al.,
 * Linformer: Self-Attention with Linear Complexity, 2020). */
#ifndef ATTND_ENGINE_LINFORMER_H
#define ATTND_ENGINE_LINFORMER_H

#include "engine/batch.h"

/* Memory that linformer_attend needs for the batch's sequences. False on overflow. */
bool linformer_bytes(const struct attention_shape *shape, const struct low_rank_rule *rule,
                     const struct batch_extent *extent, unsigned lanes, size_t *bytes);

/* batch_attend under the rule, with linformer_bytes of memory in batch->low_rank. */
bool linformer_attend(const struct batch *batch, struct work *work);

#endif
