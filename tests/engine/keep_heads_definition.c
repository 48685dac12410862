#include "keep_heads_definition.h"

#include <math.h>
#include <string.h>

struct problem one_sequence(const struct problem *p, size_t b)
{
    struct problem one = *p;
    struct forward_input *in = &one.input;
    const size_t d_model = p->shape.d_model;
    in->batch = 1;
    in->query += b * in->query_length * d_model;
    in->key += b * in->key_length * d_model;
    in->value += b * in->key_length * d_model;
    if (in->mask)
        in->mask += b * (in->mask_kind == FORWARD_MASK_KEYS ? 1 : in->query_length) * in->key_length;
    if (in->bias && in->bias_per_sequence)
        in->bias += b * p->shape.num_heads * in->query_length * in->key_length;
    if (in->position_ids && in->positions_per_sequence)
        in->position_ids += b * in->query_length;
    one.include_heads = NULL;
    one.n_maps = p->shape.num_heads;
    return one;
}

/* The keys that masks, causal order and the pattern leave to row i; 0 for padding. */
static size_t keys_of_row(const struct problem *one, size_t i)
{
    const struct forward_input *in = &one->input;
    size_t n = 0;
    if (in->self_attention && in->mask_kind == FORWARD_MASK_KEYS && !in->mask[i])
        return 0;
    for (size_t j = 0; j < in->key_length; j++) {
        const uint8_t *mask = in->mask_kind == FORWARD_MASK_KEYS ? in->mask : in->mask + i * in->key_length;
        n += (!in->causal || j + in->query_length <= i + in->key_length) &&
             (in->mask_kind == FORWARD_MASK_NONE || mask[j]) && one->pattern[i * in->key_length + j];
    }
    return n;
}

/* What head h adds to row i of the output, [d_model]. */
static void contribution(const struct problem *one, const struct answer *a, size_t h, size_t i, double *c)
{
    const struct attention_shape *s = &one->shape;
    const double gate = one->input.head_mask ? (double)one->input.head_mask[h] : 1;
    const float *z = a->heads + (h * one->input.query_length + i) * s->d_v;
    memset(c, 0, s->d_model * sizeof *c);
    for (size_t d = 0; d < s->d_v; d++)
        for (size_t column = 0; column < s->d_model; column++)
            c[column] += gate * (double)z[d] *
                         (s->projected ? (double)one->matrices.w_o[(h * s->d_v + d) * s->d_model + column]
                                       : column == h * s->d_v + d);
}

static double norm_of(const double *x, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += x[i] * x[i];
    return sqrt(square);
}

/* In nats. */
static double entropy_of(const float *map, size_t count)
{
    double entropy = 0;
    for (size_t j = 0; j < count; j++)
        if (map[j] > 0)
            entropy -= (double)map[j] * log((double)map[j]);
    return entropy;
}

/* No fmax of the numbers as double: gcc 12 for aarch64 fails with an internal error where it vectorizes that. */
static double largest_of(const float *map, size_t count)
{
    float largest = 0;
    for (size_t j = 0; j < count; j++)
        if (map[j] > largest)
            largest = map[j];
    return (double)largest;
}

/* How long what head h adds to row i of the output is, and how long the sum over all heads is. */
static void lengths_of(const struct problem *one, const struct answer *a, size_t h, size_t i, double *head, double *all)
{
    const size_t d_model = one->shape.d_model;
    double c[512], y[512] = {0};
    for (size_t g = 0; g < one->shape.num_heads; g++) {
        contribution(one, a, g, i, c);
        for (size_t column = 0; column < d_model; column++)
            y[column] += c[column];
        if (g == h)
            *head = norm_of(c, d_model);
    }
    *all = norm_of(y, d_model);
}

/* The value of one row; false: the row does not count. */
static bool row_value(const struct problem *one, const struct answer *a, size_t h, size_t i, double *value)
{
    const struct keep_heads_rule *rule = &one->input.rules->keep_heads;
    const size_t tk = one->input.key_length, n_keys = keys_of_row(one, i);
    const float *map = a->attention + (h * one->input.query_length + i) * tk; /* [Tk] */
    double head = 0, all = 0;
    if (rule->kind == KEEP_ENTROPY_BELOW) {
        *value = entropy_of(map, tk) / log((double)n_keys);
        return n_keys > 1;
    }
    if (rule->by == KEEP_BY_CONFIDENCE) {
        *value = largest_of(map, tk);
        return n_keys > 0;
    }
    lengths_of(one, a, h, i, &head, &all);
    *value = head / all;
    return n_keys > 0 && all > 0;
}

void keep_heads_values(const struct problem *one, const struct answer *a, double *values)
{
    for (size_t h = 0; h < one->shape.num_heads; h++) {
        double sum = 0, value;
        size_t n = 0;
        for (size_t i = 0; i < one->input.query_length; i++)
            if (row_value(one, a, h, i, &value)) {
                sum += value;
                n++;
            }
        values[h] = n ? sum / (double)n : 0;
    }
}

/* By rank: how many are better, or as good and before. */
double keep_heads_choice(const struct keep_heads_rule *rule, const double *values, size_t n, uint8_t *used)
{
    double total = 0, margin = INFINITY;
    for (size_t h = 0; h < n; h++)
        total += values[h];
    for (size_t h = 0; h < n; h++) {
        double better = 0;
        size_t rank = 0;
        for (size_t g = 0; g < n; g++) {
            const bool ahead = rule->kind == KEEP_ENTROPY_BELOW
                                   ? values[g] < values[h] || (values[g] == values[h] && g < h)
                                   : values[g] > values[h] || (values[g] == values[h] && g < h);
            better += ahead ? values[g] : 0;
            rank += ahead;
            if (g != h && rule->by != KEEP_BY_IMPORTANCE && values[g] + values[h] > 0)
                margin = fmin(margin, fabs(values[g] - values[h]) / (values[g] + values[h]));
        }
        switch (rule->kind) {
        case KEEP_COUNT:
            used[h] = rank < rule->count;
            break;
        case KEEP_MASS:
            used[h] = !(total > 0) || rank == 0 || better / total < rule->mass - 1e-6;
            if (total > 0)
                margin = fmin(margin, fabs(better / total - (rule->mass - 1e-6)));
            break;
        default:
            used[h] = rank == 0 || values[h] <= rule->entropy_below;
            margin = fmin(margin, fabs(values[h] - rule->entropy_below));
        }
    }
    return margin;
}
