/* Rotary positions: the turns of every row of a batch, made once a call, and the loop that applies them where the
 * projections have not. Tiles are blocks of rows; any lane. */

#include "engine/position.h"

#include "base/size.h"
#include "engine/batch.h"

#include <math.h>
#include <string.h>

size_t rope_dims(const struct attention_shape *shape, const struct position_rule *rule)
{
    return rule->dims ? rule->dims : shape->d_k;
}

/* struct rotation has the form of a row. */
size_t rope_turns_stride(const struct attention_shape *shape, const struct position_rule *rule)
{
    const size_t dims = rope_dims(shape, rule);
    return rule->interleaved ? 2 * dims : dims;
}

/* Llama 3 keeps frequencies that turn often within the length it was first trained for, divides those that turn
 * seldom, and blends between (its "rope_scaling" of 2024). */
static double scaled(const struct position_rule *rule, double frequency)
{
    if (rule->scaling == ROPE_UNSCALED)
        return frequency;
    if (rule->scaling == ROPE_LINEAR)
        return frequency / rule->factor;
    const double turns = rule->original_max_positions * frequency / (2 * 3.14159265358979323846);
    const double place = (turns - rule->low_freq_factor) / (rule->high_freq_factor - rule->low_freq_factor);
    const double kept = fmin(fmax(place, 0), 1);
    return kept * frequency + (1 - kept) * frequency / rule->factor;
}

void rope_frequencies(const struct position_rule *rule, size_t dims, double *frequencies)
{
    for (size_t i = 0; i < dims / 2; i++)
        frequencies[i] = rule->frequencies ? (double)rule->frequencies[i]
                                           : scaled(rule, pow(rule->base, -2.0 * (double)i / (double)dims));
}

/* The turns of rows of queries or of keys. */
struct turns {
    const struct batch *batch;
    float *to; /* [n_rows, turns_stride] */
    size_t n_rows, stride;
    bool keys;
};

static void write_turns(float *to, const struct angle_reader *reader, bool interleaved)
{
    const size_t pairs = reader->angles->count;
    for (size_t i = 0; i < pairs; i++) {
        const float cosine = (float)reader->cosines[i], sine = (float)reader->sines[i];
        if (interleaved) {
            to[2 * i] = to[2 * i + 1] = cosine;
            to[2 * pairs + 2 * i] = -sine;
            to[2 * pairs + 2 * i + 1] = sine;
        } else {
            to[i] = cosine;
            to[pairs + i] = sine;
        }
    }
}

static void fill_block(const void *argument, size_t index, unsigned lane)
{
    const struct turns *t = argument;
    const size_t first = index * POSITION_ROWS, end = size_min(first + POSITION_ROWS, t->n_rows);
    struct position_cursor cursor = position_cursor_open(t->batch, t->keys, first);
    struct angle_reader reader = position_reader(&t->batch->positions, lane);
    for (size_t row = first; row < end; row++) {
        angle_reader_turn(&reader, position_cursor_next(&cursor));
        write_turns(t->to + row * t->stride, &reader, t->batch->positions.rule->interleaved);
    }
}

static bool fill_rows(const struct batch *batch, struct work *work, float *to, size_t n_rows, bool keys)
{
    const struct positions *p = &batch->positions;
    const struct turns turns = {batch, to, n_rows, rope_turns_stride(&batch->layer->shape, p->rule), keys};
    return work_split(work, (n_rows + POSITION_ROWS - 1) / POSITION_ROWS,
                      (double)n_rows * (double)p->angles.count * POSITION_FLOP_ANGLE, fill_block, &turns);
}

bool rope_fill(const struct batch *batch, struct work *work)
{
    const struct positions *p = &batch->positions;
    if (p->rule->kind != POSITION_ROPE)
        return true;
    return fill_rows(batch, work, p->query_turns, batch->extent.n_queries, false) &&
           (!batch->extent.separate_keys || fill_rows(batch, work, p->key_turns, batch->extent.n_keys, true));
}

struct rotation position_rotation(const struct batch *batch, bool keys, size_t first_row)
{
    const struct positions *p = &batch->positions;
    const struct attention_shape *shape = &batch->layer->shape;
    const size_t stride = rope_turns_stride(shape, p->rule);
    return (struct rotation){.d_k = shape->d_k,
                             .dims = rope_dims(shape, p->rule),
                             .interleaved = p->rule->interleaved,
                             .turns = (keys ? p->key_turns : p->query_turns) + first_row * stride,
                             .turns_stride = stride};
}

/* Rows that are turned where they lie, or on their way from where they lie. */
struct turning {
    const struct batch *batch;
    const struct rows_in *from; /* [n_rows, n_heads * d_k]; NULL: they are there */
    const struct rows *to;
    size_t n_rows, n_heads;
    bool keys;
};

static void turn_block(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct turning *t = argument;
    const struct attention_layer *layer = t->batch->layer;
    const size_t first = index * POSITION_ROWS, n_rows = size_min(POSITION_ROWS, t->n_rows - first);
    float *to = t->to->data + first * t->to->stride;
    for (size_t i = 0; t->from && i < n_rows; i++)
        memcpy(to + i * t->to->stride, t->from->data + (first + i) * t->from->stride,
               t->n_heads * layer->shape.d_k * sizeof *to);
    const struct rotation rotation = position_rotation(t->batch, t->keys, first);
    layer->kernels->rotate(&rotation, to, t->to->stride, n_rows, t->n_heads);
}

static bool turn_rows(struct work *work, const struct turning *turning)
{
    const double floats = (double)turning->n_rows * (double)turning->n_heads * (double)turning->batch->layer->shape.d_k;
    return work_split(work, (turning->n_rows + POSITION_ROWS - 1) / POSITION_ROWS, floats * SPLIT_FLOP_PER_FLOAT,
                      turn_block, turning);
}

bool batch_rotate(const struct batch *batch, struct work *work)
{
    const struct positions *p = &batch->positions;
    const struct attention_shape *shape = &batch->layer->shape;
    if (!position_rotates(batch->extent.rules))
        return true;
    if (!batch_scatter_projections(batch, work) || p->fused)
        return !atomic_load(&work->cancelled);
    const struct turning queries = {batch,
                                    shape->projected ? NULL : &batch->in_query,
                                    &batch->projected_query,
                                    batch->extent.n_queries,
                                    shape->num_heads,
                                    false};
    const struct turning keys = {batch,
                                 shape->projected ? NULL : &batch->in_key,
                                 &batch->projected_key,
                                 batch->extent.n_keys,
                                 shape->num_kv_heads,
                                 true};
    return turn_rows(work, &queries) &&
           (batch->projected_key.data == batch->projected_query.data || turn_rows(work, &keys));
}
