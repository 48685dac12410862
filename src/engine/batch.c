/* Measures a ragged batch and lays it out in the arena of its job. One thread, the one that runs the job. */

#include "engine/batch.h"

#include "base/size.h"
#include "engine/attend_plan.h"
#include "engine/fully_masked.h"
#include "engine/low_rank.h"

#include <string.h>

/* A tile of scores of about 192 KiB stays in L2 beside the panels it is multiplied with. Rows in multiples of 12, which
 * every register tile divides. */
#define TILE_FLOATS       ((size_t)48 * 1024)
#define TILE_ROWS_STEP    ((size_t)12)
#define TILE_ROWS_LARGEST ((size_t)96)

size_t batch_tile_stride(size_t n_keys)
{
    return kernel_padded(n_keys) +
           KERNEL_PAD; /* never a multiple of 4 KiB, where all rows would share the same few cache sets */
}

size_t batch_tile_rows(size_t n_keys)
{
    const size_t rows = TILE_FLOATS / n_keys / TILE_ROWS_STEP * TILE_ROWS_STEP;
    return size_max(TILE_ROWS_STEP, size_min(rows, TILE_ROWS_LARGEST));
}

size_t batch_sparse_floats(size_t n_queries, size_t n_keys)
{
    const size_t stride = batch_tile_stride(n_keys);
    return size_max(TILE_ROWS_STEP * stride, size_min(TILE_FLOATS, size_min(n_queries, PLAN_ROWS_MOST) * stride));
}

size_t batch_sparse_rows(size_t n_queries, size_t n_keys, size_t n_columns)
{
    const size_t rows = batch_sparse_floats(n_queries, n_keys) / batch_tile_stride(n_columns);
    return size_min(rows < TILE_ROWS_STEP ? rows : rows / TILE_ROWS_STEP * TILE_ROWS_STEP, PLAN_ROWS_MOST);
}

static bool is_padding_mask(const struct forward_input *input)
{
    return input->self_attention && input->mask_kind == FORWARD_MASK_KEYS;
}

/* True when the kept positions (at least one of them not) are not one run of neighbours. */
static bool has_holes(const uint8_t *mask, size_t length)
{
    size_t runs = 0;
    for (size_t i = 0; i < length; i++)
        runs += mask[i] && (i == 0 || !mask[i - 1]);
    return runs > 1;
}

/* Adds a sequence under a sparse pattern. Its panels are shared whatever its length: a unit is of all heads. */
static bool extend_sparse(struct batch_extent *extent, const struct attention_shape *shape,
                          const struct forward_input *input, size_t n_queries, size_t n_keys)
{
    size_t panels;
    extent->sparse_floats = size_max(extent->sparse_floats, batch_sparse_floats(n_queries, n_keys));
    extent->tile_floats = size_max(extent->tile_floats, extent->sparse_floats);
    extent->tile_rows = size_max(extent->tile_rows, PLAN_ROWS_MOST);
    if (input->observed) {
        extent->sparse_observed = true;
        extent->lane_tiles = shape->num_heads + 1;
    }
    return attend_panel_floats(shape, n_keys, &panels) && size_add(extent->panel_floats, panels, &extent->panel_floats);
}

/* Adds an observed sequence. */
static bool extend_observed(struct batch_extent *extent, const struct attention_shape *shape, size_t n_queries,
                            size_t n_keys, unsigned lanes)
{
    bool shared;
    size_t panels = 0;
    const size_t rows = attend_observed_rows(shape, n_queries, n_keys, lanes, &shared);
    extent->lane_tiles = size_max(extent->lane_tiles, shape->num_heads);
    extent->tile_rows = size_max(extent->tile_rows, rows);
    extent->tile_floats = size_max(extent->tile_floats, rows * batch_tile_stride(n_keys));
    return (!shared || sparse_pattern(extent->rules) || attend_panel_floats(shape, n_keys, &panels)) &&
           size_add(extent->panel_floats, panels, &extent->panel_floats);
}

/* Makes room for tiles of n_queries rows that attend to n_keys. */
static bool extend_tiles(struct batch_extent *extent, size_t n_queries, size_t n_keys)
{
    if (n_keys > SIZE_MAX / 4 / TILE_ROWS_LARGEST - 2 * KERNEL_PAD)
        return false;
    if (n_queries > 0 && n_keys > 0) {
        const size_t rows = size_min(n_queries, batch_tile_rows(n_keys));
        extent->tile_rows = size_max(extent->tile_rows, rows);
        extent->tile_floats = size_max(extent->tile_floats, rows * batch_tile_stride(n_keys));
        extent->longest_keys = size_max(extent->longest_keys, n_keys);
    }
    return true;
}

/* Adds a sequence of n_queries rows that attend to n_keys, or to what low rank makes of them. */
static bool extend(struct batch_extent *extent, size_t n_queries, size_t n_keys)
{
    if (!size_add(extent->n_queries, n_queries, &extent->n_queries) ||
        !size_add(extent->n_keys, n_keys, &extent->n_keys))
        return false;
    extent->longest = size_max(extent->longest, n_keys);
    if (!extent->rules)
        return extend_tiles(extent, n_queries, n_keys);
    const struct low_rank_rule *low_rank = &extent->rules->low_rank;
    if (low_rank->kind == LOW_RANK_LINFORMER)
        return extend_tiles(extent, n_queries, low_rank->projected_keys);
    if (!low_rank_approximates(extent->rules, n_keys))
        return extend_tiles(extent, n_queries, n_keys);
    extent->n_approximate++;
    return extend_tiles(extent, low_rank->landmarks, n_keys) && extend_tiles(extent, n_queries, low_rank->landmarks);
}

static bool measure_input(const struct attention_shape *shape, const struct forward_input *input, unsigned lanes,
                          struct batch_extent *extent)
{
    extent->maps |= !input->no_maps;
    extent->separate_keys |= !input->self_attention;
    extent->separate_values |= !input->self_attention && input->value != input->key;
    extent->longest_positions = size_max(extent->longest_positions, input->key_length);
    if (input->rules)
        position_extend(extent, input);
    if (!size_add(extent->n_sequences, input->batch, &extent->n_sequences))
        return false;
    for (size_t b = 0; b < input->batch; b++) {
        size_t n_queries = input->query_length, n_keys = input->key_length;
        if (is_padding_mask(input)) {
            const uint8_t *mask = input->mask + b * input->key_length;
            n_queries = n_keys = forward_mask_count(mask, input->key_length);
            if (n_keys < input->key_length) {
                extent->padded = true;
                extent->holes |= has_holes(mask, input->key_length);
                if (!size_add(extent->n_kept, n_keys, &extent->n_kept))
                    return false;
            }
        }
        if (!extend(extent, n_queries, n_keys) ||
            (sparse_pattern(extent->rules) && n_queries > 0 &&
             !extend_sparse(extent, shape, input, n_queries, n_keys)) ||
            (input->observed && n_queries > 0 && !extend_observed(extent, shape, n_queries, n_keys, lanes)))
            return false;
    }
    return true;
}

static bool measure(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                    unsigned lanes, bool between, struct batch_extent *extent)
{
    *extent = (struct batch_extent){.lane_tiles = 1, .between = between, .rules = count > 0 ? inputs[0]->rules : NULL};
    for (size_t i = 0; i < count; i++)
        if (!measure_input(shape, inputs[i], lanes, extent))
            return false;
    extent->direct = count == 1 && !between && !extent->padded && !position_is_added(extent->rules);
    return true;
}

/* The pieces of the arena. */
enum piece {
    SEQUENCES,
    KEPT,
    X_QUERY,
    X_KEY,
    X_VALUE,
    QUERY,
    KEY,
    VALUE,
    HEADS,
    PANELS,
    LANES,
    PLAIN_PIECES, /* without rules there are no others */
    READERS = PLAIN_PIECES,
    LOW_RANK,
    SAMPLES,
    POSITIONS,
    KEPT_HEADS,
    PIECES
};

struct pieces {
    size_t bytes[PIECES];
    size_t query_stride, key_stride, value_stride, heads_stride, lane_bytes, reader_bytes;
};

/* Floats between the rows of an internal matrix: as for tiles of scores. */
static bool row_stride(size_t heads, size_t per_head, size_t *stride)
{
    size_t columns;
    if (!size_multiply(heads, per_head, &columns) || columns > SIZE_MAX - 2 * KERNEL_PAD)
        return false;
    *stride = kernel_padded(columns) + KERNEL_PAD;
    return true;
}

static bool matrix_bytes(size_t rows, size_t stride, size_t *bytes)
{
    return tensor_bytes((size_t[]){rows, stride}, 2, sizeof(float), bytes);
}

/* Whether queries and keys of a set without projections are the same rows, so that they are turned once. */
static bool shares_turned_rows(const struct attention_shape *shape, const struct batch_extent *extent)
{
    return !extent->separate_keys && shape->num_kv_heads == shape->num_heads;
}

static bool size_pieces(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                        struct pieces *p)
{
    *p = (struct pieces){0};
    size_t *bytes = p->bytes;
    if (!size_multiply(extent->n_sequences, sizeof(struct sequence), &bytes[SEQUENCES]) ||
        !size_multiply(extent->n_kept, sizeof(uint32_t), &bytes[KEPT]))
        return false;
    if (extent->padded && extent->n_kept == 0)
        bytes[KEPT] = sizeof(uint32_t); /* all is padding: an empty list, but a list */
    if (!extent->direct && !extent->between &&
        (!matrix_bytes(extent->n_queries, shape->d_model, &bytes[X_QUERY]) ||
         (extent->separate_keys && !matrix_bytes(extent->n_keys, shape->d_model, &bytes[X_KEY])) ||
         (extent->separate_values && !matrix_bytes(extent->n_keys, shape->d_model, &bytes[X_VALUE]))))
        return false;
    if (!row_stride(shape->num_heads, shape->d_k, &p->query_stride) ||
        !row_stride(shape->num_kv_heads, shape->d_k, &p->key_stride) ||
        !row_stride(shape->num_kv_heads, shape->d_v, &p->value_stride) ||
        !row_stride(shape->num_heads, shape->d_v, &p->heads_stride))
        return false;
    if (shape->projected && (!matrix_bytes(extent->n_queries, p->query_stride, &bytes[QUERY]) ||
                             !matrix_bytes(extent->n_keys, p->key_stride, &bytes[KEY]) ||
                             !matrix_bytes(extent->n_keys, p->value_stride, &bytes[VALUE])))
        return false;
    if (!shape->projected && position_rotates(extent->rules) &&
        (!matrix_bytes(extent->n_queries, p->query_stride, &bytes[QUERY]) ||
         (!shares_turned_rows(shape, extent) && !matrix_bytes(extent->n_keys, p->key_stride, &bytes[KEY]))))
        return false;
    /* Without projections and padding the heads are the output, and written there, if it is wanted. */
    if ((shape->projected || !extent->direct || rules_keep_heads_by(extent->rules, KEEP_BY_NORM)) &&
        !matrix_bytes(extent->n_queries, p->heads_stride, &bytes[HEADS]))
        return false;
    if (extent->sparse_floats > 0 &&
        (!pattern_reader_bytes(&extent->rules->pattern, extent->longest_positions, &p->reader_bytes) ||
         !size_multiply(lanes, p->reader_bytes, &bytes[READERS])))
        return false;
    return tensor_bytes(&extent->panel_floats, 1, sizeof(float), &bytes[PANELS]) &&
           attend_lane_bytes(shape, extent, &p->lane_bytes) && size_multiply(lanes, p->lane_bytes, &bytes[LANES]) &&
           (!extent->rules || (low_rank_bytes(shape, extent, lanes, &bytes[LOW_RANK]) &&
                               dropout_bytes(shape, extent->rules, extent, &bytes[SAMPLES]) &&
                               position_bytes(shape, extent, lanes, &bytes[POSITIONS]) &&
                               keep_heads_bytes(shape, extent, lanes, &bytes[KEPT_HEADS])));
}

static bool count_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                        unsigned lanes, bool between, size_t *bytes)
{
    struct batch_extent extent;
    struct pieces pieces;
    size_t total = 0;
    if (!measure(shape, inputs, count, lanes, between, &extent) || !size_pieces(shape, &extent, lanes, &pieces))
        return false;
    for (size_t i = 0; i < PLAIN_PIECES; i++)
        if (!arena_need(&total, pieces.bytes[i]))
            return false;
    for (size_t i = PLAIN_PIECES; extent.rules && i < PIECES; i++)
        if (!arena_need(&total, pieces.bytes[i]))
            return false;
    *bytes = total;
    return true;
}

bool batch_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                 unsigned lanes, size_t *bytes)
{
    return count_bytes(shape, inputs, count, lanes, false, bytes);
}

bool batch_layer_bytes(const struct attention_shape *shape, const struct forward_input *const *inputs, size_t count,
                       unsigned lanes, size_t *bytes)
{
    return count_bytes(shape, inputs, count, lanes, true, bytes);
}

/* Fills the sequences of one input; *kept moves on over the positions written. */
static void list_sequences(struct batch *batch, const struct forward_input *input,
                           const struct forward_input *observed_input, struct forward_result *result, size_t first,
                           size_t *query_start, size_t *key_start, uint32_t **kept)
{
    result->fully_masked_rows = 0;
    result->approximate = false;
    for (size_t b = 0; b < input->batch; b++) {
        struct sequence *s = &batch->sequences[first + b];
        *s = (struct sequence){.input = input,
                               .observed_input = observed_input,
                               .result = result,
                               .index = b,
                               .query_start = *query_start,
                               .key_start = *key_start};
        s->output_wanted = result->output || batch->extent.between;
        s->n_queries = input->query_length;
        s->n_keys = input->key_length;
        if (is_padding_mask(input)) {
            const uint8_t *mask = input->mask + b * input->key_length;
            s->n_queries = s->n_keys = forward_mask_count(mask, input->key_length);
            if (s->n_keys < input->key_length) {
                s->kept = *kept;
                s->holes = has_holes(mask, input->key_length);
                for (size_t i = 0; i < input->key_length; i++)
                    if (mask[i])
                        *(*kept)++ = (uint32_t)i;
            }
        }
        *query_start += s->n_queries;
        *key_start += s->n_keys;
        result->fully_masked_rows += fully_masked_plain(s);
    }
}

/* Where the projections read: the caller's tensors, or what batch_gather will copy. */
static void place_inputs(struct batch *batch, const struct forward_input *first, const struct layer_rows *rows,
                         void *const *memory)
{
    const size_t d_model = batch->layer->shape.d_model;
    if (rows) {
        batch->x_query = batch->x_key = batch->x_value = rows->to;
        batch->in_query = batch->in_key = batch->in_value = rows->from;
        return;
    }
    if (batch->extent.direct) {
        batch->in_query = (struct rows_in){first->query, d_model};
        batch->in_key = first->self_attention ? batch->in_query : (struct rows_in){first->key, d_model};
        batch->in_value = first->self_attention ? batch->in_query : (struct rows_in){first->value, d_model};
        return;
    }
    batch->x_query = (struct rows){memory[X_QUERY], d_model};
    batch->x_key = batch->extent.separate_keys ? (struct rows){memory[X_KEY], d_model} : batch->x_query;
    batch->x_value = batch->extent.separate_values ? (struct rows){memory[X_VALUE], d_model} : batch->x_key;
    batch->in_query = (struct rows_in){batch->x_query.data, d_model};
    batch->in_key = (struct rows_in){batch->x_key.data, d_model};
    batch->in_value = (struct rows_in){batch->x_value.data, d_model};
}

static void place_results(struct batch *batch, const struct forward_result *first, const struct layer_rows *rows,
                          bool output_wanted, void *const *memory, const struct pieces *pieces)
{
    const struct attention_shape *shape = &batch->layer->shape;
    if (shape->projected) {
        batch->projected_query = (struct rows){memory[QUERY], pieces->query_stride};
        batch->projected_key = (struct rows){memory[KEY], pieces->key_stride};
        batch->projected_value = (struct rows){memory[VALUE], pieces->value_stride};
        batch->query = (struct rows_in){memory[QUERY], pieces->query_stride};
        batch->key = (struct rows_in){memory[KEY], pieces->key_stride};
        batch->value = (struct rows_in){memory[VALUE], pieces->value_stride};
    } else {
        batch->query = batch->in_query;
        batch->key = batch->in_key;
        batch->value = batch->in_value;
    }
    if (!shape->projected && position_rotates(batch->extent.rules)) {
        batch->projected_query = batch->projected_key = (struct rows){memory[QUERY], pieces->query_stride};
        if (!shares_turned_rows(shape, &batch->extent))
            batch->projected_key = (struct rows){memory[KEY], pieces->key_stride};
        batch->query = (struct rows_in){batch->projected_query.data, batch->projected_query.stride};
        batch->key = (struct rows_in){batch->projected_key.data, batch->projected_key.stride};
    }
    batch->heads = (struct rows){memory[HEADS], pieces->heads_stride};
    if (rows) {
        batch->output = rows->to;
        batch->output_adds = rows->adds;
        return;
    }
    if (!output_wanted) {
        if (!rules_keep_heads_by(batch->extent.rules, KEEP_BY_NORM))
            batch->heads.data = NULL;
        return;
    }
    const struct rows result = {first->output, shape->d_model};
    if (batch->extent.direct) {
        batch->output = result;
        if (!shape->projected)
            batch->heads = result;
    } else {
        batch->output = shape->projected ? batch->x_query : batch->heads; /* the inputs are not read any more by then */
    }
}

bool batch_create(struct batch *batch, const struct attention_layer *layer, const struct forward_input *const *inputs,
                  struct forward_result *const *results, size_t count, unsigned lanes, struct arena *arena,
                  struct error *error)
{
    return batch_create_layer(batch, layer, inputs, results, count, lanes, NULL, arena, error);
}

bool batch_create_layer(struct batch *batch, const struct attention_layer *layer,
                        const struct forward_input *const *inputs, struct forward_result *const *results, size_t count,
                        unsigned lanes, const struct layer_rows *rows, struct arena *arena, struct error *error)
{
    *batch = (struct batch){.layer = layer,
                            .layer_index = rows ? rows->layer : 0,
                            .heads_per_kv_head = layer->shape.num_heads / layer->shape.num_kv_heads};
    struct pieces pieces;
    void *memory[PIECES] = {0};
    if (!measure(&layer->shape, inputs, count, lanes, rows != NULL, &batch->extent) ||
        !size_pieces(&layer->shape, &batch->extent, lanes, &pieces))
        return error_out_of_memory(error);
    const size_t n_pieces = batch->extent.rules ? PIECES : PLAIN_PIECES;
    for (size_t i = 0; i < n_pieces; i++)
        if (pieces.bytes[i] > 0 && !(memory[i] = arena_take(arena, pieces.bytes[i])))
            return error_out_of_memory(error);

    batch->sequences = memory[SEQUENCES];
    batch->lanes = memory[LANES];
    batch->lane_bytes = pieces.lane_bytes;
    batch->panels = memory[PANELS];
    batch->readers = memory[READERS];
    batch->reader_bytes = pieces.reader_bytes;
    batch->low_rank = memory[LOW_RANK];
    batch->samples = memory[SAMPLES];
    uint32_t *kept = memory[KEPT];
    bool output_wanted = false;
    for (size_t i = 0, first = 0, query_start = 0, key_start = 0; i < count; first += inputs[i]->batch, i++) {
        list_sequences(batch, inputs[i], rows ? rows->observed_inputs[i] : inputs[i], results[i], first, &query_start,
                       &key_start, &kept);
        output_wanted |= results[i]->output != NULL;
    }
    if (count > 0) {
        place_inputs(batch, inputs[0], rows, memory);
        place_results(batch, results[0], rows, output_wanted, memory, &pieces);
    }
    attend_divide(batch, lanes);
    if (batch->extent.rules) {
        position_open(batch, lanes, memory[POSITIONS], pieces.bytes[POSITIONS]);
        keep_heads_open(batch, lanes, memory[KEPT_HEADS], pieces.bytes[KEPT_HEADS]);
    }
    return true;
}
