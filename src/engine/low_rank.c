/* Chooses how a batch attends. Entered by the thread that runs the job. */

#include "engine/low_rank.h"

#include "engine/linformer.h"
#include "engine/nystrom.h"

static enum low_rank_kind kind_of(const struct attention_rules *rules)
{
    return rules ? rules->low_rank.kind : LOW_RANK_NONE;
}

bool low_rank_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                    size_t *bytes)
{
    switch (kind_of(extent->rules)) {
    case LOW_RANK_LINFORMER:
        return linformer_bytes(shape, &extent->rules->low_rank, extent, lanes, bytes);
    case LOW_RANK_NYSTROM:
        return nystrom_bytes(shape, &extent->rules->low_rank, extent, lanes, bytes);
    default:
        *bytes = 0;
        return true;
    }
}

bool low_rank_attend(const struct batch *batch, struct work *work)
{
    switch (kind_of(batch->extent.rules)) {
    case LOW_RANK_LINFORMER:
        return linformer_attend(batch, work);
    case LOW_RANK_NYSTROM:
        return nystrom_attend(batch, work);
    default:
        return batch_attend(batch, work);
    }
}
