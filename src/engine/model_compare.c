/* Runs a model twice, keeps what reaches each layer, and makes the layers' maps again from that, some rows at a time:
 * see model_compare.h. Entered by the thread that runs the job. */

#include "engine/model_compare.h"

#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/compare_maps.h"
#include "engine/ffn.h"
#include "engine/low_rank.h"
#include "engine/model_layer.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* One of the two runs. */
struct side {
    const struct model *model;
    struct attention_rules rules; /* of the maps that are compared: nothing that acts on what comes behind them */
    struct forward_input input;   /* under them */
    const float *states;          /* [B, L + 1, T, d_model] */
    float *x;                     /* [N, d_model] what reaches a layer's attention */
    struct layer_view view;
    struct batch batch;
};

struct comparison {
    struct work *work;
    struct arena *arena;
    struct side asked, full;
    float *output, *full_output; /* [B, T, d_model] */
};

/* The rules of both runs' maps; those of the full one are also what it runs under. */
static void set_inputs(const struct forward_input *input, struct side *asked, struct side *full)
{
    static const struct attention_rules none;
    asked->rules = full->rules = input->rules ? *input->rules : none;
    asked->rules.keep_heads = full->rules.keep_heads = (struct keep_heads_rule){.kind = KEEP_ALL_HEADS};
    asked->rules.dropout = full->rules.dropout = (struct dropout_rule){.samples = 0};
    full->rules.low_rank = (struct low_rank_rule){.kind = LOW_RANK_NONE};
    full->rules.pattern = (struct pattern_rule){.kind = PATTERN_FULL};
    full->rules.pattern_given = true;
    asked->input = full->input = *input;
    asked->input.observed = full->input.observed = false;
    asked->input.no_maps = full->input.no_maps = false; /* they are multiplied out here */
    asked->input.rules = &asked->rules;
    full->input.rules = &full->rules;
}

/* ---- a layer */

/* The rows that reach the layer, normed where it begins with that. */
static bool gather(const struct comparison *c, struct side *side, size_t n)
{
    const struct model_shape *shape = &side->model->shape;
    const size_t d_model = shape->attention.d_model, tokens = side->input.query_length;
    const struct model_layer *layer = &side->model->layers[n];
    const struct rows rows = {side->x, d_model};
    const struct rows_in from = {side->x, d_model};
    for (size_t i = 0; i < side->batch.extent.n_sequences; i++) {
        const struct sequence *s = &side->batch.sequences[i];
        const float *states = side->states + (s->index * (shape->num_layers + 1) + n) * tokens * d_model;
        for (size_t row = 0; row < s->n_queries; row++)
            memcpy(side->x + (s->query_start + row) * d_model, states + sequence_position(s, row) * d_model,
                   d_model * sizeof *side->x);
    }
    return layer->shape->placement != PLACEMENT_PRE || layer->norm1.kind == NORM_NONE ||
           norm_rows(side->model->kernels, &layer->norm1, &from, &rows, side->batch.extent.n_queries, d_model, c->work);
}

/* A batch of the layer, up to its attention. */
static bool open_layer(struct comparison *c, struct side *side, size_t n, struct error *error)
{
    const size_t d_model = side->model->shape.attention.d_model;
    const struct forward_input *inputs[] = {&side->input};
    const struct layer_rows rows = {
        .from = {side->x, d_model}, .to = {side->x, d_model}, .layer = n, .observed_inputs = inputs};
    layer_view_set(&side->view, &side->model->shape, n, inputs, NULL, 1, false);
    if (!batch_create_layer(&side->batch, &side->model->layers[n].attention, side->view.input_list,
                            side->view.result_list, 1, c->work->parallel->lanes, &rows, c->arena, error))
        return false;
    const bool ruled = side->batch.extent.rules;
    return (gather(c, side, n) && (!ruled || batch_fill_positions(&side->batch, c->work)) &&
            batch_project_inputs(&side->batch, c->work) && (!ruled || batch_rotate(&side->batch, c->work))) ||
           error_cancelled(error);
}

/* What is found of all layers. */
struct sums {
    double distances, scored; /* over heads; rows */
};

static bool compare_layer(struct comparison *c, size_t n, bool maps, struct sums *sums, struct error *error)
{
    double sum;
    if (!open_layer(c, &c->full, n, error))
        return false;
    sums->scored += (double)compare_count_scored(&c->full.batch);
    if (!maps)
        return true;
    if (!batch_open_attention(&c->full.batch, c->work))
        return error_cancelled(error);
    if (!open_layer(c, &c->asked, n, error) ||
        !compare_maps(&c->asked.batch, &c->full.batch, c->asked.view.input_list[0], c->work, c->arena, &sum, error))
        return false;
    sums->distances += sum;
    return true;
}

/* Of one layer of either run. */
static bool add_pairs(const struct comparison *c, struct side *side, size_t n, double *pairs)
{
    const struct forward_input *inputs[] = {&side->input};
    double some;
    layer_view_set(&side->view, &side->model->shape, n, inputs, NULL, 1, false);
    if (!forward_pairs(&side->model->shape.attention, side->view.input_list[0], c->work->parallel, c->arena, &some))
        return false;
    *pairs += some;
    return true;
}

/* ---- the whole */

/* The two runs. *result is filled as model_run would. */
static bool run_both(struct comparison *c, const struct forward_input *input, struct forward_result *result,
                     float *states, float *full_states, struct error *error)
{
    const size_t used = c->arena->used, n_states = c->full.model->shape.num_layers + 1;
    const struct forward_input *inputs[] = {input}, *full_inputs[] = {&c->full.input};
    struct forward_result own = *result, full = {.output = c->full_output, .hidden_states = full_states};
    struct forward_result *results[] = {&own}, *full_results[] = {&full};
    if (!own.output)
        own.output = c->output;
    if (!own.hidden_states)
        own.hidden_states = states;
    own.n_states = full.n_states = n_states;
    c->output = own.output;
    c->asked.states = own.hidden_states;
    c->full.states = full_states;
    if (!model_run(c->asked.model, inputs, results, 1, NULL, c->work->parallel, c->arena, error))
        return false;
    arena_rewind(c->arena, used);
    if (!model_run(c->full.model, full_inputs, full_results, 1, NULL, c->work->parallel, c->arena, error))
        return false;
    arena_rewind(c->arena, used);
    result->fully_masked_rows = own.fully_masked_rows;
    result->approximate = own.approximate;
    return true;
}

static bool take_pieces(const struct model_shape *shape, const struct forward_input *input, struct comparison *c,
                        float **states, float **full_states, struct arena *arena, size_t *bytes)
{
    const size_t d_model = shape->attention.d_model, tokens = input->query_length, n_states = shape->num_layers + 1;
    const struct arena_piece pieces[] = {
        {&c->output, {input->batch, tokens, d_model, 1}, sizeof(float), true},
        {&c->full_output, {input->batch, tokens, d_model, 1}, sizeof(float), true},
        {states, {input->batch, n_states, tokens, d_model}, sizeof(float), true},
        {full_states, {input->batch, n_states, tokens, d_model}, sizeof(float), true},
        {&c->asked.x, {input->batch, tokens, d_model, 1}, sizeof(float), true},
        {&c->full.x, {input->batch, tokens, d_model, 1}, sizeof(float), true},
    };
    return arena_pieces(pieces, sizeof pieces / sizeof *pieces, arena, bytes);
}

/* Linformer's maps have other columns. */
static bool has_like_maps(const struct forward_input *input)
{
    return !input->rules || input->rules->low_rank.kind != LOW_RANK_LINFORMER;
}

bool model_run_compared(const struct model *model, const struct model *full_model, const struct forward_input *input,
                        struct forward_result *result, const struct parallel *parallel, struct arena *arena,
                        struct approximation *approximation, struct error *error)
{
    struct work work = {.parallel = parallel};
    struct comparison c = {.asked.model = model, .full.model = full_model, .work = &work, .arena = arena};
    struct approximation found = {.output_error = NAN, .attention_error = NAN};
    struct sums sums = {0};
    float *states, *full_states;
    size_t bytes = 0;
    set_inputs(input, &c.asked, &c.full);
    if (!take_pieces(&model->shape, input, &c, &states, &full_states, arena, &bytes))
        return error_out_of_memory(error);
    if (!run_both(&c, input, result, states, full_states, error))
        return false;
    const size_t used = arena->used, num_layers = model->shape.num_layers;
    for (size_t n = 0; n < num_layers; n++) {
        arena_rewind(arena, used);
        if (!add_pairs(&c, &c.asked, n, &found.pairs) || !add_pairs(&c, &c.full, n, &found.pairs_full))
            return error_cancelled(error);
        if (!compare_layer(&c, n, has_like_maps(input), &sums, error))
            return false;
    }
    found.output_error = compare_outputs(&c.full.batch, c.output, c.full_output);
    if (sums.scored > 0 && has_like_maps(input))
        found.attention_error = sums.distances / sums.scored / (double)model->shape.attention.num_heads;
    *approximation = found;
    return true;
}

/* What comparing a layer takes. */
static bool layer_bytes(const struct model_shape *shape, const struct model_shape *full_shape, size_t n,
                        struct side *asked, struct side *full, unsigned lanes, size_t *bytes)
{
    const struct forward_input *asked_inputs[] = {&asked->input}, *full_inputs[] = {&full->input};
    size_t one, other, maps, pairs, pairs_full;
    layer_view_set(&asked->view, shape, n, asked_inputs, NULL, 1, false);
    layer_view_set(&full->view, full_shape, n, full_inputs, NULL, 1, false);
    const struct forward_input *const *a = asked->view.input_list, *const *f = full->view.input_list;
    *bytes = 0;
    if (!batch_layer_bytes(&shape->attention, a, 1, lanes, &one) ||
        !batch_layer_bytes(&full_shape->attention, f, 1, lanes, &other) ||
        !compare_maps_bytes(&shape->attention, a[0], lanes, &maps) || !arena_need(bytes, one) ||
        !arena_need(bytes, other) || !arena_need(bytes, maps) || !forward_pairs_bytes(a[0], lanes, &pairs) ||
        !forward_pairs_bytes(f[0], lanes, &pairs_full))
        return false;
    *bytes = size_max(*bytes, size_max(pairs, pairs_full));
    return true;
}

bool model_compare_bytes(const struct model_shape *shape, const struct model_shape *full_shape,
                         const struct forward_input *input, unsigned lanes, size_t *bytes)
{
    struct comparison c;
    const struct forward_input *inputs[] = {input}, *full_inputs[] = {&c.full.input};
    float *states, *full_states;
    size_t most, other;
    *bytes = 0;
    set_inputs(input, &c.asked, &c.full);
    if (!take_pieces(shape, input, &c, &states, &full_states, NULL, bytes) ||
        !model_scratch_bytes(shape, inputs, 1, lanes, &most) ||
        !model_scratch_bytes(full_shape, full_inputs, 1, lanes, &other))
        return false;
    most = size_max(most, other);
    for (size_t n = 0; n < shape->num_layers; n++) {
        if (!layer_bytes(shape, full_shape, n, &c.asked, &c.full, lanes, &other))
            return false;
        most = size_max(most, other);
    }
    return arena_need(bytes, most);
}

double model_compare_flop(const struct model_shape *shape, const struct model_shape *full_shape,
                          const struct forward_input *input)
{
    struct side asked, full;
    set_inputs(input, &asked, &full);
    const double flop = model_flop(shape, input) + model_flop(shape, &asked.input) +
                        (double)shape->num_layers * forward_map_flop(input, shape->attention.num_heads) +
                        2 * model_flop(full_shape, &full.input);
    return flop < DBL_MAX ? flop : DBL_MAX;
}
