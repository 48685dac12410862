/* The projection of keys and values, E k and F v; attention itself is then that of queries and a few keys of each
 * sequence (attend.c). Entered by the thread that runs the job; tiles on any lane. */

#include "engine/linformer.h"

#include "base/size.h"

/* Columns of keys or values that a tile projects where all heads share E: a multiple of every panel. */
#define TILE_COLUMNS ((size_t)64)
/* Rows of E that a tile takes, at most. Packing what they multiply takes as long as some 20 of them. */
#define TILE_ROWS ((size_t)192)

/* What E makes of the keys, or F of the values. */
struct side {
    const float *matrix; /* [projected_keys, matrix_columns], or [num_heads, ...] */
    size_t matrix_columns;
    bool per_head;
    size_t width;                /* d_k or d_v */
    size_t stride;               /* of the result */
    size_t tile_columns, groups; /* of columns */
};

struct layout {
    struct side keys, values;
    size_t heads; /* that have keys and values of their own */
    size_t row_blocks, block_rows;
    size_t sequences, inputs, projected_keys, projected_values, lanes, lane_floats; /* bytes; floats of a lane */
};

static bool lay_out_side(struct side *side, size_t heads, size_t rows, size_t *bytes)
{
    size_t columns;
    if (!size_multiply(heads, side->width, &columns) || columns > SIZE_MAX - 2 * KERNEL_PAD)
        return false;
    side->stride = kernel_padded(columns) + KERNEL_PAD;
    side->tile_columns = side->per_head ? side->width : size_min(TILE_COLUMNS, columns);
    side->groups = (columns + side->tile_columns - 1) / side->tile_columns;
    return tensor_bytes((size_t[]){rows, side->stride}, 2, sizeof(float), bytes);
}

static bool lay_out(const struct attention_shape *shape, const struct low_rank_rule *rule,
                    const struct batch_extent *extent, unsigned lanes, struct layout *l)
{
    *l = (struct layout){
        .keys = {rule->e, rule->e_columns, rule->e_per_head, shape->d_k, 0, 0, 0},
        .values = {rule->f, rule->f_columns, rule->f_per_head, shape->d_v, 0, 0, 0},
        .heads = rule->e_per_head || rule->f_per_head ? shape->num_heads : shape->num_kv_heads,
        .row_blocks = (rule->projected_keys + TILE_ROWS - 1) / TILE_ROWS,
    };
    l->block_rows = (rule->projected_keys + l->row_blocks - 1) / l->row_blocks;
    size_t rows;
    if (!size_multiply(extent->n_sequences, rule->projected_keys, &rows) ||
        !size_multiply(extent->n_sequences, sizeof(struct sequence), &l->sequences) ||
        !size_multiply(extent->n_sequences, sizeof(struct forward_input), &l->inputs) ||
        !lay_out_side(&l->keys, l->heads, rows, &l->projected_keys) ||
        !lay_out_side(&l->values, l->heads, rows, &l->projected_values))
        return false;
    const size_t widest = kernel_padded(size_max(l->keys.tile_columns, l->values.tile_columns));
    return size_multiply(extent->longest, widest, &l->lane_floats) &&
           tensor_bytes((size_t[]){lanes, l->lane_floats}, 2, sizeof(float), &l->lanes);
}

bool linformer_bytes(const struct attention_shape *shape, const struct low_rank_rule *rule,
                     const struct batch_extent *extent, unsigned lanes, size_t *bytes)
{
    struct layout l;
    *bytes = 0;
    return lay_out(shape, rule, extent, lanes, &l) && arena_need(bytes, l.sequences) && arena_need(bytes, l.inputs) &&
           arena_need(bytes, l.projected_keys) && arena_need(bytes, l.projected_values) && arena_need(bytes, l.lanes);
}

/* The projection on its way. */
struct linformer {
    const struct batch *batch;
    const struct layout *layout;
    struct rows keys, values; /* [n_sequences * projected_keys, heads * d_k], ... * d_v] */
    float *lanes;
    size_t tiles_per_sequence;
};

/* Rows of E times the columns `first` and on of one sequence's keys, all of one head where heads have their own E. */
static void project(const struct linformer *p, const struct side *side, const struct rows_in *from,
                    const struct rows *to, const struct sequence *s, size_t group, size_t block, float *packed)
{
    const struct batch *batch = p->batch;
    const struct kernels *kernels = batch->layer->kernels;
    const size_t heads_of_one = p->layout->heads == batch->layer->shape.num_kv_heads ? 1 : batch->heads_per_kv_head;
    const size_t projected_keys = batch->extent.rules->low_rank.projected_keys,
                 sequence = (size_t)(s - batch->sequences), first = group * side->tile_columns,
                 columns = size_min(side->tile_columns, p->layout->heads * side->width - first);
    /* In a shared E a tile may span heads: each column is that of its own head. */
    for (size_t done = 0; done < columns;) {
        const size_t column = first + done, head = column / side->width, inside = column % side->width;
        const size_t run = heads_of_one == 1 ? columns - done : size_min(columns - done, side->width - inside);
        const size_t source = heads_of_one == 1 ? column : head / heads_of_one * side->width + inside;
        const float *matrix = side->matrix + (side->per_head ? head * projected_keys * side->matrix_columns : 0);
        kernels->pack(from->data + s->key_start * from->stride + source, from->stride, s->n_keys, run, packed);
        const struct product product = {
            .depth = s->n_keys,
            .columns = run,
            .a = matrix,
            .a_stride = side->matrix_columns,
            .b = packed,
            .b_depth = s->n_keys,
            .scale = 1,
            .c = to->data + sequence * projected_keys * to->stride + column,
            .c_stride = to->stride,
        };
        kernels->multiply(&product, block * p->layout->block_rows,
                          size_min((block + 1) * p->layout->block_rows, projected_keys), 0, run);
        done += run;
    }
}

static void project_tile(const void *argument, size_t index, unsigned lane)
{
    const struct linformer *p = argument;
    const struct layout *l = p->layout;
    const struct sequence *s = &p->batch->sequences[index / p->tiles_per_sequence];
    const size_t tile = index % p->tiles_per_sequence, group = tile / l->row_blocks, block = tile % l->row_blocks;
    float *packed = p->lanes + lane * l->lane_floats;
    if (group < l->keys.groups)
        project(p, &l->keys, &p->batch->key, &p->keys, s, group, block, packed);
    else
        project(p, &l->values, &p->batch->value, &p->values, s, group - l->keys.groups, block, packed);
}

static double project_flop(const struct linformer *p)
{
    double rows = 0;
    for (size_t i = 0; i < p->batch->extent.n_sequences; i++)
        rows += (double)p->batch->sequences[i].n_keys;
    return 2 * rows * (double)p->batch->extent.rules->low_rank.projected_keys *
           (double)(p->layout->heads * (p->layout->keys.width + p->layout->values.width));
}

bool linformer_attend(const struct batch *batch, struct work *work)
{
    const struct low_rank_rule *rule = &batch->extent.rules->low_rank;
    struct layout l;
    size_t bytes;
    if (!lay_out(&batch->layer->shape, rule, &batch->extent, work->parallel->lanes, &l) ||
        !linformer_bytes(&batch->layer->shape, rule, &batch->extent, work->parallel->lanes, &bytes))
        return false; /* it did not overflow when the batch was created */
    struct arena memory = {.base = batch->low_rank, .capacity = bytes};
    struct sequence *sequences = arena_take(&memory, l.sequences);
    struct forward_input *inputs = arena_take(&memory, l.inputs);
    struct linformer p = {
        .batch = batch,
        .layout = &l,
        .keys = {arena_take(&memory, l.projected_keys), l.keys.stride},
        .values = {arena_take(&memory, l.projected_values), l.values.stride},
        .lanes = arena_take(&memory, l.lanes),
        .tiles_per_sequence = (l.keys.groups + l.values.groups) * l.row_blocks,
    };
    if (!work_split(work, batch->extent.n_sequences * p.tiles_per_sequence, project_flop(&p), project_tile, &p))
        return false;

    struct batch few = *batch;
    few.sequences = sequences;
    few.key = (struct rows_in){p.keys.data, p.keys.stride};
    few.value = (struct rows_in){p.values.data, p.values.stride};
    few.heads_per_kv_head = batch->layer->shape.num_heads / l.heads;
    for (size_t i = 0; i < batch->extent.n_sequences; i++) {
        const struct sequence *s = &batch->sequences[i];
        inputs[i] = *s->input;
        inputs[i].rules = NULL;
        inputs[i].key_length = rule->projected_keys;
        sequences[i] = *s;
        sequences[i].input = &inputs[i];
        sequences[i].key_start = i * rule->projected_keys;
        sequences[i].n_keys = rule->projected_keys;
        s->result->approximate = true;
    }
    attend_divide(&few, work->parallel->lanes);
    return batch_attend(&few, work);
}
