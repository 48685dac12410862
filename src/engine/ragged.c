/* Moves rows between the tensors of inputs and results, padded and one for each request, and the ragged batch. Tiles
 * are sequences; any lane. */

#include "engine/batch.h"

#include <string.h>

static const float *row_of(const struct rows_in *matrix, size_t row)
{
    return matrix->data + row * matrix->stride;
}

static void zero(float *tensor /* or NULL */, size_t sequence, size_t per_sequence)
{
    if (tensor)
        memset(tensor + sequence * per_sequence, 0, per_sequence * sizeof *tensor);
}

/* Padding is zero in every result; what is not is written over later. Maps are left to who writes their other rows
 * (attend.c), if there are any. */
static void zero_results(const struct attention_shape *shape, const struct sequence *s)
{
    const struct forward_result *r = s->result;
    const size_t length = s->input->query_length; /* of queries and keys: self-attention */
    zero(r->output, s->index, length * shape->d_model);
    zero(r->output_std, s->index, length * shape->d_model);
    if (s->n_queries == 0)
        zero(r->attention, forward_plane(r, s->index, 1, 0), r->n_maps * length * forward_map_columns(s->input));
    zero(r->heads, forward_plane(r, s->index, 1, 0), r->n_maps * length * shape->d_v);
    zero(r->query, forward_plane(r, s->index, 1, 0), shape->num_heads * length * shape->d_k);
    zero(r->key, forward_plane(r, s->index, 1, 0), shape->num_heads * length * shape->d_k);
    zero(r->value, forward_plane(r, s->index, 1, 0), shape->num_heads * length * shape->d_v);
}

/* from [length, d_model] of one sequence: its kept rows, to the batch. */
static void gather_rows(const struct sequence *s, const float *from, size_t d_model, const struct rows *to,
                        size_t start, size_t n_rows)
{
    if (n_rows == 0) /* of no rows at all there is no memory */
        return;
    float *first = to->data + start * d_model;
    if (!s->kept) {
        memcpy(first, from, n_rows * d_model * sizeof *from);
        return;
    }
    for (size_t i = 0; i < n_rows; i++)
        memcpy(first + i * d_model, from + s->kept[i] * d_model, d_model * sizeof *from);
}

static void gather_sequence(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct batch *batch = argument;
    const struct sequence *s = &batch->sequences[index];
    const struct forward_input *in = s->input;
    const size_t d_model = batch->layer->shape.d_model;
    const size_t first_query = s->index * in->query_length * d_model, first_key = s->index * in->key_length * d_model;
    const float *key = in->self_attention ? in->query : in->key, *value = in->self_attention ? in->query : in->value;
    if (s->kept)
        zero_results(&batch->layer->shape, s);
    gather_rows(s, in->query + first_query, d_model, &batch->x_query, s->query_start, s->n_queries);
    if (batch->extent.separate_keys)
        gather_rows(s, key + first_key, d_model, &batch->x_key, s->key_start, s->n_keys);
    if (batch->extent.separate_values)
        gather_rows(s, value + first_key, d_model, &batch->x_value, s->key_start, s->n_keys);
}

static void zero_sequence(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct batch *batch = argument;
    if (batch->sequences[index].kept)
        zero_results(&batch->layer->shape, &batch->sequences[index]);
}

bool batch_zero_results(const struct batch *batch, struct work *work)
{
    const double floats = (double)batch->extent.n_queries * (double)batch->layer->shape.d_model;
    return !batch->extent.padded ||
           work_split(work, batch->extent.n_sequences, floats * SPLIT_FLOP_PER_FLOAT, zero_sequence, batch);
}

bool batch_gather(const struct batch *batch, struct work *work)
{
    if (batch->extent.direct)
        return true;
    const double floats =
        (double)(batch->extent.n_queries + 2 * batch->extent.n_keys) * (double)batch->layer->shape.d_model;
    return work_split(work, batch->extent.n_sequences, floats * SPLIT_FLOP_PER_FLOAT, gather_sequence, batch);
}

/* to [num_heads, length, per_head] of one sequence: head h from the columns of head h / heads_per_group. */
static void scatter_heads(const struct sequence *s, const struct rows_in *from, size_t start, size_t n_rows,
                          size_t length, size_t num_heads, size_t heads_per_group, size_t per_head, float *to)
{
    for (size_t head = 0; head < num_heads; head++)
        for (size_t i = 0; i < n_rows; i++)
            memcpy(to + (head * length + sequence_position(s, i)) * per_head,
                   row_of(from, start + i) + head / heads_per_group * per_head, per_head * sizeof *to);
}

static void scatter_projections(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct batch *batch = argument;
    const struct attention_shape *shape = &batch->layer->shape;
    const struct sequence *s = &batch->sequences[index];
    const struct forward_result *r = s->result;
    const size_t tq = s->input->query_length, tk = s->input->key_length, num_heads = shape->num_heads;
    const size_t group = num_heads / shape->num_kv_heads;
    const struct rows_in query = {batch->projected_query.data, batch->projected_query.stride},
                         key = {batch->projected_key.data, batch->projected_key.stride};
    if (r->query)
        scatter_heads(s, shape->projected ? &query : &batch->in_query, s->query_start, s->n_queries, tq, num_heads, 1,
                      shape->d_k, r->query + forward_plane(r, s->index, num_heads, 0) * tq * shape->d_k);
    if (r->key)
        scatter_heads(s, shape->projected ? &key : &batch->in_key, s->key_start, s->n_keys, tk, num_heads, group,
                      shape->d_k, r->key + forward_plane(r, s->index, num_heads, 0) * tk * shape->d_k);
    if (r->value)
        scatter_heads(s, &batch->value, s->key_start, s->n_keys, tk, num_heads, group, shape->d_v,
                      r->value + forward_plane(r, s->index, num_heads, 0) * tk * shape->d_v);
}

bool batch_scatter_projections(const struct batch *batch, struct work *work)
{
    bool needed = false;
    for (size_t i = 0; i < batch->extent.n_sequences && !needed; i++) {
        const struct forward_result *r = batch->sequences[i].result;
        needed = r->query || r->key || r->value;
    }
    if (!needed)
        return true;
    const double floats =
        (double)(batch->extent.n_queries + batch->extent.n_keys) * (double)batch->layer->shape.d_model * 2;
    return work_split(work, batch->extent.n_sequences, floats * SPLIT_FLOP_PER_FLOAT, scatter_projections, batch);
}

struct scattered {
    const struct batch *batch;
    const struct rows_in *rows;
    float *(*place)(const struct sequence *s, size_t d_model, size_t n);
    size_t n;
};

static void scatter_rows(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct scattered *scattered = argument;
    const size_t d_model = scattered->batch->layer->shape.d_model;
    const struct sequence *s = &scattered->batch->sequences[index];
    float *to = scattered->place(s, d_model, scattered->n); /* [Tq, d_model] */
    if (to && s->kept)
        memset(to, 0, s->input->query_length * d_model * sizeof *to);
    for (size_t i = 0; to && i < s->n_queries; i++)
        memcpy(to + sequence_position(s, i) * d_model, row_of(scattered->rows, s->query_start + i),
               d_model * sizeof *to);
}

bool batch_scatter_rows(const struct batch *batch, const struct rows_in *rows,
                        float *(*place)(const struct sequence *s, size_t d_model, size_t n), size_t n,
                        struct work *work)
{
    const struct scattered scattered = {batch, rows, place, n};
    const double floats = (double)batch->extent.n_queries * (double)batch->layer->shape.d_model;
    return work_split(work, batch->extent.n_sequences, floats * SPLIT_FLOP_PER_FLOAT, scatter_rows, &scattered);
}

static float *output_of(const struct sequence *s, size_t d_model, size_t n)
{
    (void)n;
    float *output = s->result->output;
    return output ? output + s->index * s->input->query_length * d_model : NULL;
}

bool batch_scatter(const struct batch *batch, struct work *work)
{
    const struct rows_in output = {batch->output.data, batch->output.stride};
    if (!position_rotates(batch->extent.rules) && !batch_scatter_projections(batch, work))
        return false;
    return batch->extent.direct || batch->extent.between || batch_scatter_rows(batch, &output, output_of, 0, work);
}
