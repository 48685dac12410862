/* Forwards without one head each, some of them side by side, so that weights are read less often. Entered by the thread
 * that runs the job; model_run brings in other lanes. */
#include "analysis/model_importance.h"

#include "analysis/scored_rows.h"
#include "base/arena_pieces.h"
#include "base/size.h"
#include "engine/position.h"
#include "engine/split.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows that are computed together are about as many: from there on more save nothing. */
#define ROWS_TOGETHER ((size_t)256)

struct run {
    const struct model *model;
    const struct model_shape *shape;
    const struct forward_input *input;
    const struct forward_result *result;
    const struct parallel *parallel;
    struct arena *arena;
    size_t together;
    float *state;    /* [B, T, d_model] what the layer reads */
    float *masks;    /* [together, num_layers, num_heads] */
    float *outputs;  /* [together, B, T, d_model] */
    uint8_t *scored; /* [B, T] by the last layer */
    char *readers;   /* [lanes][reader_bytes] */
    size_t reader_bytes;
    struct attention_rules rules; /* of the inputs */
    struct forward_input inputs[MODEL_MOST_INPUTS];
    struct forward_result results[MODEL_MOST_INPUTS];
    const struct forward_input *input_list[MODEL_MOST_INPUTS]; /* pointers to these */
    struct forward_result *result_list[MODEL_MOST_INPUTS];
};

static size_t heads_together(const struct model_shape *shape, const struct forward_input *input)
{
    const size_t rows = input->batch * input->query_length,
                 most = size_min(shape->attention.num_heads, MODEL_MOST_INPUTS);
    return size_max(size_min(ROWS_TOGETHER / rows, most), 1);
}

/* The input of the layers from n on, whose rows have had their positions added. */
static struct forward_input input_from(const struct forward_input *input, size_t n, struct attention_rules *rules)
{
    struct forward_input from = *input;
    from.first_layer = n;
    from.embedding = NULL;
    from.head_mask = NULL;
    from.observed = false;
    if (!input->rules)
        return from;
    *rules = *input->rules;
    if (position_is_added(rules))
        rules->position.kind = POSITION_NONE;
    from.rules = rules;
    return from;
}

static size_t layer_at(const struct measured_layers *layers, size_t place)
{
    return layers->include_layers ? layers->include_layers[place] : place;
}

double model_importance_flop(const struct model_shape *shape, const struct forward_input *input,
                             const struct measured_layers *layers)
{
    struct attention_rules rules;
    double flop = 0;
    for (size_t place = 0; place < layers->n_layers; place++) {
        const struct forward_input from = input_from(input, layer_at(layers, place), &rules);
        flop += (double)shape->attention.num_heads * model_flop(shape, &from);
    }
    return flop < DBL_MAX ? flop : DBL_MAX;
}

static struct forward_input last_layer(const struct model_shape *shape, const struct forward_input *input,
                                       struct attention_rules *rules)
{
    return model_layer_input(shape, shape->num_layers - 1, input, rules);
}

static bool take_pieces(const struct model_shape *shape, const struct forward_input *input, unsigned lanes,
                        struct run *run, struct arena *arena, size_t *bytes)
{
    const size_t rows = input->batch * input->query_length, d_model = shape->attention.d_model;
    struct attention_rules rules;
    const struct forward_input last = last_layer(shape, input, &rules);
    run->together = heads_together(shape, input);
    if (!allowed_reader_bytes(&last, &run->reader_bytes))
        return false;
    const struct arena_piece pieces[] = {
        {&run->state, {rows, d_model, 1, 1}, sizeof(float), true},
        {&run->masks, {run->together, shape->num_layers, shape->attention.num_heads, 1}, sizeof(float), true},
        {&run->outputs, {run->together, rows, d_model, 1}, sizeof(float), true},
        {&run->scored, {rows, 1, 1, 1}, 1, true},
        {&run->readers, {lanes, run->reader_bytes, 1, 1}, 1, run->reader_bytes > 0},
    };
    return arena_pieces(pieces, sizeof pieces / sizeof *pieces, arena, bytes);
}

bool model_importance_bytes(const struct model_shape *shape, const struct forward_input *input, unsigned lanes,
                            size_t *bytes)
{
    struct attention_rules rules;
    struct forward_input from = input_from(input, 0, &rules);
    const struct forward_input *inputs[MODEL_MOST_INPUTS];
    struct run none;
    size_t forward, own = 0;
    for (size_t i = 0; i < MODEL_MOST_INPUTS; i++)
        inputs[i] = &from;
    return take_pieces(shape, input, lanes, &none, NULL, &own) &&
           model_scratch_bytes(shape, inputs, none.together, lanes, &forward) && size_add(own, forward, bytes);
}

/* ||output - y||^2 over the scored rows; y NULL: ||output||^2. */
static double squares_of(const struct run *run, const float *output, const float *y)
{
    const size_t rows = run->input->batch * run->input->query_length, d_model = run->shape->attention.d_model;
    double sum = 0;
    for (size_t row = 0; row < rows; row++) {
        const float *a = output + row * d_model, *b = y ? y + row * d_model : NULL;
        for (size_t j = 0; run->scored[row] && j < d_model; j++) {
            const double difference = (double)a[j] - (b ? (double)b[j] : 0);
            sum += difference * difference;
        }
    }
    return sum;
}

/* The rows that layer n reads. */
static void copy_state(const struct run *run, size_t n)
{
    const size_t floats = run->input->query_length * run->shape->attention.d_model, states = run->result->n_states;
    for (size_t b = 0; b < run->input->batch; b++)
        memcpy(run->state + b * floats, run->result->hidden_states + (b * states + n) * floats, floats * sizeof(float));
}

static float gate_of(const struct run *run, size_t n, size_t head)
{
    const struct forward_input *input = run->input;
    return input->head_mask
               ? input->head_mask[(input->head_mask_per_layer ? n * run->shape->attention.num_heads : 0) + head]
               : 1;
}

/* Mask `place` without the head. */
static void mask_out(const struct run *run, size_t place, size_t layer, size_t without)
{
    const size_t heads = run->shape->attention.num_heads, layers = run->shape->num_layers;
    float *mask = run->masks + place * layers * heads;
    for (size_t n = 0; n < layers; n++)
        for (size_t head = 0; head < heads; head++)
            mask[n * heads + head] = n == layer && head == without ? 0 : gate_of(run, n, head);
}

/* Measures heads [count] of layer n. */
static bool measure(struct run *run, size_t n, const size_t *heads, size_t count, double y_squares, double *importance,
                    struct error *error)
{
    const size_t rows = run->input->batch * run->input->query_length, d_model = run->shape->attention.d_model,
                 floats = run->shape->num_layers * run->shape->attention.num_heads, used = run->arena->used;
    for (size_t i = 0; i < count; i++) {
        mask_out(run, i, n, heads[i]);
        run->inputs[i] = input_from(run->input, n, &run->rules);
        run->inputs[i].query = run->inputs[i].key = run->inputs[i].value = run->state;
        run->inputs[i].head_mask = run->masks + i * floats;
        run->inputs[i].head_mask_per_layer = true;
        run->results[i] = (struct forward_result){.output = run->outputs + i * rows * d_model};
        run->input_list[i] = &run->inputs[i];
        run->result_list[i] = &run->results[i];
    }
    if (!model_run(run->model, run->input_list, run->result_list, count, NULL, run->parallel, run->arena, error))
        return false;
    arena_rewind(run->arena, used);
    for (size_t i = 0; i < count; i++) {
        const double squares = squares_of(run, run->results[i].output, run->result->output);
        if (!isfinite(squares))
            return error_set(error, ERROR_NOT_FINITE,
                             "without head %zu of layer %zu the output is not finite: the computation is beyond "
                             "float32; send smaller inputs",
                             heads[i], n);
        importance[heads[i]] = y_squares > 0 ? sqrt(squares / y_squares) : NAN;
    }
    return true;
}

static bool measure_layer(struct run *run, size_t n, double y_squares, double *importance, struct error *error)
{
    size_t heads[MODEL_MOST_INPUTS], count = 0;
    copy_state(run, n);
    for (size_t head = 0; head < run->shape->attention.num_heads; head++) {
        if (gate_of(run, n, head) == 0) /* it is not there */
            importance[head] = y_squares > 0 ? 0 : NAN;
        else
            heads[count++] = head;
        if (count == run->together) {
            if (!measure(run, n, heads, count, y_squares, importance, error))
                return false;
            count = 0;
        }
    }
    return count == 0 || measure(run, n, heads, count, y_squares, importance, error);
}

bool model_importance_run(const struct model *model, const struct forward_input *input,
                          const struct forward_result *result, const struct measured_layers *layers,
                          const struct parallel *parallel, struct arena *arena, struct model_importance *importance,
                          struct error *error)
{
    const struct model_shape *shape = model_shape_of(model);
    struct run run = {
        .model = model, .shape = shape, .input = input, .result = result, .parallel = parallel, .arena = arena};
    struct attention_rules rules;
    const struct forward_input last = last_layer(shape, input, &rules);
    size_t bytes = 0;
    if (!take_pieces(shape, input, parallel->lanes, &run, arena, &bytes))
        return error_out_of_memory(error);
    struct work work = {.parallel = parallel};
    if (!scored_rows(&last, run.readers, run.reader_bytes, &work, run.scored, &importance->n_rows))
        return error_cancelled(error);
    importance->n_excluded = input->batch * input->query_length - importance->n_rows;
    const double y_squares = squares_of(&run, result->output, NULL);
    if (!isfinite(y_squares))
        return error_set(error, ERROR_NOT_FINITE,
                         "the output is not finite: the computation is beyond float32; send smaller inputs");
    for (size_t place = 0; place < layers->n_layers; place++)
        if (!measure_layer(&run, layer_at(layers, place), y_squares,
                           importance->importance + place * shape->attention.num_heads, error))
            return false;
    return true;
}
