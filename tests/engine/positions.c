/* Positions by their definition: see positions.h. Shares nothing with the engine. */

#include "positions.h"

#include "pattern_definition.h"

#include <math.h>
#include <string.h>

static float *random_table(struct random *random, struct problem *owner, size_t rows, size_t columns)
{
    float *table = problem_take(owner, rows * columns * sizeof *table);
    for (size_t i = 0; i < rows * columns; i++)
        table[i] = (float)random_normal(random);
    return table;
}

static void random_rope(struct random *random, struct position_rule *rule, const struct attention_shape *shape,
                        struct problem *owner)
{
    if (random_chance(random, 0.5) || shape->d_k % 2)
        rule->dims = 2 * random_size(random, 1, shape->d_k / 2);
    const size_t pairs = (rule->dims ? rule->dims : shape->d_k) / 2;
    rule->interleaved = random_chance(random, 0.5);
    rule->scaling = (enum rope_scaling)random_size(random, ROPE_UNSCALED, ROPE_LLAMA3);
    rule->factor = 8;
    rule->low_freq_factor = 1;
    rule->high_freq_factor = 4;
    rule->original_max_positions = 64;
    if (random_chance(random, 0.2)) {
        float *frequencies = problem_take(owner, pairs * sizeof *frequencies);
        for (size_t i = 0; i < pairs; i++)
            frequencies[i] = (float)fabs(random_normal(random));
        rule->frequencies = frequencies;
    }
}

struct attention_rules *random_positions(struct random *random, enum position_kind kind,
                                         const struct attention_shape *shape, size_t most_position,
                                         struct problem *owner)
{
    struct attention_rules *rules = problem_take(owner, sizeof *rules);
    struct position_rule *rule = &rules->position;
    rules->num_layers = 1;
    rule->kind = kind;
    rule->base = random_chance(random, 0.5) ? 10000 : 300;
    if (kind == POSITION_ROPE)
        random_rope(random, rule, shape, owner);
    if (kind == POSITION_LEARNED) {
        rule->offset = random_size(random, 0, 3) + most_position; /* under causal order positions may be below 0 */
        rule->table_rows = rule->offset + most_position + 1;
        rule->table = random_table(random, owner, rule->table_rows, shape->d_model);
    }
    if (kind == POSITION_T5) {
        rule->bidirectional = random_chance(random, 0.5);
        rule->table_rows = rule->bidirectional ? 2 * random_size(random, 2, 16) : random_size(random, 2, 32);
        rule->max_distance = rule->table_rows / 2 + random_size(random, 1, 60);
        rule->table = random_table(random, owner, rule->table_rows, shape->num_heads);
    }
    if (kind == POSITION_RELATIVE) {
        rule->table_rows = 2 * random_size(random, 0, 40) + 1;
        rule->table = random_table(random, owner, rule->table_rows, shape->num_heads);
    }
    return rules;
}

void random_position_ids(struct random *random, struct problem *p, uint32_t end)
{
    struct forward_input *in = &p->input;
    if (!in->self_attention)
        return;
    in->positions_per_sequence = random_chance(random, 0.5);
    const size_t count = (in->positions_per_sequence ? in->batch : 1) * in->query_length;
    uint32_t *ids = problem_take(p, count * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)random_size(random, 0, end - 1);
    in->position_ids = ids;
}

/* Where a row stands; biases do not go by position_ids. */
static double position_of(const struct forward_input *in, size_t sequence, bool keys, size_t row, bool ids)
{
    if (ids && in->position_ids)
        return in->position_ids[(in->positions_per_sequence ? sequence * in->query_length : 0) + row];
    return (double)row + (in->causal && !keys ? (double)in->key_length - (double)in->query_length : 0);
}

static double bucket_of(double n, double num_buckets, double max_distance, bool bidirectional)
{
    double start = 0;
    if (bidirectional) {
        num_buckets /= 2;
        start = n > 0 ? num_buckets : 0;
        n = fabs(n);
    } else {
        n = n > 0 ? 0 : -n;
    }
    const double exact = floor(num_buckets / 2);
    if (n < exact)
        return start + n;
    const double far = exact + floor(log(n / exact) / log(max_distance / exact) * (num_buckets - exact) + 1e-6);
    return start + (far < num_buckets - 1 ? far : num_buckets - 1);
}

double position_bias(const struct position_rule *rule, size_t num_heads, size_t head, int64_t n)
{
    if (rule->kind == POSITION_ALIBI) {
        double power = 1;
        while (power * 2 <= (double)num_heads)
            power *= 2;
        /* The slopes of twice as many heads, of which every other one is new. */
        const double exponent = (double)head < power ? -8 * ((double)head + 1) / power
                                                     : -8 * (2 * ((double)head - power) + 1) / (2 * power);
        return -pow(2, exponent) * fabs((double)n);
    }
    double row;
    if (rule->kind == POSITION_T5) {
        row = bucket_of((double)n, (double)rule->table_rows, (double)rule->max_distance, rule->bidirectional);
    } else {
        const double most = ((double)rule->table_rows - 1) / 2;
        row = fmin(fmax((double)n, -most), most) + most;
    }
    return (double)rule->table[(size_t)row * num_heads + head];
}

/* [B, H, Tq, Tk], with the problem's own. */
static void make_biases(struct problem *made, const struct problem *p, struct problem *owner)
{
    struct forward_input *in = &made->input;
    const size_t heads = p->shape.num_heads, tq = in->query_length, tk = in->key_length;
    float *biases = problem_take(owner, in->batch * heads * tq * tk * sizeof *biases);
    for (size_t b = 0; b < in->batch; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < tq; i++)
                for (size_t j = 0; j < tk; j++) {
                    const int64_t n = (int64_t)j - (int64_t)position_of(in, b, false, i, false);
                    const size_t own = (((in->bias_per_sequence ? b * heads : 0) + h) * tq + i) * tk + j;
                    const double bias =
                        (in->bias ? (double)in->bias[own] : 0) + position_bias(&p->input.rules->position, heads, h, n);
                    biases[((b * heads + h) * tq + i) * tk + j] = (float)bias;
                }
    in->bias = biases;
    in->bias_per_sequence = true;
}

static const float *with_added(const struct problem *p, const float *x, bool keys, struct problem *owner)
{
    const struct forward_input *in = &p->input;
    const struct position_rule *rule = &in->rules->position;
    const size_t length = keys ? in->key_length : in->query_length, d_model = p->shape.d_model;
    float *sum = problem_take(owner, in->batch * length * d_model * sizeof *sum);
    for (size_t b = 0; b < in->batch; b++)
        for (size_t i = 0; i < length; i++)
            for (size_t c = 0; c < d_model; c++) {
                const size_t at = (b * length + i) * d_model + c;
                const double t = position_of(in, b, keys, i, true);
                const double angle = t * pow(rule->base, -(double)(c - c % 2) / (double)d_model);
                const double added = rule->kind == POSITION_SINUSOIDAL
                                         ? (c % 2 ? cos(angle) : sin(angle))
                                         : (double)rule->table[((size_t)(int64_t)t + rule->offset) * d_model + c];
                sum[at] = (float)((double)x[at] + added);
            }
    return sum;
}

static double frequency_of(const struct position_rule *rule, double i, double dims)
{
    if (rule->frequencies)
        return (double)rule->frequencies[(size_t)i];
    const double f = pow(rule->base, -2 * i / dims);
    if (rule->scaling == ROPE_LINEAR)
        return f / rule->factor;
    if (rule->scaling == ROPE_UNSCALED)
        return f;
    double g = (rule->original_max_positions * f / (2 * acos(-1)) - rule->low_freq_factor) /
               (rule->high_freq_factor - rule->low_freq_factor);
    g = g < 0 ? 0 : g > 1 ? 1 : g;
    return g * f + (1 - g) * f / rule->factor;
}

static void turn(const struct problem *p, size_t sequence, bool keys, size_t row, size_t heads, double *x)
{
    const struct position_rule *rule = &p->input.rules->position;
    const size_t d_k = p->shape.d_k, dims = rule->dims ? rule->dims : d_k;
    const double t = position_of(&p->input, sequence, keys, row, true);
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < dims / 2; i++) {
            const double angle = t * frequency_of(rule, (double)i, (double)dims);
            double *a = x + h * d_k + (rule->interleaved ? 2 * i : i), *b = a + (rule->interleaved ? 1 : dims / 2);
            const double turned = *a * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + *a * sin(angle);
            *a = turned;
        }
}

struct problem without_positions(const struct problem *p, struct problem *owner)
{
    struct problem made = *p;
    struct forward_input *in = &made.input;
    switch (in->rules->position.kind) {
    case POSITION_SINUSOIDAL:
    case POSITION_LEARNED:
        in->query = with_added(p, p->input.query, false, owner);
        in->key = in->value = in->query;
        if (!in->self_attention) {
            in->key = in->value = with_added(p, p->input.key, true, owner);
            if (p->input.value != p->input.key)
                in->value = with_added(p, p->input.value, true, owner);
        }
        break;
    case POSITION_ROPE:
        made.turn = turn;
        return made; /* and the reference looks at the rule */
    case POSITION_ALIBI:
    case POSITION_T5:
    case POSITION_RELATIVE:
        make_biases(&made, p, owner);
        break;
    default:
        break;
    }
    in->rules = NULL;
    return made;
}

void define_pattern(struct problem *p)
{
    const struct attention_rules *rules = p->input.rules;
    const size_t tq = p->input.query_length, tk = p->input.key_length;
    uint8_t *pattern = problem_take(p, tq * tk);
    bool *seen = problem_take(p, tk * sizeof *seen);
    p->top_k = rules->pattern.kind == PATTERN_TOP_K ? rules->pattern.k : 0;
    for (size_t i = 0; i < tq; i++) {
        pattern_definition(&rules->pattern, rules->layer, (ptrdiff_t)position_of(&p->input, 0, false, i, false), tk,
                           seen);
        for (size_t j = 0; j < tk; j++)
            pattern[i * tk + j] = seen[j];
    }
    p->pattern = pattern;
}
