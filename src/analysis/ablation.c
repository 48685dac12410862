/* Mean and uniform ablation. Sums are float64, in the order of the rows or keys. */

#include "analysis/ablation.h"

#include "analysis/scored_rows.h"
#include "base/size.h"

#include <string.h>

/* Rows of a tile where each row has keys of its own. */
#define ROWS_PER_TILE ((size_t)64)

static void add_row(double *sum /* [d_v] */, const float *row /* [d_v] */, size_t d_v)
{
    for (size_t k = 0; k < d_v; k++)
        sum[k] += (double)row[k];
}

static void subtract_row(float *row /* [d_v] */, const double *sum /* [d_v] */, double count, size_t d_v)
{
    for (size_t k = 0; k < d_v; k++)
        row[k] = (float)((double)row[k] - sum[k] / count);
}

static double *zeroed_sums(const struct ablation *a, unsigned lane)
{
    double *sum = a->sums + lane * a->shape->d_v;
    memset(sum, 0, a->shape->d_v * sizeof *sum);
    return sum;
}

/* Z of one row. */
static float *row_of(const struct ablation *a, size_t sequence, size_t head, size_t row)
{
    return a->heads + ((sequence * a->shape->num_heads + head) * a->input->query_length + row) * a->shape->d_v;
}

static void subtract_mean_of_head(const void *argument, size_t head, unsigned lane)
{
    const struct ablation *a = argument;
    const size_t batch = a->input->batch, rows = a->input->query_length;
    double *sum = zeroed_sums(a, lane);
    for (size_t sequence = 0; sequence < batch; sequence++)
        for (size_t row = 0; row < rows; row++)
            if (a->scored[sequence * rows + row])
                add_row(sum, row_of(a, sequence, head, row), a->shape->d_v);
    for (size_t sequence = 0; sequence < batch; sequence++)
        for (size_t row = 0; row < rows; row++)
            if (a->scored[sequence * rows + row])
                subtract_row(row_of(a, sequence, head, row), sum, (double)a->n_scored, a->shape->d_v);
}

bool ablation_subtract_mean(const struct ablation *ablation, struct work *work)
{
    const double floats = 2.0 * (double)ablation->input->batch * (double)ablation->input->query_length *
                          (double)ablation->shape->num_heads * (double)ablation->shape->d_v;
    return work_split(work, ablation->shape->num_heads, floats * SPLIT_FLOP_PER_FLOAT, subtract_mean_of_head, ablation);
}

/* All rows of a head of one sequence see the same keys, up to their causal limit, which only grows: one running sum. */
static void subtract_running_mean(const void *argument, size_t index, unsigned lane)
{
    const struct ablation *a = argument;
    const size_t sequence = index / a->shape->num_heads, head = index % a->shape->num_heads,
                 rows = a->input->query_length;
    const float *value = a->value + index * a->input->key_length * a->shape->d_v;
    const uint8_t *allowed = row_mask(a->input, sequence, 0);
    double *sum = zeroed_sums(a, lane);
    size_t key = 0, count = 0;
    for (size_t row = 0; row < rows; row++) {
        if (!a->scored[sequence * rows + row])
            continue;
        for (const size_t limit = allowed_key_limit(a->input, row); key < limit; key++)
            if (!allowed || allowed[key]) {
                add_row(sum, value + key * a->shape->d_v, a->shape->d_v);
                count++;
            }
        subtract_row(row_of(a, sequence, head, row), sum, (double)count, a->shape->d_v);
    }
}

static size_t tiles_of_rows(const struct forward_input *input)
{
    return (input->query_length + ROWS_PER_TILE - 1) / ROWS_PER_TILE;
}

static void subtract_own_mean(const void *argument, size_t index, unsigned lane)
{
    const struct ablation *a = argument;
    const size_t tiles = tiles_of_rows(a->input), rows = a->input->query_length, pair = index / tiles;
    const size_t sequence = pair / a->shape->num_heads, head = pair % a->shape->num_heads,
                 first = index % tiles * ROWS_PER_TILE;
    const float *value = a->value + pair * a->input->key_length * a->shape->d_v;
    struct allowed_reader reader =
        allowed_reader_init(a->input, a->reader_bytes ? a->readers + lane * a->reader_bytes : NULL);
    for (size_t row = first; row < size_min(first + ROWS_PER_TILE, rows); row++) {
        if (!a->scored[sequence * rows + row])
            continue;
        const uint8_t *mask = row_mask(a->input, sequence, row);
        size_t n_runs, limit, count = 0;
        const struct key_run *runs = allowed_runs(&reader, row, &n_runs, &limit);
        double *sum = zeroed_sums(a, lane);
        for (size_t i = 0; i < n_runs; i++)
            for (size_t key = runs[i].begin; key < size_min(runs[i].end, limit); key++)
                if (!mask || mask[key]) {
                    add_row(sum, value + key * a->shape->d_v, a->shape->d_v);
                    count++;
                }
        subtract_row(row_of(a, sequence, head, row), sum, (double)count, a->shape->d_v);
    }
}

static bool rows_have_keys_of_their_own(const struct forward_input *input)
{
    return input->mask_kind == FORWARD_MASK_PAIRS || has_pattern(input);
}

double ablation_uniform_flop(const struct attention_shape *shape, const struct forward_input *input)
{
    struct attention_shape attention = *shape;
    if (!rows_have_keys_of_their_own(input))
        return 0;
    /* As many keys as attention by itself looks at: it takes 2 (d_k + d_v) a pair, this takes d_v. */
    attention.projected = false;
    return forward_flop(&attention, input) * (double)shape->d_v / (2 * ((double)shape->d_k + (double)shape->d_v));
}

bool ablation_subtract_uniform(const struct ablation *ablation, struct work *work)
{
    const struct forward_input *input = ablation->input;
    const size_t heads = input->batch * ablation->shape->num_heads;
    if (rows_have_keys_of_their_own(input))
        return work_split(work, heads * tiles_of_rows(input), ablation_uniform_flop(ablation->shape, input),
                          subtract_own_mean, ablation);
    const double floats =
        (double)heads * (double)ablation->shape->d_v * ((double)input->query_length + (double)input->key_length);
    return work_split(work, heads, floats * SPLIT_FLOP_PER_FLOAT, subtract_running_mean, ablation);
}
