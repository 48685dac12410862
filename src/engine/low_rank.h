/* Attention under a rule of low rank, where there is one: linformer.c, nystrom.c. */
#ifndef ATTND_ENGINE_LOW_RANK_H
#define ATTND_ENGINE_LOW_RANK_H

#include "engine/batch.h"

/* Whether a sequence of n_keys tokens is computed from landmarks: nystrom attention of no more tokens than landmarks is
 * exact. */
static inline bool low_rank_approximates(const struct attention_rules *rules, size_t n_keys)
{
    return rules && rules->low_rank.kind == LOW_RANK_NYSTROM && n_keys > rules->low_rank.landmarks;
}

/* Memory of the rule for the sequences measured; 0 without one. False on overflow. */
bool low_rank_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                    size_t *bytes);

/* batch_attend under the rule. False when cancelled. */
bool low_rank_attend(const struct batch *batch, struct work *work);

#endif
