/* One multi-head attention, step by step. Entered by the thread that runs the job; the steps bring in other lanes
 * through struct parallel. */

#include "engine/forward.h"

#include "engine/batch.h"
#include "engine/fully_masked.h"
#include "engine/low_rank.h"
#include "engine/observer.h"

bool forward_scratch_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                           unsigned lanes, size_t *bytes)
{
    return batch_bytes(shape, inputs, count, lanes, bytes);
}

bool batch_prepare(const struct batch *batch, struct work *work)
{
    const bool ruled = batch->extent.rules;
    return batch_gather(batch, work) &&
           (!ruled || (batch_fill_positions(batch, work) && batch_add_positions(batch, work))) &&
           batch_project_inputs(batch, work) && (!ruled || batch_rotate(batch, work));
}

bool batch_run(const struct batch *batch, struct work *work)
{
    const bool ruled = batch->extent.rules;
    return (!ruled || batch_count_fully_masked(batch, work)) && batch_prepare(batch, work) &&
           low_rank_attend(batch, work) && (!ruled || batch_choose_heads(batch, work)) &&
           batch_project_output(batch, work) && (!ruled || batch_sample(batch, work)) && batch_scatter(batch, work);
}

bool forward_run(const struct attention_layer *layer, const struct forward_input *const *inputs,
                 struct forward_result *const *results, size_t count, const struct parallel *parallel,
                 struct arena *arena, struct error *error)
{
    return forward_run_observed(layer, inputs, results, count, NULL, parallel, arena, error);
}

bool forward_run_observed(const struct attention_layer *layer, const struct forward_input *const *inputs,
                          struct forward_result *const *results, size_t count, const struct forward_observer *observer,
                          const struct parallel *parallel, struct arena *arena, struct error *error)
{
    struct batch batch;
    if (!batch_create(&batch, layer, inputs, results, count, parallel->lanes, arena, error))
        return false;
    batch.observer = observer;
    struct work work = {.parallel = parallel};
    if (batch_run(&batch, &work))
        return true;
    return error_cancelled(error);
}
