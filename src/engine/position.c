/* Positions of a batch: the memory of their tables, who stands where, and what is added to the rows. Entered by the
 * thread that runs the job; loops over rows by any lane. */

#include "engine/position.h"

#include "base/size.h"
#include "engine/batch.h"

#include <math.h>

static bool is_bias(const struct position_rule *rule)
{
    return rule->kind == POSITION_ALIBI || rule->kind == POSITION_T5 || rule->kind == POSITION_RELATIVE;
}

void position_extend(struct batch_extent *extent, const struct forward_input *input)
{
    if (input->rules->position.kind == POSITION_NONE)
        return;
    const size_t tq = input->query_length, tk = input->key_length;
    /* Query i stands at i, or, causal, at i + Tk - Tq, key j at j. */
    extent->most_behind = size_max(extent->most_behind, input->causal ? tk - 1 : tq - 1);
    extent->most_ahead = size_max(extent->most_ahead, input->causal ? tq - 1 : tk - 1);
    extent->n_near = size_max(extent->n_near, size_min(size_max(tq, tk), ANGLES_STEP));
    if (input->position_ids || (input->causal && tq > tk)) /* far away, or below 0 */
        extent->n_near = ANGLES_STEP;
    extent->biases_add |= input->bias && is_bias(&input->rules->position);
}

/* The pieces of the memory. */
enum { FREQUENCIES, NEAR, READERS, QUERY_TURNS, KEY_TURNS, DISTANCES, PIECES };

static size_t n_angles(const struct attention_shape *shape, const struct position_rule *rule)
{
    return rule->kind == POSITION_ROPE         ? rope_dims(shape, rule) / 2
           : rule->kind == POSITION_SINUSOIDAL ? shape->d_model / 2 + shape->d_model % 2
                                               : 0;
}

static bool piece_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                        size_t bytes[PIECES])
{
    const struct position_rule *rule = &extent->rules->position;
    const size_t count = n_angles(shape, rule), element = sizeof(double);
    for (size_t i = 0; i < PIECES; i++)
        bytes[i] = 0;
    if (count > 0 && (!tensor_bytes(&count, 1, element, &bytes[FREQUENCIES]) ||
                      !tensor_bytes((size_t[]){extent->n_near, 2, count}, 3, element, &bytes[NEAR]) ||
                      !tensor_bytes((size_t[]){lanes, 4, count}, 3, element, &bytes[READERS])))
        return false;
    if (rule->kind == POSITION_ROPE) {
        const size_t stride = rope_turns_stride(shape, rule);
        if (!tensor_bytes((size_t[]){extent->n_queries, stride}, 2, sizeof(float), &bytes[QUERY_TURNS]) ||
            (extent->separate_keys &&
             !tensor_bytes((size_t[]){extent->n_keys, stride}, 2, sizeof(float), &bytes[KEY_TURNS])))
            return false;
    }
    size_t distances;
    return !is_bias(rule) ||
           (size_add(extent->most_behind, extent->most_ahead + 1, &distances) &&
            tensor_bytes((size_t[]){shape->num_heads, distances}, 2, sizeof(float), &bytes[DISTANCES]));
}

bool position_bytes(const struct attention_shape *shape, const struct batch_extent *extent, unsigned lanes,
                    size_t *bytes)
{
    size_t pieces[PIECES], total = 0;
    *bytes = 0;
    if (extent->rules->position.kind == POSITION_NONE)
        return true;
    if (!piece_bytes(shape, extent, lanes, pieces))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(&total, pieces[i]))
            return false;
    *bytes = total;
    return true;
}

void position_open(struct batch *batch, unsigned lanes, void *memory, size_t bytes)
{
    const struct attention_shape *shape = &batch->layer->shape;
    const struct batch_extent *extent = &batch->extent;
    struct positions *p = &batch->positions;
    if (extent->rules->position.kind == POSITION_NONE)
        return;
    size_t need[PIECES];
    void *pieces[PIECES];
    struct arena arena = {.base = memory, .capacity = bytes};
    piece_bytes(shape, extent, lanes, need); /* did not overflow when its bytes were counted */
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = need[i] ? arena_take(&arena, need[i]) : NULL;
    *p = (struct positions){
        .rule = &extent->rules->position,
        .angles = {.count = n_angles(shape, &extent->rules->position),
                   .frequencies = pieces[FREQUENCIES],
                   .n_near = extent->n_near,
                   .near = pieces[NEAR]},
        .reader_memory = pieces[READERS],
        .query_turns = pieces[QUERY_TURNS],
        .key_turns = extent->separate_keys ? pieces[KEY_TURNS] : pieces[QUERY_TURNS],
        .distance_bias = pieces[DISTANCES],
        .n_distances = extent->most_behind + extent->most_ahead + 1,
        .most_behind = extent->most_behind,
        .fused = shape->projected,
    };
    for (size_t i = 0; i < extent->n_sequences; i++)
        p->fused &= !batch->sequences[i].result->query && !batch->sequences[i].result->key;
    if (p->rule->kind == POSITION_ROPE)
        rope_frequencies(p->rule, rope_dims(shape, p->rule), p->angles.frequencies);
    else if (p->rule->kind == POSITION_SINUSOIDAL)
        for (size_t i = 0; i < p->angles.count; i++)
            p->angles.frequencies[i] = pow(p->rule->base, -2.0 * (double)i / (double)shape->d_model);
}

static size_t start_of(const struct sequence *s, bool keys)
{
    return keys ? s->key_start : s->query_start;
}

struct position_cursor position_cursor_open(const struct batch *batch, bool keys, size_t first_row)
{
    size_t low = 0, high = batch->extent.n_sequences;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (start_of(&batch->sequences[middle], keys) <= first_row)
            low = middle;
        else
            high = middle;
    }
    const struct sequence *s = &batch->sequences[low];
    return (struct position_cursor){s, first_row - start_of(s, keys), keys};
}

int64_t position_cursor_next(struct position_cursor *cursor)
{
    while (cursor->row == (cursor->keys ? cursor->sequence->n_keys : cursor->sequence->n_queries)) {
        cursor->sequence++;
        cursor->row = 0;
    }
    const struct sequence *s = cursor->sequence;
    const struct forward_input *in = s->input;
    const size_t index = sequence_position(s, cursor->row++);
    if (in->position_ids)
        return in->position_ids[(in->positions_per_sequence ? s->index * in->query_length : 0) + index];
    return (int64_t)index + (cursor->keys ? 0 : forward_position_shift(in));
}

struct angle_reader position_reader(const struct positions *positions, unsigned lane)
{
    return angle_reader_open(&positions->angles, positions->reader_memory + lane * 4 * positions->angles.count);
}

static void fill_near(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct batch *batch = argument;
    angles_fill_near(&batch->positions.angles, index);
}

bool batch_fill_positions(const struct batch *batch, struct work *work)
{
    const struct positions *p = &batch->positions;
    if (!p->rule)
        return true;
    const double functions = 2.0 * (double)p->angles.n_near * (double)p->angles.count;
    if (p->angles.count > 0 &&
        !work_split(work, p->angles.n_near, functions * POSITION_FLOP_FUNCTION, fill_near, batch))
        return false;
    return rope_fill(batch, work) && position_bias_fill(batch, work);
}

/* Rows that something is added to. */
struct addition {
    const struct batch *batch;
    struct rows rows; /* [n_rows, d_model] */
    size_t n_rows;
    bool keys;
};

static void add_sinusoidal(float *x, size_t d_model, const struct angle_reader *reader)
{
    for (size_t i = 0; i < d_model / 2; i++) {
        x[2 * i] += (float)reader->sines[i];
        x[2 * i + 1] += (float)reader->cosines[i];
    }
    if (d_model % 2)
        x[d_model - 1] += (float)reader->sines[d_model / 2];
}

static void add_to_block(const void *argument, size_t index, unsigned lane)
{
    const struct addition *a = argument;
    const struct positions *p = &a->batch->positions;
    const size_t d_model = a->batch->layer->shape.d_model, first = index * POSITION_ROWS,
                 end = size_min(first + POSITION_ROWS, a->n_rows);
    struct position_cursor cursor = position_cursor_open(a->batch, a->keys, first);
    struct angle_reader reader = position_reader(p, lane);
    for (size_t row = first; row < end; row++) {
        float *x = a->rows.data + row * a->rows.stride;
        const int64_t t = position_cursor_next(&cursor);
        if (p->rule->kind == POSITION_SINUSOIDAL) {
            angle_reader_turn(&reader, t);
            add_sinusoidal(x, d_model, &reader);
        } else {
            const float *added = p->rule->table + ((size_t)t + p->rule->offset) * d_model;
            for (size_t i = 0; i < d_model; i++)
                x[i] += added[i];
        }
    }
}

static bool add_to_rows(const struct batch *batch, struct work *work, const struct rows *rows, size_t n_rows, bool keys)
{
    const struct addition addition = {batch, *rows, n_rows, keys};
    const double floats = (double)n_rows * (double)batch->layer->shape.d_model;
    return work_split(work, (n_rows + POSITION_ROWS - 1) / POSITION_ROWS, floats * SPLIT_FLOP_PER_FLOAT, add_to_block,
                      &addition);
}

bool batch_add_positions(const struct batch *batch, struct work *work)
{
    const struct batch_extent *extent = &batch->extent;
    if (!position_is_added(extent->rules))
        return true;
    return add_to_rows(batch, work, &batch->x_query, extent->n_queries, false) &&
           (!extent->separate_keys || add_to_rows(batch, work, &batch->x_key, extent->n_keys, true)) &&
           (!extent->separate_values || add_to_rows(batch, work, &batch->x_value, extent->n_keys, true));
}
