/* Norms, feed-forward layers and embeddings by their definitions, in float64. */

#include "model_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void define_norm(const struct norm_shape *shape, const float *gain, const float *bias, double *x, size_t n_rows,
                 size_t width)
{
    for (size_t i = 0; i < n_rows && shape->kind != NORM_NONE; i++, x += width) {
        double mean = 0, square = 0;
        for (size_t c = 0; c < width; c++)
            mean += x[c] / (double)width;
        if (shape->kind == NORM_RMS)
            mean = 0;
        for (size_t c = 0; c < width; c++)
            square += (x[c] - mean) * (x[c] - mean) / (double)width;
        for (size_t c = 0; c < width; c++)
            x[c] = (x[c] - mean) / sqrt(square + (double)shape->eps) * (double)gain[c] +
                   (shape->bias ? (double)bias[c] : 0);
    }
}

/* y [columns] = x [rows] W + b */
static void linear(const double *x, const float *w, const float *b, size_t rows, size_t columns, double *y)
{
    for (size_t j = 0; j < columns; j++) {
        y[j] = b ? (double)b[j] : 0;
        for (size_t i = 0; i < rows; i++)
            y[j] += x[i] * (double)w[i * columns + j];
    }
}

static double function_of(enum ffn_kind kind, double x)
{
    switch (kind) {
    case FFN_GELU:
    case FFN_GEGLU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case FFN_GELU_TANH:
    case FFN_GEGLU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2;
    case FFN_RELU:
        return x > 0 ? x : 0;
    default:
        return x / (1 + exp(-x));
    }
}

void define_feed_forward(const struct model_problem *m, size_t layer, const double *from, size_t n_rows, double *to)
{
    const struct ffn_shape *ffn = &m->shape.layers[layer].ffn;
    const size_t d_model = m->shape.attention.d_model, d_ff = ffn->d_ff;
    const bool gated = ffn->kind == FFN_GEGLU || ffn->kind == FFN_GEGLU_TANH || ffn->kind == FFN_SWIGLU;
    double *hidden = calloc(2 * d_ff, sizeof *hidden), *gate = hidden + d_ff;
    for (size_t i = 0; i < n_rows; i++) {
        const double *x = from + i * d_model;
        linear(x, model_problem_tensor(m, layer, SLOT_W_1), model_problem_tensor(m, layer, SLOT_B_1), d_model, d_ff,
               hidden);
        if (gated)
            linear(x, model_problem_tensor(m, layer, SLOT_W_GATE), model_problem_tensor(m, layer, SLOT_B_GATE), d_model,
                   d_ff, gate);
        for (size_t j = 0; j < d_ff; j++)
            hidden[j] = gated ? function_of(ffn->kind, gate[j]) * hidden[j] : function_of(ffn->kind, hidden[j]);
        linear(hidden, model_problem_tensor(m, layer, SLOT_W_2), model_problem_tensor(m, layer, SLOT_B_2), d_ff,
               d_model, to + i * d_model);
    }
    free(hidden);
}

/* ---- embeddings */

static const float *tensor(const struct model_problem *m, enum model_slot slot)
{
    return model_problem_tensor(m, MODEL_ITSELF, slot);
}

/* The row of the position table, of token t of sequence b. */
static size_t position_row(const struct embeddings_shape *e, const struct forward_input *in, size_t b, size_t t)
{
    const uint32_t *ids = in->embedding->ids ? in->embedding->ids + b * in->query_length : NULL;
    if (in->position_ids)
        return in->position_ids[(in->positions_per_sequence ? b * in->query_length : 0) + t];
    if (!e->count_padding_id || !ids)
        return t + e->position_offset;
    size_t number = 0;
    for (size_t i = 0; i <= t; i++)
        number += ids[i] != e->padding_id;
    return e->padding_id + (ids[t] == e->padding_id ? 0 : number);
}

/* Token dropout: the scale of all rows of a sequence. */
static double dropout_scale(const struct embeddings_shape *e, const struct forward_input *in, size_t b)
{
    double masked = 0, kept = 0;
    if (!e->token_dropout || !in->embedding->ids)
        return 1;
    for (size_t t = 0; t < in->query_length; t++) {
        masked += in->embedding->ids[b * in->query_length + t] == e->mask_token;
        kept += in->mask_kind != FORWARD_MASK_KEYS || in->mask[b * in->query_length + t];
    }
    return 0.88 / (1 - masked / kept);
}

static void embed_token(const struct model_problem *m, const struct forward_input *in, size_t b, size_t t, double *x)
{
    const struct embeddings_shape *e = &m->shape.embeddings;
    const struct embedding_input *given = in->embedding;
    const size_t at = b * in->query_length + t, type = given->type_ids ? given->type_ids[at] : 0;
    const double dropout = dropout_scale(e, in, b);
    for (size_t c = 0; c < e->width; c++) {
        if (given->embeds)
            x[c] = (double)given->embeds[at * e->width + c];
        else if (e->token_dropout && given->ids[at] == e->mask_token)
            x[c] = 0;
        else
            x[c] = (double)tensor(m, SLOT_TOKEN)[given->ids[at] * e->width + c] * (double)e->scale * dropout;
        if (e->positions)
            x[c] += (double)tensor(m, SLOT_POSITION)[position_row(e, in, b, t) * e->width + c];
        if (e->types)
            x[c] += (double)tensor(m, SLOT_TYPE)[type * e->width + c];
    }
    define_norm(&e->norm, tensor(m, SLOT_EMBEDDING_GAIN), tensor(m, SLOT_EMBEDDING_BIAS), x, 1, e->width);
}

static void embed_patch(const struct model_problem *m, const struct forward_input *in, size_t b, size_t t, double *x)
{
    const struct embeddings_shape *e = &m->shape.embeddings;
    const size_t p = e->patch_size, side = e->image_size, per_row = side / p;
    for (size_t c = 0; c < e->width; c++) {
        double sum = t == 0 ? (double)tensor(m, SLOT_CLASS)[c] : (double)tensor(m, SLOT_PATCH_B)[c];
        for (size_t k = 0; t > 0 && k < e->channels * p * p; k++) {
            const size_t channel = k / (p * p), y = (t - 1) / per_row * p + k / p % p,
                         column = (t - 1) % per_row * p + k % p;
            sum += (double)in->embedding->pixels[((b * e->channels + channel) * side + y) * side + column] *
                   (double)tensor(m, SLOT_PATCH_W)[k * e->width + c];
        }
        x[c] = sum + (double)tensor(m, SLOT_POSITION)[t * e->width + c];
    }
}

void define_input(const struct model_problem *m, const struct model_case *c, double *x)
{
    const struct embeddings_shape *e = &m->shape.embeddings;
    const struct forward_input *in = &c->input;
    const size_t d_model = m->shape.attention.d_model, rows = in->batch * in->query_length;
    if (!in->embedding) {
        for (size_t i = 0; i < rows * d_model; i++)
            x[i] = (double)in->query[i];
        return;
    }
    double *embedded = calloc(e->width, sizeof *embedded);
    for (size_t i = 0; i < rows; i++) {
        const size_t b = i / in->query_length, t = i % in->query_length;
        if (in->embedding->pixels)
            embed_patch(m, in, b, t, embedded);
        else
            embed_token(m, in, b, t, embedded);
        if (e->projection)
            linear(embedded, tensor(m, SLOT_PROJECTION_W), tensor(m, SLOT_PROJECTION_B), e->width, d_model,
                   x + i * d_model);
        else
            memcpy(x + i * d_model, embedded, d_model * sizeof *x);
    }
    free(embedded);
}
