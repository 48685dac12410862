/* What heads did in each sequence: the numbers that keep_heads.c chooses by, and what follows from the choice. Tiles
 * are blocks of rows, then sequences; any lane. */

#include "engine/keep_heads.h"

#include "base/size.h"
#include "engine/attend_plan.h"
#include "engine/batch.h"
#include "engine/head_output.h"

#include <math.h>
#include <string.h>

/* Rows whose contributions are computed at once. */
#define BLOCK_ROWS ((size_t)48)

/* One lane's memory. */
struct measuring {
    double *values;       /* [num_heads] of one sequence */
    float *contributions; /* [BLOCK_ROWS, head_output_columns] of one head, rows padded; by norm */
    double *sums;         /* [BLOCK_ROWS, head_output_columns] of all heads; the same */
};

enum { VALUES, CONTRIBUTIONS, SUMS, PIECES };

static bool piece_bytes(const struct attention_shape *shape, const struct batch_extent *extent, size_t bytes[PIECES])
{
    const size_t columns = head_output_columns(shape);
    memset(bytes, 0, PIECES * sizeof *bytes);
    if (!tensor_bytes(&shape->num_heads, 1, sizeof(double), &bytes[VALUES]))
        return false;
    return !rules_keep_heads_by(extent->rules, KEEP_BY_NORM) ||
           (tensor_bytes((size_t[]){BLOCK_ROWS, kernel_padded(columns)}, 2, sizeof(float), &bytes[CONTRIBUTIONS]) &&
            tensor_bytes((size_t[]){BLOCK_ROWS, columns}, 2, sizeof(double), &bytes[SUMS]));
}

bool keep_heads_lane_bytes(const struct attention_shape *shape, const struct batch_extent *extent, size_t *bytes)
{
    size_t pieces[PIECES];
    *bytes = 0;
    if (!piece_bytes(shape, extent, pieces))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(bytes, pieces[i]))
            return false;
    return true;
}

static struct measuring open_lane(const struct batch *batch, unsigned lane)
{
    const struct kept_heads *kept = &batch->kept_heads;
    struct arena arena = {.base = kept->lanes + lane * kept->lane_bytes, .capacity = kept->lane_bytes};
    size_t need[PIECES];
    void *pieces[PIECES];
    piece_bytes(&batch->layer->shape, &batch->extent, need); /* did not overflow when its bytes were counted */
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = need[i] ? arena_take(&arena, need[i]) : NULL;
    return (struct measuring){pieces[VALUES], pieces[CONTRIBUTIONS], pieces[SUMS]};
}

/* The sum of the squares, in chains that do not wait for each other. */
static double square_norm(const float *x, size_t count)
{
    double sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < count; i++)
        sums[0] += (double)x[i] * (double)x[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* The norms of what each head adds to rows of the output, over that of their sum: y - b_O. */
static void measure_norms(const void *argument, size_t index, unsigned lane)
{
    const struct batch *batch = argument;
    const struct attention_layer *layer = batch->layer;
    const struct measuring m = open_lane(batch, lane);
    const size_t num_heads = layer->shape.num_heads, d_v = layer->shape.d_v,
                 columns = head_output_columns(&layer->shape), stride = kernel_padded(columns);
    const size_t first = index * BLOCK_ROWS, n_rows = size_min(BLOCK_ROWS, batch->extent.n_queries - first);
    float *values = batch->kept_heads.row_values + first * num_heads; /* [n_rows, num_heads] */
    double squares[BLOCK_ROWS] = {0};
    memset(m.sums, 0, n_rows * columns * sizeof *m.sums);
    for (size_t head = 0; head < num_heads; head++) {
        const float *z = batch->heads.data + first * batch->heads.stride + head * d_v;
        head_output_strided(layer, head, 1, z, batch->heads.stride, n_rows, m.contributions, stride);
        for (size_t i = 0; i < n_rows; i++) {
            const float *c = m.contributions + i * stride;
            const double square = square_norm(c, columns);
            values[i * num_heads + head] = (float)sqrt(square);
            squares[i] += square;
            for (size_t j = 0; layer->shape.projected && j < columns; j++)
                m.sums[i * columns + j] += (double)c[j];
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        double square = 0;
        for (size_t j = 0; j < columns; j++)
            square += m.sums[i * columns + j] * m.sums[i * columns + j];
        const double norm = sqrt(layer->shape.projected ? square : squares[i]); /* heads side by side are orthogonal */
        for (size_t head = 0; head < num_heads; head++) {
            float *value = &values[i * num_heads + head];
            *value = norm == 0 ? KEEP_HEADS_LEFT_OUT : (float)((double)*value / norm);
        }
    }
}

static size_t count_keys(const uint8_t *allowed, size_t begin, size_t end)
{
    return allowed ? forward_mask_count(allowed + begin, end - begin) : end - begin;
}

/* Keys that masks, causal order and the pattern let a row see; reader: of the pattern, NULL where it hides nothing. */
static size_t count_allowed(const struct sequence *s, size_t row, struct pattern_reader *reader)
{
    const uint8_t *allowed = sequence_allowed(s, row);
    if (!reader)
        return count_keys(allowed, 0, sequence_key_limit(s, row));
    struct row_keys keys = row_keys_begin(reader, s, row);
    size_t begin, end, n_keys = 0;
    while (row_keys_next(&keys, &begin, &end))
        n_keys += count_keys(allowed, begin, end);
    return n_keys;
}

/* Rows whose keys are counted. */
struct counted {
    const struct batch *batch;
    const struct sequence *sequence;
    size_t tile_rows;
};

static void count_tile(const void *argument, size_t index, unsigned lane)
{
    const struct counted *counted = argument;
    const struct batch *batch = counted->batch;
    const struct sequence *s = counted->sequence;
    const struct pattern_rule *pattern = sparse_pattern(batch->extent.rules);
    const size_t first = index * counted->tile_rows;
    struct pattern_reader *reader = pattern
                                        ? pattern_reader_init(pattern, batch->extent.rules->layer, s->input->key_length,
                                                              batch->readers + lane * batch->reader_bytes)
                                        : NULL;
    for (size_t row = first; row < size_min(first + counted->tile_rows, s->n_queries); row++)
        batch->kept_heads.row_keys[s->query_start + row] = (uint32_t)count_allowed(s, row, reader);
}

static bool count_keys_of_rows(const struct batch *batch, struct work *work)
{
    const struct pattern_rule *pattern = sparse_pattern(batch->extent.rules);
    for (size_t i = 0; i < batch->extent.n_sequences; i++) {
        const struct sequence *s = &batch->sequences[i];
        const size_t n_keys = s->input->key_length;
        const struct counted counted = {batch, s, pattern ? plan_read_rows(pattern, n_keys) : BLOCK_ROWS};
        const double masked = s->n_queries > 0 && sequence_allowed(s, 0) ? (double)n_keys : 1;
        const double flop = masked * (double)s->n_queries + (pattern ? plan_flop(pattern, s->n_queries, n_keys) : 0);
        if (!work_split(work, (s->n_queries + counted.tile_rows - 1) / counted.tile_rows, flop, count_tile, &counted))
            return false;
    }
    return true;
}

/* The factor of a row's values in the mean over rows; 0: it is left out. */
static double row_factor(const struct batch *batch, const struct sequence *s, size_t row)
{
    if (batch->kept_heads.by_norm)
        return batch->kept_heads.row_values[(s->query_start + row) * batch->layer->shape.num_heads] !=
               KEEP_HEADS_LEFT_OUT;
    const uint32_t n_keys = batch->kept_heads.row_keys[s->query_start + row];
    if (!batch->kept_heads.by_entropy)
        return n_keys > 0;
    return n_keys > 1 ? 1 / log((double)n_keys) : 0;
}

/* Means over the rows of a sequence; 0 where none counts. */
static void measure_sequence(const struct batch *batch, const struct sequence *s, struct measuring *m)
{
    const size_t num_heads = batch->layer->shape.num_heads;
    const bool entropy = batch->kept_heads.by_entropy;
    size_t n_rows = 0;
    memset(m->values, 0, num_heads * sizeof *m->values);
    for (size_t row = 0; row < s->n_queries; row++) {
        const float *values = batch->kept_heads.row_values + (s->query_start + row) * num_heads;
        const double factor = row_factor(batch, s, row);
        if (factor == 0)
            continue;
        n_rows++;
        for (size_t head = 0; head < num_heads; head++) {
            const double value = (double)values[head] * factor;
            m->values[head] += entropy && value > 1 ? 1 : value; /* it is no more but by rounding */
        }
    }
    for (size_t head = 0; n_rows > 0 && head < num_heads; head++)
        m->values[head] /= (double)n_rows;
}

static void choose_in_sequence(const void *argument, size_t index, unsigned lane)
{
    const struct batch *batch = argument;
    const struct sequence *s = &batch->sequences[index];
    const struct attention_shape *shape = &batch->layer->shape;
    uint8_t *used = batch->kept_heads.used + index * shape->num_heads;
    if (!batch->kept_heads.computed) {
        struct measuring m = open_lane(batch, lane);
        measure_sequence(batch, s, &m);
        keep_heads_choose(batch->kept_heads.rule, m.values, shape->num_heads, used);
        for (size_t head = 0; batch->heads.data && head < shape->num_heads; head++)
            for (size_t row = 0; !used[head] && row < s->n_queries; row++)
                memset(batch->heads.data + (s->query_start + row) * batch->heads.stride + head * shape->d_v, 0,
                       shape->d_v * sizeof(float));
    }
    if (s->result->heads_used)
        memcpy(s->result->heads_used + s->index * shape->num_heads, used, shape->num_heads);
}

bool batch_choose_heads(const struct batch *batch, struct work *work)
{
    const struct batch_extent *extent = &batch->extent;
    const struct attention_shape *shape = &batch->layer->shape;
    if (!batch->kept_heads.rule)
        return true;
    const double rows = (double)extent->n_queries, heads = (double)shape->num_heads;
    const double columns = (double)head_output_columns(shape);
    if (batch->kept_heads.by_norm &&
        !work_split(work, (extent->n_queries + BLOCK_ROWS - 1) / BLOCK_ROWS,
                    rows * heads * columns * (2 * (double)shape->d_v + SPLIT_FLOP_PER_FLOAT), measure_norms, batch))
        return false;
    if (batch->kept_heads.row_keys && !count_keys_of_rows(batch, work))
        return false;
    return work_split(work, extent->n_sequences, rows * heads * (double)shape->d_v * SPLIT_FLOP_PER_FLOAT,
                      choose_in_sequence, batch);
}
