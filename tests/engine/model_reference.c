/* A model by its definition, pass by pass and layer by layer, in float64; the rows between layers are rounded to
 * float32 for the attention's own reference. */

#include "dropout_definition.h"
#include "keep_heads_definition.h"
#include "model_problem.h"
#include "positions.h"
#include "require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_MOST = 64 };

struct reference {
    const struct model_problem *m;
    const struct model_case *c;
    struct model_answer *answer;
    size_t rows, d_model; /* B * T */
    double *x;            /* [rows, d_model] the stream */
    double *between;      /* [rows, d_model] */
    float *rounded;       /* [rows, d_model] */
    double margin;
};

static bool is_kept(const struct forward_input *in, size_t row)
{
    return in->mask_kind != FORWARD_MASK_KEYS || in->mask[row];
}

static void round_rows(const struct reference *r, const double *x)
{
    for (size_t i = 0; i < r->rows * r->d_model; i++)
        r->rounded[i] = (float)x[i];
}

/* ---- attention */

/* The rule of a layer: what was asked for, else its own. */
static struct attention_rules rules_of(const struct reference *r, size_t n)
{
    const struct layer_shape *layer = &r->m->shape.layers[n];
    struct attention_rules rules = r->c->input.rules ? *r->c->input.rules : (struct attention_rules){0};
    if (layer->own_position && !rules.position_given)
        rules.position = layer->position;
    if (layer->own_pattern && !rules.pattern_given)
        rules.pattern = layer->pattern;
    if (rules.position.kind == POSITION_SINUSOIDAL || rules.position.kind == POSITION_LEARNED)
        rules.position = (struct position_rule){.kind = POSITION_NONE};
    if (rules.keep_heads.importance)
        rules.keep_heads.importance += n * r->m->shape.attention.num_heads;
    rules.layer = n;
    rules.num_layers = r->m->shape.num_layers;
    return rules;
}

/* How near the k-th of a row's weights is to the next one, at the nearest. */
static double top_margin(const struct problem *one, size_t k)
{
    struct problem all = *one;
    all.top_k = 0;
    const size_t tk = one->input.key_length, n_rows = one->shape.num_heads * one->input.query_length;
    struct answer answer = answer_create(&all);
    double margin = INFINITY;
    reference_forward(&all, &answer);
    for (size_t row = 0; row < n_rows; row++) {
        const float *weights = answer.attention + row * tk;
        for (size_t j = 0; j < tk; j++) {
            size_t rank = 0;
            double next = 0;
            for (size_t i = 0; i < tk; i++) {
                const bool ahead = weights[i] > weights[j] || (weights[i] == weights[j] && i < j);
                rank += ahead;
                if (!ahead && i != j)
                    next = fmax(next, (double)weights[i]);
            }
            if (rank + 1 == k && next > 0)
                margin = fmin(margin, 1 - next / (double)weights[j]);
        }
    }
    answer_free(&answer);
    return margin;
}

/* The sequence's tensors of the layer, to the places of that layer in the answer. */
static void answer_layer(const struct reference *r, size_t n, size_t b, const struct answer *one)
{
    const struct attention_shape *a = &r->m->shape.attention;
    const struct model_case *c = r->c;
    const size_t t = c->input.query_length, layers = c->include_layers ? c->n_layers : r->m->shape.num_layers;
    for (size_t place = 0; place < layers; place++) {
        if ((c->include_layers ? c->include_layers[place] : place) != n)
            continue;
        const size_t first = b * layers + place;
        for (size_t map = 0; map < c->n_maps; map++) {
            const size_t head = c->include_heads ? c->include_heads[map] : map, to = first * c->n_maps + map;
            memcpy(r->answer->tensors[ANSWER_ATTENTION] + to * t * t, one->attention + head * t * t,
                   t * t * sizeof(float));
            memcpy(r->answer->tensors[ANSWER_HEADS] + to * t * a->d_v, one->heads + head * t * a->d_v,
                   t * a->d_v * sizeof(float));
        }
        const size_t d_k = a->num_heads * t * a->d_k, d_v = a->num_heads * t * a->d_v;
        memcpy(r->answer->tensors[ANSWER_QUERY] + first * d_k, one->query, d_k * sizeof(float));
        memcpy(r->answer->tensors[ANSWER_KEY] + first * d_k, one->key, d_k * sizeof(float));
        memcpy(r->answer->tensors[ANSWER_VALUE] + first * d_v, one->value, d_v * sizeof(float));
    }
}

/* The attention's output of one sequence, [T, d_model]; of a sample with weights dropped. */
static void attend_sequence(struct reference *r, const struct problem *whole, size_t n, size_t b, size_t sample,
                            double *outputs)
{
    const struct attention_shape *a = &whole->shape;
    const struct attention_rules *rules = whole->input.rules;
    const size_t t = whole->input.query_length, heads = a->num_heads;
    struct problem one = one_sequence(whole, b), owner = {0};
    uint8_t used[HEADS_MOST];
    double values[HEADS_MOST], joined[4096];
    require(heads <= HEADS_MOST && heads * a->d_v <= 4096, "too many heads");
    one.n_memory = 0;
    define_pattern(&one);
    struct problem plain = without_positions(&one, &owner);
    plain.input.rules = rules;
    struct answer answer = answer_create(&plain);
    reference_forward(&plain, &answer);
    if (plain.top_k)
        r->margin = fmin(r->margin, top_margin(&plain, plain.top_k));
    memset(used, 1, sizeof used);
    if (rules->keep_heads.kind != KEEP_ALL_HEADS) {
        keep_heads_values(&plain, &answer, values);
        const double margin = keep_heads_choice(
            &rules->keep_heads, rules->keep_heads.importance ? rules->keep_heads.importance : values, heads, used);
        r->margin = fmin(r->margin, margin);
    }
    for (size_t i = 0; i < t; i++) {
        for (size_t h = 0; h < heads && sample == 0; h++)
            for (size_t d = 0; d < a->d_v; d++)
                joined[h * a->d_v + d] = (double)answer.heads[(h * t + i) * a->d_v + d] * used[h] *
                                         (one.input.head_mask ? (double)one.input.head_mask[h] : 1);
        if (sample > 0)
            drop_row(&plain, b, i, sample, answer.attention, answer.value, used, joined);
        project_heads(&one, joined, outputs + i * r->d_model);
    }
    if (sample == 0) {
        answer_layer(r, n, b, &answer);
        memcpy(r->answer->heads_used + (b * r->m->shape.num_layers + n) * heads, used, heads);
        r->answer->fully_masked_rows += answer.fully_masked_rows;
    }
    answer_free(&answer);
    problem_free(&owner);
    problem_free(&one);
}

/* between = attention of `rounded` */
static void attend(struct reference *r, size_t n, size_t sample)
{
    const struct layer_shape *layer = &r->m->shape.layers[n];
    const struct attention_rules rules = rules_of(r, n);
    struct problem whole = {
        .shape = r->m->shape.attention, .matrices = model_problem_matrices(r->m, n), .input = r->c->input};
    struct forward_input *in = &whole.input;
    whole.shape.scale = layer->scale;
    in->query = in->key = in->value = r->rounded;
    in->rules = &rules;
    if (layer->own_causal && !in->causal_given)
        in->causal = layer->causal;
    if (in->head_mask && in->head_mask_per_layer)
        in->head_mask += n * whole.shape.num_heads;
    for (size_t b = 0; b < in->batch; b++)
        attend_sequence(r, &whole, n, b, sample, r->between + b * in->query_length * r->d_model);
}

/* ---- layers */

static void norm_of(const struct reference *r, const struct norm_shape *shape, size_t layer, unsigned gain,
                    unsigned bias, double *x)
{
    define_norm(shape, model_problem_tensor(r->m, layer, gain), model_problem_tensor(r->m, layer, bias), x, r->rows,
                r->d_model);
}

static void add_between(const struct reference *r, bool residual)
{
    for (size_t i = 0; i < r->rows * r->d_model; i++)
        r->x[i] = (residual ? r->x[i] : 0) + r->between[i];
}

static void run_layer(struct reference *r, size_t n, size_t sample)
{
    const struct layer_shape *layer = &r->m->shape.layers[n];
    const bool pre = layer->placement == PLACEMENT_PRE;
    const size_t bytes = r->rows * r->d_model * sizeof(double);
    memcpy(r->between, r->x, bytes);
    if (pre)
        norm_of(r, &layer->norm1, n, SLOT_NORM1_GAIN, SLOT_NORM1_BIAS, r->between);
    round_rows(r, r->between);
    attend(r, n, sample);
    add_between(r, layer->residual);
    if (!pre)
        norm_of(r, &layer->norm1, n, SLOT_NORM1_GAIN, SLOT_NORM1_BIAS, r->x);
    if (layer->ffn.kind == FFN_NONE)
        return;
    double *from = malloc(bytes);
    require(from, "no memory");
    memcpy(from, r->x, bytes);
    if (pre)
        norm_of(r, &layer->norm2, n, SLOT_NORM2_GAIN, SLOT_NORM2_BIAS, from);
    define_feed_forward(r->m, n, from, r->rows, r->between);
    free(from);
    add_between(r, layer->residual);
    if (!pre)
        norm_of(r, &layer->norm2, n, SLOT_NORM2_GAIN, SLOT_NORM2_BIAS, r->x);
}

static void answer_state(const struct reference *r, size_t n)
{
    const size_t t = r->c->input.query_length, states = r->m->shape.num_layers + 1;
    for (size_t i = 0; i < r->rows; i++)
        for (size_t c = 0; c < r->d_model; c++)
            r->answer->tensors[ANSWER_STATES][((i / t * states + n) * t + i % t) * r->d_model + c] =
                is_kept(&r->c->input, i) ? (float)r->x[i * r->d_model + c] : 0;
}

/* From `start` to the output, which is left in the stream. */
static void run_layers(struct reference *r, const double *start, size_t sample)
{
    memcpy(r->x, start, r->rows * r->d_model * sizeof(double));
    for (size_t n = 0; n < r->m->shape.num_layers; n++) {
        if (sample == 0)
            answer_state(r, n);
        run_layer(r, n, sample);
    }
    if (sample == 0)
        answer_state(r, r->m->shape.num_layers);
    norm_of(r, &r->m->shape.final_norm, MODEL_ITSELF, SLOT_FINAL_GAIN, SLOT_FINAL_BIAS, r->x);
}

/* What a rule adds to the first layer's input. */
static void add_positions(struct reference *r, double *x)
{
    const struct attention_rules *rules = r->c->input.rules;
    if (!rules || (rules->position.kind != POSITION_SINUSOIDAL && rules->position.kind != POSITION_LEARNED))
        return;
    struct problem p = {.shape = r->m->shape.attention, .input = r->c->input}, owner = {0};
    round_rows(r, x);
    p.input.query = p.input.key = p.input.value = r->rounded;
    const struct problem made = without_positions(&p, &owner);
    for (size_t i = 0; i < r->rows * r->d_model; i++)
        x[i] = (double)made.input.query[i];
    problem_free(&owner);
}

double model_reference(const struct model_problem *m, const struct model_case *c, struct model_answer *a)
{
    const struct forward_input *in = &c->input;
    struct reference r = {.m = m,
                          .c = c,
                          .answer = a,
                          .rows = in->batch * in->query_length,
                          .d_model = m->shape.attention.d_model,
                          .margin = INFINITY};
    const size_t count = r.rows * r.d_model, samples = in->rules ? in->rules->dropout.samples : 0;
    double *start = calloc(5 * count, sizeof *start), *sums = start + 3 * count, *squares = sums + count;
    r.x = start + count;
    r.between = start + 2 * count;
    r.rounded = calloc(count, sizeof *r.rounded);
    require(start && r.rounded, "no memory");
    a->fully_masked_rows = 0;
    define_input(m, c, start);
    add_positions(&r, start);
    run_layers(&r, start, 0);
    for (size_t i = 0; i < count; i++)
        a->tensors[ANSWER_OUTPUT][i] = is_kept(in, i / r.d_model) ? (float)r.x[i] : 0;
    for (size_t sample = 1; sample <= samples; sample++) {
        run_layers(&r, start, sample);
        for (size_t i = 0; i < count; i++) {
            sums[i] += r.x[i];
            squares[i] += r.x[i] * r.x[i];
        }
    }
    for (size_t i = 0; i < count && samples > 0; i++) {
        const double mean = sums[i] / (double)samples;
        const bool kept = is_kept(in, i / r.d_model);
        a->tensors[ANSWER_OUTPUT][i] = kept ? (float)mean : 0;
        a->tensors[ANSWER_DEVIATION][i] = kept ? (float)sqrt(fmax(squares[i] / (double)samples - mean * mean, 0)) : 0;
    }
    free(start);
    free(r.rounded);
    return r.margin;
}
