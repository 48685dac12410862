/* The layers of a model, one after the other, over one stream of rows x [N, d_model]: see model_shape.h for what a
 * layer does. Entered by the thread that runs the job; the steps bring in other lanes. */

#include "engine/model_run.h"

#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/embed.h"
#include "engine/ffn.h"
#include "engine/fully_masked.h"
#include "engine/low_rank.h"
#include "engine/model_layer.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A call. */
struct run {
    const struct model *model;
    const struct forward_input *const *inputs;
    struct forward_result *const *results; /* [count] */
    size_t count;
    const struct forward_observer *observer;
    struct work *work;
    struct arena *arena;
    struct layer_view view;
    size_t n_rows;
    struct rows x, normed; /* [n_rows, d_model] the stream, and a norm of it */
    float *hidden;         /* scratch of ffn_run */
    /* With dropout: the stream as it is before the first layer, the output without dropout, and of the samples'
     * differences to that the sums and the sums of squares, all [n_rows, d_model]. */
    struct rows start, output;
    double *sums, *squares;
    struct rows_in sampled; /* a sample's output */
};

static const struct attention_rules *rules_of(const struct run *run)
{
    return run->count > 0 ? run->inputs[0]->rules : NULL;
}

static size_t first_layer(const struct forward_input *const *inputs, size_t count)
{
    return count > 0 ? inputs[0]->first_layer : 0;
}

static struct rows_in readable(const struct rows *rows)
{
    return (struct rows_in){rows->data, rows->stride};
}

/* ---- one layer */

/* Attention of the batch into its rows of heads: plain, and where `sample` is one (from 1 on) with weights dropped. */
static bool attend(const struct batch *batch, size_t sample, struct work *work)
{
    const bool chooses = batch->kept_heads.rule && !batch->kept_heads.computed;
    if ((sample == 0 || chooses) &&
        !(low_rank_attend(batch, work) && (!batch->extent.rules || batch_choose_heads(batch, work))))
        return false;
    return sample == 0 || batch_attend_sample(batch, sample, work);
}

static bool run_attention(struct run *run, size_t n, size_t sample, const struct layer_rows *rows, struct error *error)
{
    struct work *work = run->work;
    const struct layer_view *view = &run->view;
    const size_t used = run->arena->used;
    struct batch batch;
    if (!batch_create_layer(&batch, &run->model->layers[n].attention, view->input_list, view->result_list, run->count,
                            work->parallel->lanes, rows, run->arena, error))
        return false;
    batch.observer = sample == 0 ? run->observer : NULL;
    const bool ruled = batch.extent.rules;
    const bool done = (!ruled || batch_count_fully_masked(&batch, work)) && batch_zero_results(&batch, work) &&
                      (!ruled || batch_fill_positions(&batch, work)) && batch_project_inputs(&batch, work) &&
                      (!ruled || batch_rotate(&batch, work)) && attend(&batch, sample, work) &&
                      batch_project_output(&batch, work) && batch_scatter(&batch, work);
    arena_rewind(run->arena, used);
    return done || error_cancelled(error);
}

/* The norm of the stream, in its place or beside it; absent, the stream itself. */
static bool norm_of_stream(const struct run *run, const struct norm *norm, const struct rows *to,
                           struct rows_in *normed)
{
    const struct rows_in from = readable(&run->x);
    *normed = from;
    if (norm->kind == NORM_NONE)
        return true;
    *normed = readable(to);
    return norm_rows(run->model->kernels, norm, &from, to, run->n_rows, run->model->shape.attention.d_model, run->work);
}

static bool feed_forward(const struct run *run, const struct model_layer *layer)
{
    const bool pre = layer->shape->placement == PLACEMENT_PRE;
    struct rows_in from = readable(&run->x);
    if (layer->ffn.kind == FFN_NONE)
        return true;
    return (!pre || norm_of_stream(run, &layer->norm2, &run->normed, &from)) &&
           ffn_run(run->model->kernels, &layer->ffn, &from, &run->x, run->n_rows, layer->shape->residual, run->hidden,
                   run->work) &&
           (pre || norm_of_stream(run, &layer->norm2, &run->x, &from));
}

/* `sample` 0: without dropout; only then results are written. */
static bool run_layer(struct run *run, size_t n, size_t sample, struct error *error)
{
    const struct model_layer *layer = &run->model->layers[n];
    const bool pre = layer->shape->placement == PLACEMENT_PRE;
    struct layer_rows rows = {.from = readable(&run->x),
                              .to = run->x,
                              .adds = layer->shape->residual,
                              .layer = n,
                              .observed_inputs = run->inputs};
    struct rows_in normed;
    layer_view_set(&run->view, &run->model->shape, n, run->inputs, sample == 0 ? run->results : NULL, run->count,
                   sample > 0);
    if ((pre && !norm_of_stream(run, &layer->norm1, &run->normed, &rows.from)))
        return error_cancelled(error);
    if (!run_attention(run, n, sample, &rows, error))
        return false;
    if ((!pre && !norm_of_stream(run, &layer->norm1, &run->x, &normed)) || !feed_forward(run, layer))
        return error_cancelled(error);
    if (sample > 0)
        return true;
    layer_view_end(&run->view, &run->model->shape, n, run->results, run->count);
    return !run->observer || !run->observer->layer || run->observer->layer(run->observer->context, n, error);
}

/* ---- before, between and behind the layers */

/* A batch for moving rows in and out: no attention is computed with it. */
static bool open_batch(struct run *run, const struct rows *x, struct batch *batch, struct error *error)
{
    const struct layer_rows rows = {.from = readable(x), .to = *x, .observed_inputs = run->inputs};
    layer_view_between(&run->view, run->inputs, run->results, run->count);
    return batch_create_layer(batch, &run->model->layers[0].attention, run->view.input_list, run->view.result_list,
                              run->count, run->work->parallel->lanes, &rows, run->arena, error);
}

/* The first layer's input. */
static bool begin(struct run *run, struct error *error)
{
    const size_t used = run->arena->used;
    struct batch batch;
    size_t bytes;
    void *scratch;
    bool done;
    if (!open_batch(run, &run->x, &batch, error))
        return false;
    if (run->count > 0 && run->inputs[0]->embedding) {
        if (!embed_bytes(&run->model->shape, run->n_rows, &bytes) ||
            (!(scratch = arena_take(run->arena, bytes)) && bytes > 0))
            return error_out_of_memory(error);
        done = batch_embed(run->model, &batch, scratch, run->work);
    } else {
        done = batch_gather(&batch, run->work);
    }
    done = done && (!position_is_added(rules_of(run)) ||
                    (batch_fill_positions(&batch, run->work) && batch_add_positions(&batch, run->work)));
    arena_rewind(run->arena, used);
    return done || error_cancelled(error);
}

static float *output_of(const struct sequence *s, size_t d_model, size_t n)
{
    (void)n;
    float *output = s->result->output;
    return output ? output + s->index * s->input->query_length * d_model : NULL;
}

static float *deviation_of(const struct sequence *s, size_t d_model, size_t n)
{
    (void)n;
    float *deviation = s->result->output_std;
    return deviation ? deviation + s->index * s->input->query_length * d_model : NULL;
}

static float *state_of(const struct sequence *s, size_t d_model, size_t n)
{
    const size_t n_states = s->result->n_states;
    float *states = s->result->hidden_states;
    return states ? states + (s->index * n_states + n) * s->input->query_length * d_model : NULL;
}

static bool scatter(struct run *run, const struct rows *x,
                    float *(*place)(const struct sequence *s, size_t d_model, size_t n), size_t n, struct error *error)
{
    const size_t used = run->arena->used;
    const struct rows_in rows = readable(x);
    struct batch batch;
    if (!open_batch(run, x, &batch, error))
        return false;
    const bool done = batch_scatter_rows(&batch, &rows, place, n, run->work);
    arena_rewind(run->arena, used);
    return done || error_cancelled(error);
}

static bool scatter_state(struct run *run, size_t n, struct error *error)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->results[i]->hidden_states)
            return scatter(run, &run->x, state_of, n, error);
    return true;
}

/* From the first layer's input to the output, which is left in run->normed, or in the stream. */
static bool run_layers(struct run *run, size_t sample, struct rows_in *output, struct error *error)
{
    if (sample == 0 && !scatter_state(run, first_layer(run->inputs, run->count), error))
        return false;
    for (size_t n = first_layer(run->inputs, run->count); n < run->model->shape.num_layers; n++)
        if (!run_layer(run, n, sample, error) || (sample == 0 && !scatter_state(run, n + 1, error)))
            return false;
    return norm_of_stream(run, &run->model->final_norm, &run->normed, output) || error_cancelled(error);
}

/* ---- dropout */

/* Tiles: rows. */
static void add_sample(const void *argument, size_t row, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const size_t d_model = run->model->shape.attention.d_model;
    const float *output = run->sampled.data + row * run->sampled.stride,
                *without = run->output.data + row * run->output.stride;
    double *sums = run->sums + row * d_model, *squares = run->squares + row * d_model;
    for (size_t j = 0; j < d_model; j++) {
        const double difference = (double)output[j] - (double)without[j];
        sums[j] += difference;
        squares[j] += difference * difference;
    }
}

/* The mean to the place of the output without dropout, the deviation to that of the stream. */
static void finish_row(const void *argument, size_t row, unsigned lane)
{
    (void)lane;
    const struct run *run = argument;
    const size_t d_model = run->model->shape.attention.d_model;
    const double samples = (double)rules_of(run)->dropout.samples;
    const double *sums = run->sums + row * d_model, *squares = run->squares + row * d_model;
    float *output = run->output.data + row * run->output.stride, *deviation = run->x.data + row * run->x.stride;
    for (size_t j = 0; j < d_model; j++) {
        const double mean = sums[j] / samples, variance = squares[j] / samples - mean * mean;
        output[j] = (float)((double)output[j] + mean);
        deviation[j] = (float)sqrt(variance < 0 ? 0 : variance); /* NaN stays NaN */
    }
}

/* Behind the pass without dropout, whose output is `without`: the samples' mean and deviation to the results. */
static bool run_samples(struct run *run, const struct rows_in *without, struct error *error)
{
    const size_t d_model = run->model->shape.attention.d_model, floats = run->n_rows * d_model;
    const double flop = (double)floats * SPLIT_FLOP_PER_FLOAT;
    memcpy(run->output.data, without->data, floats * sizeof(float));
    memset(run->sums, 0, floats * sizeof *run->sums);
    memset(run->squares, 0, floats * sizeof *run->squares);
    for (size_t sample = 1; sample <= rules_of(run)->dropout.samples; sample++) {
        memcpy(run->x.data, run->start.data, floats * sizeof(float));
        if (!run_layers(run, sample, &run->sampled, error))
            return false;
        if (!work_split(run->work, run->n_rows, flop, add_sample, run))
            return error_cancelled(error);
    }
    return (work_split(run->work, run->n_rows, flop, finish_row, run) || error_cancelled(error)) &&
           scatter(run, &run->output, output_of, 0, error) && scatter(run, &run->x, deviation_of, 0, error);
}

/* ---- the whole */

static size_t count_rows(const struct forward_input *const *inputs, size_t count)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t all = inputs[i]->batch * inputs[i]->query_length;
        if (inputs[i]->mask_kind != FORWARD_MASK_KEYS) {
            rows += all;
            continue;
        }
        for (size_t t = 0; t < all; t++)
            rows += inputs[i]->mask[t] != 0;
    }
    return rows;
}

static bool wants_samples(const struct attention_rules *rules, struct forward_result *const *results, size_t count)
{
    bool wanted = false;
    for (size_t i = 0; results && i < count; i++)
        wanted |= results[i]->output != NULL;
    return dropout_wanted(rules) && (wanted || !results);
}

/* The call's own pieces. */
static bool take_pieces(const struct model_shape *shape, const struct forward_input *const *inputs, size_t count,
                        bool samples, size_t n_rows, struct run *run, struct arena *arena, size_t *bytes)
{
    const size_t d_model = shape->attention.d_model;
    size_t hidden = 0, sequences = 0;
    for (size_t n = 0; n < shape->num_layers; n++) {
        size_t floats;
        if (!ffn_scratch_floats(&shape->layers[n].ffn, n_rows, &floats))
            return false;
        hidden = size_max(hidden, floats);
    }
    for (size_t i = 0; i < count; i++)
        sequences += inputs[i]->batch;
    const struct arena_piece pieces[] = {
        {&run->x.data, {n_rows, d_model, 1, 1}, sizeof(float), true},
        {&run->normed.data, {n_rows, d_model, 1, 1}, sizeof(float), true},
        {&run->hidden, {hidden, 1, 1, 1}, sizeof(float), true},
        {&run->view.heads_used, {sequences, shape->attention.num_heads, 1, 1}, 1, true},
        {&run->start.data, {n_rows, d_model, 1, 1}, sizeof(float), samples},
        {&run->output.data, {n_rows, d_model, 1, 1}, sizeof(float), samples},
        {&run->sums, {n_rows, d_model, 1, 1}, sizeof(double), samples},
        {&run->squares, {n_rows, d_model, 1, 1}, sizeof(double), samples},
    };
    run->x.stride = run->normed.stride = run->start.stride = run->output.stride = d_model;
    return arena_pieces(pieces, sizeof pieces / sizeof *pieces, arena, bytes);
}

/* Whether a layer has a rule of its own, where none is asked for. */
static bool has_own_rule(const struct layer_shape *layer)
{
    return layer->own_causal || layer->own_pattern || layer->own_position;
}

/* The most that any batch takes: those between layers, and of each layer that differs from the others in either kind of
 * pass. */
static bool most_batch_bytes(const struct model_shape *shape, const struct forward_input *const *inputs, size_t count,
                             unsigned lanes, size_t *most)
{
    struct layer_view view = {.heads_used = NULL};
    const bool samples = count > 0 && dropout_wanted(inputs[0]->rules);
    bool plain_counted = false;
    size_t bytes;
    layer_view_between(&view, inputs, NULL, count);
    if (!batch_layer_bytes(&shape->attention, view.input_list, count, lanes, most))
        return false;
    for (size_t n = 0; n < shape->num_layers; n++) {
        const bool plain = !has_own_rule(&shape->layers[n]);
        for (int sampled = 0; sampled <= samples && !(plain && plain_counted); sampled++) {
            layer_view_set(&view, shape, n, inputs, NULL, count, sampled);
            if (!batch_layer_bytes(&shape->attention, view.input_list, count, lanes, &bytes))
                return false;
            *most = size_max(*most, bytes);
        }
        plain_counted |= plain;
    }
    return true;
}

bool model_scratch_bytes(const struct model_shape *shape, const struct forward_input *const *inputs, size_t count,
                         unsigned lanes, size_t *bytes)
{
    struct run run;
    const size_t n_rows = count_rows(inputs, count);
    size_t layer, embedding = 0;
    const bool embeds = count > 0 && inputs[0]->embedding;
    *bytes = 0;
    return most_batch_bytes(shape, inputs, count, lanes, &layer) &&
           (!embeds || embed_bytes(shape, n_rows, &embedding)) && size_add(layer, embedding, &layer) &&
           take_pieces(shape, inputs, count, wants_samples(count > 0 ? inputs[0]->rules : NULL, NULL, count), n_rows,
                       &run, NULL, bytes) &&
           size_add(*bytes, layer, bytes);
}

double model_flop(const struct model_shape *shape, const struct forward_input *input)
{
    const double rows = (double)input->batch * (double)input->query_length, d_model = (double)shape->attention.d_model;
    const bool samples = dropout_wanted(input->rules);
    const struct forward_input *const inputs[] = {input};
    struct layer_view view = {.heads_used = NULL};
    double flop = 0;
    for (size_t n = input->first_layer; n < shape->num_layers; n++) {
        const struct ffn_shape *ffn = &shape->layers[n].ffn;
        layer_view_set(&view, shape, n, inputs, NULL, 1, false);
        flop += forward_flop(&shape->attention, view.input_list[0]);
        if (ffn->kind != FFN_NONE)
            flop += 2 * rows * d_model * (double)ffn->d_ff * (ffn_is_gated(ffn->kind) ? 3 : 2);
    }
    if (samples)
        flop *= 1 + (double)input->rules->dropout.samples;
    if (input->embedding && shape->embeddings.projection)
        flop += 2 * rows * (double)shape->embeddings.width * d_model;
    if (input->embedding && shape->embeddings.patch_size)
        flop += 2 * rows * (double)shape->embeddings.width * (double)shape->embeddings.channels *
                (double)shape->embeddings.patch_size * (double)shape->embeddings.patch_size;
    return flop < DBL_MAX ? flop : DBL_MAX;
}

bool model_run(const struct model *model, const struct forward_input *const *inputs,
               struct forward_result *const *results, size_t count, const struct forward_observer *observer,
               const struct parallel *parallel, struct arena *arena, struct error *error)
{
    struct work work = {.parallel = parallel};
    struct run run = {
        .model = model,
        .inputs = inputs,
        .results = results,
        .count = count,
        .observer = observer,
        .work = &work,
        .arena = arena,
        .n_rows = count_rows(inputs, count),
    };
    struct rows_in output;
    size_t bytes = 0;
    const bool samples = wants_samples(rules_of(&run), results, count);
    if (!take_pieces(&model->shape, inputs, count, samples, run.n_rows, &run, arena, &bytes))
        return error_out_of_memory(error);
    for (size_t i = 0; i < count; i++) {
        results[i]->fully_masked_rows = 0;
        results[i]->approximate = false;
    }
    if (!begin(&run, error))
        return false;
    if (samples)
        memcpy(run.start.data, run.x.data, run.n_rows * model->shape.attention.d_model * sizeof(float));
    if (!run_layers(&run, 0, &output, error))
        return false;
    if (samples)
        return run_samples(&run, &output, error);
    for (size_t i = 0; i < count; i++)
        if (results[i]->output)
            return scatter(&run, &(struct rows){(float *)output.data, output.stride}, output_of, 0, error);
    return true;
}
