/* Attention itself: for a sequence, a head and some rows of queries, softmax(scale * query key^T + bias) value.
 *
 * A unit of work is a run of rows of one head of one sequence; any lane. The lane packs the head's keys and values,
 * then takes blocks of rows: a tile of scores [rows, n_keys] that stays in L2 is made, turned into unnormalised weights
 * in place, copied to the map where one is wanted, and multiplied with the values; 1 / sum is applied to what leaves
 * the tile. Nothing T x T exists but the maps. */

#include "engine/attend.h"

#include "base/size.h"

#include <math.h>
#include <string.h>

/* Rows of a tile that is observed, at least. The panels of all heads go by for every unit, from L3, so that they are
 * read less often, though the tile leaves L2 where keys are many. */
#define OBSERVED_TILE_ROWS ((size_t)48)

enum { ARRAYS = 10, PLAIN_ARRAYS = 8 };

static bool lane_arrays(const struct attention_shape *shape, const struct batch_extent *extent, size_t bytes[ARRAYS])
{
    const size_t padded_keys = kernel_padded(extent->longest_keys), padded_d_v = kernel_padded(shape->d_v),
                 element = sizeof(float);
    const size_t map_row = extent->holes ? padded_keys : 0;
    const size_t bias_row = extent->holes || extent->biases_add ? padded_keys : 0;
    return tensor_bytes((size_t[]){shape->d_k, padded_keys}, 2, element, &bytes[0]) &&
           tensor_bytes((size_t[]){extent->longest_keys, padded_d_v}, 2, element, &bytes[1]) &&
           tensor_bytes((size_t[]){extent->lane_tiles, extent->tile_floats}, 2, element, &bytes[2]) &&
           tensor_bytes((size_t[]){extent->tile_rows, padded_d_v}, 2, element, &bytes[3]) &&
           tensor_bytes((size_t[]){extent->lane_tiles, kernel_padded(extent->tile_rows)}, 2, element, &bytes[4]) &&
           tensor_bytes(&bias_row, 1, element, &bytes[5]) && tensor_bytes(&map_row, 1, element, &bytes[6]) &&
           tensor_bytes((size_t[]){extent->lane_tiles, kernel_padded(extent->tile_rows)}, 2, element, &bytes[7]) &&
           (!extent->rules || (samples_lane_bytes(extent, &bytes[8]) && sparse_lane_bytes(extent, &bytes[9])));
}

bool attend_lane_bytes(const struct attention_shape *shape, const struct batch_extent *extent, size_t *bytes)
{
    const size_t count = extent->rules ? ARRAYS : PLAIN_ARRAYS;
    size_t arrays[ARRAYS], total = 0;
    if (!lane_arrays(shape, extent, arrays) || !arena_need(&total, sizeof(struct lane)))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!arena_need(&total, arrays[i]))
            return false;
    *bytes = total;
    return true;
}

struct lane *attend_lane(const struct batch *batch, unsigned lane)
{
    return (struct lane *)(batch->lanes + lane * batch->lane_bytes);
}

static void open_lane(const struct batch *batch, unsigned lane)
{
    size_t bytes[ARRAYS];
    lane_arrays(&batch->layer->shape, &batch->extent, bytes); /* did not overflow when the batch was created */
    struct arena memory = {.base = batch->lanes + lane * batch->lane_bytes, .capacity = batch->lane_bytes};
    struct lane *l = arena_take(&memory, sizeof *l);
    *l = (struct lane){.packed_sequence = SIZE_MAX};
    float **const arrays[PLAIN_ARRAYS] = {&l->key_panels, &l->value_panels, &l->tile,    &l->z,
                                          &l->inverse,    &l->bias_row,     &l->map_row, &l->logs};
    for (size_t i = 0; i < PLAIN_ARRAYS; i++)
        *arrays[i] = arena_take(&memory, bytes[i]);
    if (!batch->extent.rules)
        return;
    if (bytes[8] > 0)
        l->dropped = arena_take(&memory, bytes[8]);
    if (bytes[9] > 0)
        l->sparse = sparse_lane_open(&batch->extent, arena_take(&memory, bytes[9]));
}

/* a / b without the processor's division, which a small unit would wait for, where b is 1 more often than not. */
static size_t divide(size_t a, size_t b)
{
    return a < b ? 0 : b == 1 ? a : a / b;
}

/* The last sequence whose first unit is not behind `unit`: those without units are passed over. */
static const struct sequence *sequence_of_unit(const struct batch *batch, size_t unit)
{
    size_t low = 0, high = batch->extent.n_sequences;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (batch->sequences[middle].first_unit <= unit)
            low = middle;
        else
            high = middle;
    }
    return &batch->sequences[low];
}

static void pack(const struct batch *batch, const struct sequence *s, size_t kv_head, float *key_panels,
                 float *value_panels)
{
    const struct attention_shape *shape = &batch->layer->shape;
    const struct kernels *kernels = batch->layer->kernels;
    const float *keys = batch->key.data + s->key_start * batch->key.stride + kv_head * shape->d_k;
    const float *values = batch->value.data + s->key_start * batch->value.stride + kv_head * shape->d_v;
    kernels->pack_transposed(keys, batch->key.stride, shape->d_k, s->n_keys, key_panels);
    kernels->pack(values, batch->value.stride, s->n_keys, shape->d_v, value_panels);
}

/* The shared panels of a head of keys and values, one behind the other. */
static size_t head_key_floats(const struct attention_shape *shape, const struct sequence *s)
{
    return shape->d_k * kernel_padded(s->n_keys);
}

static size_t head_panel_floats(const struct attention_shape *shape, const struct sequence *s)
{
    return head_key_floats(shape, s) + s->n_keys * kernel_padded(shape->d_v);
}

void attend_choose_panels(struct block *b, struct lane *lane)
{
    const struct batch *batch = b->batch;
    const struct attention_shape *shape = &batch->layer->shape;
    const struct sequence *s = b->sequence;
    const size_t sequence = (size_t)(s - batch->sequences), kv_head = divide(b->head, batch->heads_per_kv_head);
    if (s->panels) {
        b->key_panels = s->panels + kv_head * head_panel_floats(shape, s);
        b->value_panels = b->key_panels + head_key_floats(shape, s);
        return;
    }
    if (lane->packed_sequence != sequence || lane->packed_kv_head != kv_head) {
        pack(batch, s, kv_head, lane->key_panels, lane->value_panels);
        lane->packed_sequence = sequence;
        lane->packed_kv_head = kv_head;
    }
    b->key_panels = lane->key_panels;
    b->value_panels = lane->value_panels;
}

size_t attend_whole_vectors(const struct kernels *kernels, size_t columns)
{
    return (columns + kernels->vector_floats - 1) / kernels->vector_floats * kernels->vector_floats;
}

/* The tile: scale * query key^T. */
static void score(const struct block *b)
{
    const struct batch *batch = b->batch;
    const struct attention_shape *shape = &batch->layer->shape;
    const struct kernels *kernels = batch->layer->kernels;
    if (b->plan) {
        sparse_score(b);
        return;
    }
    const struct product product = {
        .depth = shape->d_k,
        .columns = attend_whole_vectors(kernels, b->sequence->n_keys),
        .a = batch->query.data + (b->sequence->query_start + b->first_row) * batch->query.stride + b->head * shape->d_k,
        .a_stride = batch->query.stride,
        .b = b->key_panels,
        .b_depth = shape->d_k,
        .scale = shape->scale,
        .c = b->tile,
        .c_stride = b->tile_stride,
    };
    kernels->multiply(&product, 0, b->n_rows, 0, b->n_keys);
}

const float *attend_bias_of_row(const struct block *b, size_t row)
{
    const struct sequence *s = b->sequence;
    const struct forward_input *in = s->input;
    const float *bias = position_bias_of_row(b->batch, s, b->head, row), *other = NULL;
    if (in->bias) {
        const size_t plane = (in->bias_per_sequence ? s->index * b->batch->layer->shape.num_heads : 0) + b->head;
        other = bias;
        bias = in->bias + (plane * in->query_length + sequence_position(s, row)) * in->key_length;
    }
    if (!bias)
        return NULL;
    float *sum = b->lane->bias_row;
    if (!s->holes) {
        const size_t first = s->kept ? s->kept[0] : 0;
        for (size_t j = 0; other && j < s->n_keys; j++)
            sum[j] = bias[first + j] + other[first + j];
        return other ? sum : bias + first;
    }
    for (size_t j = 0; j < s->n_keys; j++)
        sum[j] = other ? bias[s->kept[j]] + other[s->kept[j]] : bias[s->kept[j]];
    return sum;
}

float attend_empty_row(const float *bias, const uint8_t *allowed, size_t n_keys)
{
    for (size_t j = 0; j < n_keys; j++)
        if ((!allowed || allowed[j]) && (!bias || bias[j] > -INFINITY))
            return NAN;
    return 0;
}

/* Of a row's keys so many with the largest scores are kept; 0: all. */
static size_t keys_to_keep(const struct sequence *s)
{
    const struct attention_rules *rules = s->input->rules;
    return rules && rules->pattern.kind == PATTERN_TOP_K && rules->pattern.k < s->n_keys ? rules->pattern.k : 0;
}

/* weigh where a row may have a bias, keys that are not allowed, or a rule. */
static void weigh_with_more(const struct block *b)
{
    const struct kernels *kernels = b->batch->layer->kernels;
    const struct sequence *s = b->sequence;
    if (b->plan) {
        sparse_weigh(b);
        return;
    }
    const size_t keep = keys_to_keep(s);
    if (!s->input->bias && !b->batch->positions.distance_bias && !keep && !sequence_allowed(s, b->first_row)) {
        kernels->softmax_rows(b->tile, b->tile_stride, b->n_rows, b->n_keys, sequence_key_end(s, b->first_row),
                              b->inverse, b->logs);
        return;
    }
    for (size_t i = 0; i < b->n_rows; i++) {
        const size_t row = b->first_row + i, limit = sequence_key_limit(s, row);
        const float *bias = attend_bias_of_row(b, row);
        const uint8_t *allowed = sequence_allowed(s, row);
        float *scores = b->tile + i * b->tile_stride;
        double logs, *wanted = b->logs ? &logs : NULL, sum;
        if (keep) {
            kernels->keep_largest(scores, limit, bias, allowed, keep);
            sum = kernels->softmax(scores, limit, kernel_padded(b->n_keys), NULL, NULL, wanted);
        } else {
            sum = kernels->softmax(scores, limit, kernel_padded(b->n_keys), bias, allowed, wanted);
        }
        b->inverse[i] = sum == 0 ? attend_empty_row(bias, allowed, limit) : (float)(1.0 / sum);
        if (b->logs)
            b->logs[i] = (float)logs;
    }
}

/* The tile's scores become unnormalised weights; the rows' 1 / sum is kept beside. A row without an allowed key gets 0,
 * so that all that comes of it is 0. */
static inline void weigh(const struct block *b)
{
    const struct sequence *s = b->sequence;
    if (s->plain)
        b->batch->layer->kernels->softmax_rows(b->tile, b->tile_stride, b->n_rows, b->n_keys,
                                               sequence_key_end(s, b->first_row), b->inverse, b->logs);
    else
        weigh_with_more(b);
}

void attend_make_weights(const struct block *b)
{
    score(b);
    weigh(b);
}

static void zero(float *from, const float *end)
{
    if (from < end)
        memset(from, 0, (size_t)(end - from) * sizeof *from);
}

/* One row of a map, [key_length]. */
static void write_map_row(const struct block *b, size_t i, float *map_row)
{
    const struct kernels *kernels = b->batch->layer->kernels;
    const struct sequence *s = b->sequence;
    const float *weights = b->tile + i * b->tile_stride, *end = map_row + s->input->key_length;
    if (b->plan) {
        sparse_write_map_row(b, i, map_row);
        return;
    }
    if (s->holes) {
        zero(map_row, end);
        kernels->scale(b->lane->map_row, weights, b->n_keys, b->inverse[i]);
        for (size_t j = 0; j < b->n_keys; j++)
            map_row[s->kept[j]] = b->lane->map_row[j];
        return;
    }
    float *to = s->kept ? map_row + s->kept[0] : map_row;
    zero(map_row, to);
    kernels->scale(to, weights, b->n_keys, b->inverse[i]);
    zero(to + b->n_keys, end);
}

/* The first of the places from `place` on where the head's map and Z go; n_maps: none. */
static size_t next_place(const struct forward_result *r, size_t head, size_t place)
{
    if (!r->include_heads)
        return place <= head ? head : r->n_maps;
    while (place < r->n_maps && r->include_heads[place] != head)
        place++;
    return place;
}

/* The rows of the map that the block's rows stand for: its own, and the padding up to the next row's (before the first
 * one, too), which is zero. So all of a map is written once, by the lanes that share its head. */
static void write_map(const struct block *b, float *map /* [query_length, key_length] */)
{
    const struct sequence *s = b->sequence;
    const size_t key_length = s->input->key_length, query_length = s->input->query_length;
    if (!s->kept && b->n_keys == key_length) { /* with a plan, too, these are all keys in order */
        b->batch->layer->kernels->scale_rows(map + b->first_row * key_length, key_length, b->tile, b->tile_stride,
                                             b->n_rows, key_length, b->inverse);
        return;
    }
    if (b->first_row == 0)
        zero(map, map + sequence_position(s, 0) * key_length);
    for (size_t i = 0; i < b->n_rows; i++) {
        const size_t row = b->first_row + i, position = sequence_position(s, row);
        const size_t next = row + 1 < s->n_queries ? sequence_position(s, row + 1) : query_length;
        write_map_row(b, i, map + position * key_length);
        zero(map + (position + 1) * key_length, map + next * key_length);
    }
}

static void write_maps(const struct block *b)
{
    const struct sequence *s = b->sequence;
    const struct forward_result *r = s->result;
    const size_t map_floats = s->input->query_length * s->input->key_length;
    for (size_t place = next_place(r, b->head, 0); place < r->n_maps; place = next_place(r, b->head, place + 1))
        write_map(b, r->attention + forward_plane(r, s->index, r->n_maps, place) * map_floats);
}

void attend_mix(const struct block *b, const struct rows *z)
{
    const struct attention_shape *shape = &b->batch->layer->shape;
    const struct kernels *kernels = b->batch->layer->kernels;
    const size_t mixed_stride = kernel_padded(shape->d_v);
    const struct product product = {
        .depth = b->n_keys,
        .columns = attend_whole_vectors(kernels, shape->d_v),
        .a = b->tile,
        .a_stride = b->tile_stride,
        .b = b->value_panels,
        .b_depth = b->sequence->n_keys,
        .scale = 1,
        .c = b->lane->z,
        .c_stride = mixed_stride,
    };
    if (b->plan)
        sparse_mix(b);
    else
        kernels->multiply(&product, 0, b->n_rows, 0, shape->d_v);
    kernels->scale_rows(z->data, z->stride, b->lane->z, mixed_stride, b->n_rows, shape->d_v, b->inverse);
}

static void write_heads(const struct block *b)
{
    const struct sequence *s = b->sequence;
    const struct forward_result *r = s->result;
    const size_t d_v = b->batch->layer->shape.d_v, z_stride = kernel_padded(d_v);
    for (size_t place = next_place(r, b->head, 0); place < r->n_maps; place = next_place(r, b->head, place + 1)) {
        const size_t plane = forward_plane(r, s->index, r->n_maps, place);
        for (size_t i = 0; i < b->n_rows; i++) {
            const size_t row = plane * s->input->query_length + sequence_position(s, b->first_row + i);
            memcpy(r->heads + row * d_v, b->lane->z + i * z_stride, d_v * sizeof(float));
        }
    }
}

void attend_write_gated(const struct block *b, float gate, const struct rows *heads)
{
    const struct rows gated = attend_gated_rows(b, heads);
    const size_t d_v = b->batch->layer->shape.d_v, z_stride = kernel_padded(d_v);
    for (size_t i = 0; i < b->n_rows; i++) {
        float *to = gated.data + i * gated.stride;
        if (gate == 0)
            memset(to, 0, d_v * sizeof *to);
        else
            b->batch->layer->kernels->scale(to, b->lane->z + i * z_stride, d_v, gate);
    }
}

/* Whether the head's map and Z are among those returned. */
static bool is_included(const struct sequence *s, size_t head)
{
    return next_place(s->result, head, 0) < s->result->n_maps;
}

void attend_block(const struct block *b)
{
    const struct batch *batch = b->batch;
    const struct kept_heads *kept = &batch->kept_heads;
    const struct forward_result *r = b->sequence->result;
    const bool included = is_included(b->sequence, b->head);
    const bool map_wanted = included && r->attention, head_wanted = included && r->heads;
    const float *head_mask = b->sequence->input->head_mask;
    const bool dropped = kept->rule && keep_heads_drops(batch, b->sequence, b->head);
    const float gate = dropped ? 0 : head_mask ? head_mask[b->head] : 1;
    /* The output projection does not read the columns of a head that is known to be dropped. */
    const bool gated_wanted =
        batch->heads.data && (b->sequence->output_wanted || kept->by_norm) && !(dropped && batch->layer->shape.projected);
    const bool z_wanted = head_wanted || (gated_wanted && gate != 0);
    if (map_wanted || z_wanted || kept->by_rows || b->sequence->observed)
        attend_make_weights(b);
    if (batch->dropout) {
        attend_samples(b, gate);
        return;
    }
    if (kept->by_rows)
        keep_heads_note(batch, b->sequence, b->head, b->first_row, b->n_rows, b->inverse, b->logs);
    if (map_wanted)
        write_maps(b);
    if (gated_wanted && gate == 1 && !head_wanted) {
        const struct rows gated = attend_gated_rows(b, &b->batch->heads);
        attend_mix(b, &gated);
        return;
    }
    if (z_wanted)
        attend_mix(b, &(struct rows){b->lane->z, kernel_padded(b->batch->layer->shape.d_v)});
    if (head_wanted)
        write_heads(b);
    if (gated_wanted)
        attend_write_gated(b, gate, &b->batch->heads);
}

/* All heads of some rows, for the observer. */
static void attend_observed(struct block block, struct lane *lane, unsigned lane_index)
{
    struct block *b = &block;
    const struct batch *batch = b->batch;
    const struct batch_extent *extent = &batch->extent;
    const struct sequence *s = b->sequence;
    struct observed_rows rows = {
        .input = s->observed_input,
        .sequence = s->index,
        .layer = batch->layer_index,
        .num_heads = batch->layer->shape.num_heads,
        .first_row = b->first_row,
        .n_rows = b->n_rows,
        .n_queries = s->n_queries,
        .n_keys = s->n_keys,
        .n_computed = b->n_keys,
        .stride = b->tile_stride,
        .head_stride = extent->tile_floats,
        .key_limit = sequence_key_end(s, b->first_row),
        .key_step = s->input->causal,
        .allowed = sequence_allowed(s, b->first_row),
    };
    for (size_t head = 0; head < rows.num_heads; head++) {
        b->head = rows.head = head;
        float *inverse = lane->inverse + head * kernel_padded(extent->tile_rows);
        rows.weights = lane->tile + head * extent->tile_floats;
        rows.inverse = inverse;
        rows.logs = lane->logs;
        attend_choose_panels(b, lane);
        for (size_t row = 0; row < rows.n_rows; row += b->n_rows) {
            b->first_row = rows.first_row + row;
            b->n_rows = size_min(size_max(batch_tile_rows(s->n_keys), OBSERVED_TILE_ROWS), rows.n_rows - row);
            b->tile = rows.weights + row * b->tile_stride;
            b->inverse = inverse + row;
            b->logs = lane->logs + row;
            attend_block(b);
        }
        if (batch->observer)
            batch->observer->rows(batch->observer->context, &rows, lane_index);
    }
}

static void attend_unit(const void *argument, size_t unit, unsigned lane_index)
{
    const struct batch *batch = argument;
    struct lane *lane = attend_lane(batch, lane_index);
    const struct sequence *s = sequence_of_unit(batch, unit);
    if (s->sparse) {
        sparse_unit(batch, lane, s, unit - s->first_unit, lane_index);
        return;
    }
    const size_t head = divide(unit - s->first_unit, s->units_per_head);
    const size_t first_row = (unit - s->first_unit - head * s->units_per_head) * s->unit_rows;
    const size_t n_rows = size_min(s->unit_rows, s->n_queries - first_row);
    const size_t blocks = n_rows <= s->tile_rows ? 1 : (n_rows + s->tile_rows - 1) / s->tile_rows,
                 least = divide(n_rows, blocks), larger = n_rows - blocks * least;
    struct block b = {
        .batch = batch,
        .sequence = s,
        .lane = lane,
        .head = head,
        .first_row = first_row,
        .tile_stride = batch_tile_stride(s->n_keys),
        .tile = lane->tile,
        .inverse = lane->inverse,
        .logs = batch->kept_heads.by_entropy ? lane->logs : NULL,
    };
    if (batch->kept_heads.computed && keep_heads_skips(batch, s, head))
        return;
    if (!s->observed)
        attend_choose_panels(&b, lane);
    for (size_t i = 0; i < blocks; i++) {
        b.n_rows = least + (i < larger);
        b.n_keys = size_max(sequence_key_limit(s, b.first_row + b.n_rows - 1), 1);
        if (s->observed) {
            attend_observed(b, lane, lane_index);
            continue; /* it is the only one */
        }
        attend_block(&b);
        b.first_row += b.n_rows;
    }
}

/* A tile is one head of keys and values of one sequence. */
static void pack_shared(const void *argument, size_t index, unsigned lane)
{
    const struct batch *batch = argument;
    const struct attention_shape *shape = &batch->layer->shape;
    const struct sequence *s = &batch->sequences[divide(index, shape->num_kv_heads)];
    const size_t kv_head = index - (size_t)(s - batch->sequences) * shape->num_kv_heads;
    (void)lane;
    if (!s->panels || (batch->kept_heads.computed && !keep_heads_reads(batch, kv_head)))
        return;
    float *panels = s->panels + kv_head * head_panel_floats(shape, s);
    pack(batch, s, kv_head, panels, panels + head_key_floats(shape, s));
}

bool batch_open_attention(const struct batch *batch, struct work *work)
{
    const size_t n_sequences = batch->extent.n_sequences;
    for (unsigned lane = 0; lane < work->parallel->lanes; lane++)
        open_lane(batch, lane);
    return batch->extent.panel_floats == 0 ||
           work_split(work, n_sequences * batch->layer->shape.num_kv_heads,
                      (double)batch->extent.panel_floats * SPLIT_FLOP_PER_FLOAT, pack_shared, batch);
}

bool batch_attend(const struct batch *batch, struct work *work)
{
    const size_t n_sequences = batch->extent.n_sequences;
    if (n_sequences == 0)
        return true;
    if (!batch_open_attention(batch, work))
        return false;
    const struct sequence *last = &batch->sequences[n_sequences - 1];
    const size_t units = last->first_unit + attend_units(batch, last);
    return work_split(work, units, attend_flop(batch), attend_unit, batch);
}
