/* The forward pass by its definition, in float64: plain loops that share nothing with the engine. */

#include "problem.h"

#include <math.h>
#include <string.h>

/* The layer is laid over the sequences of the problem with nothing shared between them. */
struct reference {
    double *q, *k, *v, *weights, *z, *joined;
};

static void linear(const float *x, const float *w, const float *bias, size_t rows, size_t depth, size_t columns,
                   bool projected, double *y)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = projected && bias ? (double)bias[j] : 0;
            for (size_t k = 0; projected && k < depth; k++)
                sum += (double)x[i * depth + k] * (double)w[k * columns + j];
            y[i * columns + j] = projected ? sum : (double)x[i * depth + j];
        }
}

static bool reference_allows(const struct problem *p, size_t b, size_t i, size_t j)
{
    const struct forward_input *in = &p->input;
    if (p->pattern && !p->pattern[i * in->key_length + j])
        return false;
    if (in->causal && j + in->query_length > i + in->key_length)
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * in->key_length + j];
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * in->query_length + i) * in->key_length + j];
}

/* All but the k largest become -infinity; of equal ones the first stay. */
static void reference_top(double *scores, size_t count, size_t k)
{
    double threshold = INFINITY;
    size_t n_above = 0, n_kept = 0;
    for (size_t round = 0; round < k && round < count && n_above + n_kept < k; round++) {
        double next = -INFINITY;
        for (size_t j = 0; j < count; j++)
            if (scores[j] < threshold)
                next = fmax(next, scores[j]);
        n_above += n_kept;
        n_kept = 0;
        threshold = next;
        for (size_t j = 0; j < count; j++)
            n_kept += scores[j] == threshold;
    }
    for (size_t j = 0, left = k - n_above; j < count; j++)
        if (scores[j] < threshold || (scores[j] == threshold && left-- == 0)) {
            left += scores[j] == threshold;
            scores[j] = -INFINITY;
        }
}

/* Row i of head h: its weights [Tk] and z [d_v]. Returns whether any key was allowed. */
static bool reference_row(const struct problem *p, struct reference *r, size_t b, size_t h, size_t i)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const size_t kv = h / (s->num_heads / s->num_kv_heads), tk = in->key_length;
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < tk; j++) {
        double score = 0;
        for (size_t d = 0; d < s->d_k; d++)
            score += r->q[(i * s->num_heads + h) * s->d_k + d] * r->k[(j * s->num_kv_heads + kv) * s->d_k + d];
        score *= (double)s->scale;
        if (in->bias)
            score +=
                (double)
                    in->bias[(((in->bias_per_sequence ? b * s->num_heads : 0) + h) * in->query_length + i) * tk + j];
        r->weights[j] = reference_allows(p, b, i, j) ? score : -INFINITY;
        top = fmax(top, r->weights[j]);
    }
    if (p->top_k > 0)
        reference_top(r->weights, tk, p->top_k);
    const bool any = top > -INFINITY;
    for (size_t j = 0; j < tk; j++)
        sum += r->weights[j] = any ? exp(r->weights[j] - top) : 0;
    memset(r->z, 0, s->d_v * sizeof *r->z);
    for (size_t j = 0; j < tk; j++) {
        r->weights[j] = any ? r->weights[j] / sum : 0;
        for (size_t d = 0; d < s->d_v; d++)
            r->z[d] += r->weights[j] * r->v[(j * s->num_kv_heads + kv) * s->d_v + d];
    }
    return any;
}

static void copy_heads(const double *from, size_t rows, size_t heads, size_t per_head, size_t group,
                       const uint8_t *kept, float *to)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < rows; i++)
            for (size_t d = 0; d < per_head; d++)
                to[(h * rows + i) * per_head + d] =
                    kept && !kept[i] ? 0 : (float)from[(i * (heads / group) + h / group) * per_head + d];
}

static void reference_sequence(const struct problem *p, struct reference *r, size_t b, struct answer *a)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const struct attention_matrices *m = &p->matrices;
    const size_t tq = in->query_length, tk = in->key_length, d_model = s->d_model, heads = s->num_heads,
                 kv_heads = s->num_kv_heads;
    const uint8_t *kept = in->self_attention && in->mask_kind == FORWARD_MASK_KEYS ? in->mask + b * tk : NULL;
    linear(in->query + b * tq * d_model, m->w_q, m->b_q, tq, d_model, heads * s->d_k, s->projected, r->q);
    linear(in->key + b * tk * d_model, m->w_k, m->b_k, tk, d_model, kv_heads * s->d_k, s->projected, r->k);
    linear(in->value + b * tk * d_model, m->w_v, m->b_v, tk, d_model, kv_heads * s->d_v, s->projected, r->v);
    copy_heads(r->q, tq, heads, s->d_k, 1, kept, a->query + b * heads * tq * s->d_k);
    copy_heads(r->k, tk, heads, s->d_k, heads / kv_heads, kept, a->key + b * heads * tk * s->d_k);
    copy_heads(r->v, tk, heads, s->d_v, heads / kv_heads, kept, a->value + b * heads * tk * s->d_v);
    for (size_t i = 0; p->turn && i < tq; i++)
        p->turn(p, b, false, i, heads, r->q + i * heads * s->d_k);
    for (size_t j = 0; p->turn && j < tk; j++)
        p->turn(p, b, true, j, kv_heads, r->k + j * kv_heads * s->d_k);
    for (size_t i = 0; i < tq; i++) {
        bool any = true;
        for (size_t h = 0; h < heads; h++) {
            any = reference_row(p, r, b, h, i);
            for (size_t d = 0; d < s->d_v; d++)
                r->joined[h * s->d_v + d] = in->head_mask ? (double)in->head_mask[h] * r->z[d] : r->z[d];
            for (size_t place = 0; place < p->n_maps; place++) {
                if ((p->include_heads ? p->include_heads[place] : place) != h)
                    continue;
                const size_t row = (b * p->n_maps + place) * tq + i;
                for (size_t j = 0; j < tk; j++)
                    a->attention[row * tk + j] = kept && !kept[i] ? 0 : (float)r->weights[j];
                for (size_t d = 0; d < s->d_v; d++)
                    a->heads[row * s->d_v + d] = kept && !kept[i] ? 0 : (float)r->z[d];
            }
        }
        a->fully_masked_rows += !any && (!kept || kept[i]);
        for (size_t c = 0; c < d_model; c++) {
            double sum = m->b_o ? (double)m->b_o[c] : 0;
            for (size_t d = 0; s->projected && d < heads * s->d_v; d++)
                sum += r->joined[d] * (double)m->w_o[d * d_model + c];
            a->output[(b * tq + i) * d_model + c] = kept && !kept[i] ? 0 : (float)(s->projected ? sum : r->joined[c]);
        }
    }
}

void reference_forward(const struct problem *p, struct answer *a)
{
    const struct attention_shape *s = &p->shape;
    struct problem memory = {0};
    struct reference r = {
        .q = problem_take(&memory, p->input.query_length * s->num_heads * s->d_k * sizeof(double)),
        .k = problem_take(&memory, p->input.key_length * s->num_kv_heads * s->d_k * sizeof(double)),
        .v = problem_take(&memory, p->input.key_length * s->num_kv_heads * s->d_v * sizeof(double)),
        .weights = problem_take(&memory, p->input.key_length * sizeof(double)),
        .z = problem_take(&memory, s->d_v * sizeof(double)),
        .joined = problem_take(&memory, s->num_heads * s->d_v * sizeof(double)),
    };
    a->fully_masked_rows = 0;
    for (size_t b = 0; b < p->input.batch; b++)
        reference_sequence(p, &r, b, a);
    problem_free(&memory);
}
