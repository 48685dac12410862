/* The samples of dropout. Queries, keys and values are those of the pass without it; a few samples at a time go through
 * attention (attend.c), each tile's weights made once for all of them, and as more rows through one output projection.
 * What is summed up is their difference to the output without dropout, in float64: that is about as large as the
 * deviation asked for, so that nothing cancels. Entered by the thread that runs the job; tiles on any lane. */

#include "engine/dropout.h"

#include "base/size.h"
#include "engine/batch.h"

#include <math.h>
#include <string.h>

/* Samples are computed together until their rows are about so many, but no fewer than two. */
#define CHUNK_ROWS ((size_t)1024)

/* Columns that a tile sums up at once. */
#define SUM_COLUMNS ((size_t)64)

struct dropout_place dropout_place_of(const struct attention_rules *rules)
{
    return (struct dropout_place){
        .seed = rules->dropout.seed,
        .limit = (uint32_t)ceil(rules->dropout.rate * 0x1p24),
        .factor = (float)(1 / (1 - rules->dropout.rate)),
        .layer = rules->layer,
        .num_layers = rules->num_layers,
    };
}

size_t dropout_plane(const struct dropout_place *place, size_t sequence, size_t num_heads, size_t head)
{
    return (sequence * place->num_layers + place->layer) * num_heads + head;
}

void dropout_row(const struct kernels *kernels, const struct dropout_place *place, size_t sample, size_t plane,
                 size_t query, size_t first_key, size_t count, const float *from, float *to)
{
    const uint32_t counter[3] = {(uint32_t)sample, (uint32_t)plane, (uint32_t)query};
    const uint32_t key[2] = {(uint32_t)place->seed, (uint32_t)(place->seed >> 32)};
    kernels->drop(to, from, count, (uint32_t)first_key, counter, key, place->limit);
}

enum piece { SUMS, SQUARES, SEQUENCES, HEADS, OUTPUTS, PIECES };

struct layout {
    size_t bytes[PIECES];
    size_t chunk, heads_stride;
};

static bool lay_out(const struct attention_shape *shape, const struct attention_rules *rules,
                    const struct batch_extent *extent, struct layout *l)
{
    *l = (struct layout){0};
    if (!dropout_wanted(rules))
        return true;
    size_t rows, columns;
    l->chunk = size_min(size_max(CHUNK_ROWS / size_max(extent->n_queries, 1), 2), rules->dropout.samples);
    if (!size_multiply(extent->n_queries, l->chunk, &rows) || !size_multiply(shape->num_heads, shape->d_v, &columns) ||
        columns > SIZE_MAX - 2 * KERNEL_PAD)
        return false;
    l->heads_stride = kernel_padded(columns) + KERNEL_PAD;
    const size_t sums[] = {extent->n_queries, shape->d_model};
    return tensor_bytes(sums, 2, sizeof(double), &l->bytes[SUMS]) &&
           tensor_bytes(sums, 2, sizeof(double), &l->bytes[SQUARES]) &&
           size_multiply(extent->n_sequences, sizeof(struct sequence), &l->bytes[SEQUENCES]) &&
           tensor_bytes((size_t[]){rows, l->heads_stride}, 2, sizeof(float), &l->bytes[HEADS]) &&
           (!shape->projected || tensor_bytes((size_t[]){rows, shape->d_model}, 2, sizeof(float), &l->bytes[OUTPUTS]));
}

bool dropout_bytes(const struct attention_shape *shape, const struct attention_rules *rules,
                   const struct batch_extent *extent, size_t *bytes)
{
    struct layout l;
    *bytes = 0;
    if (!lay_out(shape, rules, extent, &l))
        return false;
    for (size_t i = 0; i < PIECES; i++)
        if (!arena_need(bytes, l.bytes[i]))
            return false;
    return true;
}

/* The samples on their way. */
struct sampling {
    const struct batch *batch;
    double *sums, *squares; /* [n_queries, d_model] of the samples' differences to the output without dropout */
    struct rows outputs;    /* [n_samples, n_queries, d_model] of the chunk */
    size_t first_sample, n_samples;
};

/* Adds the chunk's samples, in order, for one row of the batch. */
static void add_row(const void *argument, size_t row, unsigned lane)
{
    (void)lane;
    const struct sampling *s = argument;
    const struct batch *batch = s->batch;
    const size_t d_model = batch->layer->shape.d_model, n_queries = batch->extent.n_queries;
    const float *without = batch->output.data + row * batch->output.stride;
    for (size_t first = 0; first < d_model; first += SUM_COLUMNS) {
        const size_t columns = size_min(SUM_COLUMNS, d_model - first);
        double sum[SUM_COLUMNS] = {0}, square[SUM_COLUMNS] = {0};
        double *sums = s->sums + row * d_model + first, *squares = s->squares + row * d_model + first;
        if (s->first_sample > 1) {
            memcpy(sum, sums, columns * sizeof *sum);
            memcpy(square, squares, columns * sizeof *square);
        }
        for (size_t n = 0; n < s->n_samples; n++) {
            const float *output = s->outputs.data + (n * n_queries + row) * s->outputs.stride + first;
            for (size_t j = 0; j < columns; j++) {
                const double difference = (double)output[j] - (double)without[first + j];
                sum[j] += difference;
                square[j] += difference * difference;
            }
        }
        memcpy(sums, sum, columns * sizeof *sum);
        memcpy(squares, square, columns * sizeof *square);
    }
}

/* The mean and the deviation of one sequence's rows. */
static void finish_sequence(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct sampling *sampling = argument;
    const struct batch *batch = sampling->batch;
    const struct sequence *s = &batch->sequences[index];
    const size_t d_model = batch->layer->shape.d_model, length = s->input->query_length;
    const double samples = (double)batch->extent.rules->dropout.samples;
    float *deviations = s->result->output_std;
    if (deviations)
        deviations += s->index * length * d_model;
    for (size_t i = 0; i < s->n_queries; i++) {
        const size_t row = s->query_start + i;
        float *output = batch->output.data + row * batch->output.stride;
        const double *sums = sampling->sums + row * d_model, *squares = sampling->squares + row * d_model;
        for (size_t j = 0; j < d_model; j++) {
            const double mean = sums[j] / samples, variance = squares[j] / samples - mean * mean;
            output[j] = (float)((double)output[j] + mean);
            if (deviations) /* NaN stays NaN */
                deviations[sequence_position(s, i) * d_model + j] = (float)sqrt(variance < 0 ? 0 : variance);
        }
    }
}

/* Attention of the sequences under `pass`. */
static bool attend_pass(const struct batch *batch, const struct dropout_pass *pass, struct sequence *sequences,
                        struct work *work)
{
    struct batch sampled = *batch;
    sampled.observer = NULL;
    sampled.dropout = pass;
    sampled.sequences = sequences;
    memcpy(sequences, batch->sequences, batch->extent.n_sequences * sizeof *sequences);
    for (size_t i = 0; i < batch->extent.n_sequences; i++)
        sequences[i].panels = NULL;
    attend_divide(&sampled, work->parallel->lanes);
    return batch_attend(&sampled, work);
}

/* The same, and its output projection. */
static bool run_pass(const struct sampling *sampling, const struct dropout_pass *pass, struct sequence *sequences,
                     struct work *work)
{
    struct batch sampled = *sampling->batch;
    if (!attend_pass(sampling->batch, pass, sequences, work))
        return false;
    sampled.extent.n_queries *= pass->n_samples;
    sampled.heads = (struct rows){pass->heads, pass->heads_stride};
    sampled.output = sampling->outputs;
    return batch_project_output(&sampled, work);
}

bool batch_sample(const struct batch *batch, struct work *work)
{
    const struct attention_shape *shape = &batch->layer->shape;
    const struct attention_rules *rules = batch->extent.rules;
    struct layout l;
    size_t bytes;
    if (!dropout_wanted(rules) || !batch->output.data)
        return true;
    if (!lay_out(shape, rules, &batch->extent, &l) || !dropout_bytes(shape, rules, &batch->extent, &bytes))
        return false; /* it did not overflow when the batch was created */
    struct arena memory = {.base = batch->samples, .capacity = bytes};
    void *pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = arena_take(&memory, l.bytes[i]);
    struct sampling sampling = {
        .batch = batch,
        .sums = pieces[SUMS],
        .squares = pieces[SQUARES],
        .outputs = {pieces[OUTPUTS], shape->d_model},
    };
    struct dropout_pass pass = {
        .place = dropout_place_of(rules), .heads = pieces[HEADS], .heads_stride = l.heads_stride};
    if (!shape->projected)
        sampling.outputs = (struct rows){pass.heads, pass.heads_stride};
    const double floats = (double)batch->extent.n_queries * (double)shape->d_model;
    for (size_t first = 1; first <= rules->dropout.samples; first += pass.n_samples) {
        pass.first_sample = sampling.first_sample = first;
        pass.n_samples = sampling.n_samples = size_min(l.chunk, rules->dropout.samples + 1 - first);
        if (!run_pass(&sampling, &pass, pieces[SEQUENCES], work) ||
            !work_split(work, batch->extent.n_queries, floats * (double)(2 + pass.n_samples) * SPLIT_FLOP_PER_FLOAT / 4,
                        add_row, &sampling))
            return false;
    }
    return work_split(work, batch->extent.n_sequences, floats * SPLIT_FLOP_PER_FLOAT, finish_sequence, &sampling);
}

bool batch_attend_sample(const struct batch *batch, size_t sample, struct work *work)
{
    struct layout l;
    size_t bytes;
    if (!lay_out(&batch->layer->shape, batch->extent.rules, &batch->extent, &l) ||
        !dropout_bytes(&batch->layer->shape, batch->extent.rules, &batch->extent, &bytes))
        return false; /* it did not overflow when the batch was created */
    struct arena memory = {.base = batch->samples, .capacity = bytes};
    const struct dropout_pass pass = {.place = dropout_place_of(batch->extent.rules),
                                      .first_sample = sample,
                                      .n_samples = 1,
                                      .heads = batch->heads.data,
                                      .heads_stride = batch->heads.stride};
    return attend_pass(batch, &pass, arena_take(&memory, l.bytes[SEQUENCES]), work);
}
