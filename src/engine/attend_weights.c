/* Weights of some rows, made again after a batch was computed: for what is said of two batches beside each other. Any
 * lane, which has its own memory in each batch. */

#include "engine/attend.h"

#include "base/size.h"

static void see_rows(struct block *b, size_t n_rows, void (*see)(void *context, const struct block *block),
                     void *context)
{
    b->n_rows = n_rows;
    attend_make_weights(b);
    see(context, b);
    b->first_row += n_rows;
}

static void see_tile(struct block *b, struct planner *planner, size_t end_row,
                     void (*see)(void *context, const struct block *block), void *context)
{
    plan_tile(planner, b->sequence, b->first_row);
    b->n_keys = planner->plan.n_columns;
    b->tile_stride = batch_tile_stride(b->n_keys);
    const size_t end = size_min(planner->plan.end_row, end_row);
    const size_t most = batch_sparse_rows(b->sequence->n_queries, b->sequence->n_keys, b->n_keys);
    while (b->first_row < end) {
        const size_t n_rows = size_min(most, end - b->first_row);
        plan_rows(planner, b->sequence, b->first_row, n_rows);
        see_rows(b, n_rows, see, context);
    }
}

void attend_weights(const struct batch *batch, unsigned lane_index, const struct sequence *s, size_t head,
                    size_t first_row, size_t end_row, void (*see)(void *context, const struct block *block),
                    void *context)
{
    struct lane *lane = attend_lane(batch, lane_index);
    struct block b = {
        .batch = batch,
        .sequence = s,
        .lane = lane,
        .head = head,
        .first_row = first_row,
        .tile_stride = batch_tile_stride(s->n_keys),
        .tile = lane->tile,
        .inverse = lane->inverse,
    };
    attend_choose_panels(&b, lane);
    if (s->sparse)
        b.plan = &lane->sparse->planner.plan;
    while (b.first_row < end_row) {
        if (s->sparse) {
            see_tile(&b, &lane->sparse->planner, end_row, see, context);
            continue;
        }
        const size_t n_rows = size_min(batch_tile_rows(s->n_keys), end_row - b.first_row);
        b.n_keys = size_max(sequence_key_limit(s, b.first_row + n_rows - 1), 1);
        see_rows(&b, n_rows, see, context);
    }
}
