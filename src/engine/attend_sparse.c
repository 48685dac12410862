/* Attention under a sparse pattern. A unit is a run of rows of a sequence, for all heads; any lane. Its rows go by in
 * tiles (attend_plan.h) that hold the scores of the keys that some row of the tile sees, and nothing else: one product
 * for each segment of keys, a softmax over what each row sees, and the segments' values added up. */

#include "engine/attend.h"

#include "base/size.h"

#include <string.h>

enum { ARRAYS = 4 };

static bool array_bytes(const struct batch_extent *extent, size_t bytes[ARRAYS])
{
    const size_t padded_keys = kernel_padded(extent->longest_keys);
    bytes[0] = sizeof(struct sparse_lane);
    bytes[3] = 0;
    return planner_bytes(extent, extent->tile_rows, extent->sparse_floats, &bytes[1]) &&
           tensor_bytes(&padded_keys, 1, sizeof(float), &bytes[2]) &&
           (!extent->sparse_observed ||
            tensor_bytes((size_t[]){extent->tile_rows, extent->longest_keys}, 2, sizeof(uint8_t), &bytes[3]));
}

bool sparse_lane_bytes(const struct batch_extent *extent, size_t *bytes)
{
    size_t arrays[ARRAYS], total = 0;
    *bytes = 0;
    if (extent->sparse_floats == 0)
        return true;
    if (!array_bytes(extent, arrays))
        return false;
    for (size_t i = 0; i < ARRAYS; i++)
        if (!arena_need(&total, arrays[i]))
            return false;
    *bytes = total;
    return true;
}

struct sparse_lane *sparse_lane_open(const struct batch_extent *extent, void *memory)
{
    size_t bytes[ARRAYS];
    struct arena arena = {.base = memory};
    array_bytes(extent, bytes); /* did not overflow when the batch was created */
    sparse_lane_bytes(extent, &arena.capacity);
    struct sparse_lane *lane = arena_take(&arena, bytes[0]);
    *lane = (struct sparse_lane){0};
    planner_open(&lane->planner, extent, extent->tile_rows, extent->sparse_floats, arena_take(&arena, bytes[1]));
    lane->bias = arena_take(&arena, bytes[2]);
    if (extent->sparse_observed)
        lane->allowed = arena_take(&arena, bytes[3]);
    return lane;
}

void sparse_score(const struct block *b)
{
    const struct batch *batch = b->batch;
    const struct attention_shape *shape = &batch->layer->shape;
    const struct kernels *kernels = batch->layer->kernels;
    for (size_t i = 0; i < b->plan->n_segments; i++) {
        const struct key_segment *segment = &b->plan->segments[i];
        const struct product product = {
            .depth = shape->d_k,
            .columns = attend_whole_vectors(kernels, b->sequence->n_keys - segment->begin),
            .a = batch->query.data + (b->sequence->query_start + b->first_row) * batch->query.stride +
                 b->head * shape->d_k,
            .a_stride = batch->query.stride,
            .b = b->key_panels + segment->begin * shape->d_k,
            .b_depth = shape->d_k,
            .scale = shape->scale,
            .c = b->tile + segment->column,
            .c_stride = b->tile_stride,
        };
        kernels->multiply(&product, 0, b->n_rows, 0, segment->columns);
    }
}

/* The bias of a row's columns [n_columns]; NULL: none. */
static const float *bias_of_columns(const struct block *b, size_t row)
{
    const struct tile_plan *plan = b->plan;
    const float *bias = attend_bias_of_row(b, row);
    if (!bias || plan->n_segments == 0)
        return NULL;
    if (plan->n_segments == 1)
        return bias + plan->segments[0].begin;
    float *columns = b->lane->sparse->bias;
    for (size_t i = 0; i < plan->n_segments; i++) {
        const struct key_segment *segment = &plan->segments[i];
        memcpy(columns + segment->column, bias + segment->begin, segment->columns * sizeof *columns);
    }
    return columns;
}

static float weigh_row(const struct block *b, size_t i, double *logs)
{
    const size_t width = kernel_padded(b->n_keys), view_index = b->first_row - b->plan->first_viewed + i;
    const struct row_view view = b->plan->views[view_index];
    const size_t n_columns = view.end - view.begin;
    float *row = b->tile + i * b->tile_stride;
    if (n_columns == 0) {
        memset(row, 0, width * sizeof *row);
        *logs = 0;
        return 0;
    }
    const float *bias = bias_of_columns(b, b->first_row + i);
    const uint8_t *allowed = view.solid ? NULL : b->plan->allowed + view_index * b->plan->allowed_stride + view.begin;
    if (bias)
        bias += view.begin;
    memset(row, 0, view.begin * sizeof *row);
    const double sum = b->batch->layer->kernels->softmax(row + view.begin, n_columns, width - view.begin, bias, allowed,
                                                         b->logs ? logs : NULL);
    return sum == 0 ? attend_empty_row(bias, allowed, n_columns) : (float)(1.0 / sum);
}

void sparse_weigh(const struct block *b)
{
    if (b->plan->whole && b->n_keys > 0 && !attend_bias_of_row(b, b->first_row)) {
        b->batch->layer->kernels->softmax_rows(b->tile, b->tile_stride, b->n_rows, b->n_keys, (ptrdiff_t)b->n_keys,
                                               b->inverse, b->logs);
        return;
    }
    for (size_t i = 0; i < b->n_rows; i++) {
        double logs;
        b->inverse[i] = weigh_row(b, i, &logs);
        if (b->logs)
            b->logs[i] = (float)logs;
    }
}

void sparse_mix(const struct block *b)
{
    const struct attention_shape *shape = &b->batch->layer->shape;
    const struct kernels *kernels = b->batch->layer->kernels;
    const size_t z_stride = kernel_padded(shape->d_v);
    if (b->plan->n_segments == 0)
        memset(b->lane->z, 0, b->n_rows * z_stride * sizeof(float));
    for (size_t i = 0; i < b->plan->n_segments; i++) {
        const struct key_segment *segment = &b->plan->segments[i];
        const struct product product = {
            .depth = segment->columns,
            .columns = attend_whole_vectors(kernels, shape->d_v),
            .a = b->tile + segment->column,
            .a_stride = b->tile_stride,
            .b = b->value_panels,
            .b_depth = b->sequence->n_keys,
            .b_first = segment->begin,
            .adds = i > 0,
            .scale = 1,
            .c = b->lane->z,
            .c_stride = z_stride,
        };
        kernels->multiply(&product, 0, b->n_rows, 0, shape->d_v);
    }
}

void sparse_write_map_row(const struct block *b, size_t i, float *map_row)
{
    const struct kernels *kernels = b->batch->layer->kernels;
    const struct sequence *s = b->sequence;
    const float *weights = b->tile + i * b->tile_stride;
    const size_t key_length = s->input->key_length;
    size_t written = 0;
    for (size_t n = 0; n < b->plan->n_segments; n++) {
        const struct key_segment *segment = &b->plan->segments[n];
        const size_t key = sequence_position(s, segment->begin);
        const size_t end = sequence_position(s, segment->begin + segment->columns - 1) + 1;
        memset(map_row + written, 0, ((s->holes ? end : key) - written) * sizeof *map_row);
        written = end;
        if (!s->holes) {
            kernels->scale(map_row + key, weights + segment->column, segment->columns, b->inverse[i]);
            continue;
        }
        kernels->scale(b->lane->map_row, weights + segment->column, segment->columns, b->inverse[i]);
        for (size_t j = 0; j < segment->columns; j++)
            map_row[s->kept[segment->begin + j]] = b->lane->map_row[j];
    }
    memset(map_row + written, 0, (key_length - written) * sizeof *map_row);
}

/* The block's rows as the observer reads them: all keys, in order. */
static void show_rows(const struct block *b, const struct observed_rows *rows, float *weights, float *inverse,
                      float *logs)
{
    const size_t first = b->first_row - rows->first_row, width = kernel_padded(rows->n_computed);
    memcpy(inverse + first, b->inverse, b->n_rows * sizeof *inverse);
    memcpy(logs + first, b->logs, b->n_rows * sizeof *logs);
    for (size_t i = 0; i < b->n_rows; i++) {
        const float *from = b->tile + i * b->tile_stride;
        float *to = weights + (first + i) * rows->stride;
        memset(to, 0, width * sizeof *to);
        for (size_t n = 0; n < b->plan->n_segments; n++) {
            const struct key_segment *segment = &b->plan->segments[n];
            if (segment->begin < rows->n_computed)
                memcpy(to + segment->begin, from + segment->column,
                       size_min(segment->columns, rows->n_computed - segment->begin) * sizeof *to);
        }
    }
}

/* For the observer: which keys each row sees. */
static void show_allowed(struct planner *planner, const struct sequence *s, size_t first_row, size_t n_rows,
                         uint8_t *allowed)
{
    for (size_t i = 0; i < n_rows; i++) {
        struct row_keys keys = row_keys_begin(planner->reader, s, first_row + i);
        const uint8_t *mask = sequence_allowed(s, first_row + i);
        uint8_t *row = allowed + i * s->n_keys;
        size_t begin, end;
        memset(row, 0, s->n_keys);
        while (row_keys_next(&keys, &begin, &end)) {
            if (mask)
                memcpy(row + begin, mask + begin, end - begin);
            else
                memset(row + begin, 1, end - begin);
        }
    }
}

/* All heads of a block of rows. Where they are shown, the tile is not one of a head's, and is copied there. */
static void attend_heads(struct block *b, struct lane *lane, const struct observed_rows *shown)
{
    const struct batch_extent *extent = &b->batch->extent;
    const size_t num_heads = b->batch->layer->shape.num_heads, rows = kernel_padded(extent->tile_rows);
    const size_t own = shown ? num_heads : 0;
    b->tile = lane->tile + own * extent->tile_floats;
    b->inverse = lane->inverse + own * rows;
    b->logs = shown || b->batch->kept_heads.by_entropy ? lane->logs + own * rows : NULL;
    for (b->head = 0; b->head < num_heads; b->head++) {
        if (b->batch->kept_heads.computed && keep_heads_skips(b->batch, b->sequence, b->head))
            continue;
        attend_choose_panels(b, lane);
        attend_block(b);
        if (shown)
            show_rows(b, shown, lane->tile + b->head * extent->tile_floats, lane->inverse + b->head * rows,
                      lane->logs + b->head * rows);
    }
}

/* Rows of a tile in parts, each of which stays in L2. */
static void attend_tile_rows(struct block *b, struct lane *lane, size_t first_row, size_t end_row,
                             const struct observed_rows *shown)
{
    const struct tile_plan *plan = b->plan;
    const size_t most = batch_sparse_rows(b->sequence->n_queries, b->sequence->n_keys, plan->n_columns);
    const size_t n_rows = end_row - first_row, parts = (n_rows + most - 1) / most;
    b->n_keys = plan->n_columns;
    b->tile_stride = batch_tile_stride(plan->n_columns);
    b->first_row = first_row;
    for (size_t part = 0; part < parts; part++, b->first_row += b->n_rows) {
        b->n_rows = n_rows / parts + (part < n_rows % parts);
        plan_rows(&lane->sparse->planner, b->sequence, b->first_row, b->n_rows);
        attend_heads(b, lane, shown);
    }
}

static void show_heads(const struct batch *batch, const struct lane *lane, struct observed_rows *rows,
                       unsigned lane_index)
{
    const size_t padded_rows = kernel_padded(batch->extent.tile_rows);
    if (!batch->observer)
        return;
    for (rows->head = 0; rows->head < rows->num_heads; rows->head++) {
        rows->weights = lane->tile + rows->head * rows->head_stride;
        rows->inverse = lane->inverse + rows->head * padded_rows;
        rows->logs = lane->logs + rows->head * padded_rows;
        batch->observer->rows(batch->observer->context, rows, lane_index);
    }
}

void sparse_unit(const struct batch *batch, struct lane *lane, const struct sequence *s, size_t unit,
                 unsigned lane_index)
{
    struct planner *planner = &lane->sparse->planner;
    const size_t first_row = unit == 0 ? 0 : unit * s->unit_rows - s->unit_offset;
    const size_t end_row = size_min((unit + 1) * s->unit_rows - s->unit_offset, s->n_queries);
    struct block b = {.batch = batch, .sequence = s, .lane = lane, .plan = &planner->plan};
    struct observed_rows rows = {
        .input = s->observed_input,
        .sequence = s->index,
        .layer = batch->layer_index,
        .num_heads = batch->layer->shape.num_heads,
        .first_row = first_row,
        .n_rows = end_row - first_row,
        .n_queries = s->n_queries,
        .n_keys = s->n_keys,
        .n_computed = size_max(sequence_key_limit(s, end_row - 1), 1),
        .stride = batch_tile_stride(s->n_keys),
        .head_stride = batch->extent.tile_floats,
        .key_limit = sequence_key_end(s, first_row),
        .key_step = s->input->causal,
    };
    for (size_t row = first_row; row < end_row; row = planner->plan.end_row) {
        plan_tile(planner, s, row);
        attend_tile_rows(&b, lane, row, size_min(planner->plan.end_row, end_row), s->observed ? &rows : NULL);
    }
    if (!s->observed)
        return;
    show_allowed(planner, s, first_row, rows.n_rows, lane->sparse->allowed);
    rows.allowed = lane->sparse->allowed;
    show_heads(batch, lane, &rows, lane_index);
}
