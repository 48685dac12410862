#include "problem.h"

#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_bits(struct random *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t random_size(struct random *random, size_t low, size_t high)
{
    return low + random_bits(random) % (high - low + 1);
}

static double random_unit(struct random *random)
{
    return ((double)(random_bits(random) >> 11) + 0.5) * 0x1p-53;
}

bool random_chance(struct random *random, double probability)
{
    return random_unit(random) < probability;
}

double random_normal(struct random *random)
{
    const double radius = sqrt(-2 * log(random_unit(random)));
    return radius * cos(6.283185307179586 * random_unit(random));
}

void *problem_take(struct problem *problem, size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_lt(problem->n_memory, sizeof problem->memory / sizeof *problem->memory);
    problem->memory[problem->n_memory++] = memory;
    return memory;
}

static float *random_tensor(struct random *random, struct problem *owner, size_t count, double deviation)
{
    float *tensor = problem_take(owner, count * sizeof *tensor);
    for (size_t i = 0; i < count; i++)
        tensor[i] = (float)(random_normal(random) * deviation);
    return tensor;
}

struct attention_shape random_shape(struct random *random, const struct problem_limits *limits)
{
    struct attention_shape shape = {.projected = random_chance(random, 0.75)};
    shape.num_kv_heads = random_size(random, 1, limits->heads);
    shape.num_heads = shape.num_kv_heads;
    shape.d_k = random_size(random, 1, limits->d_k);
    shape.d_v = random_size(random, 1, limits->d_v);
    shape.d_model = random_size(random, 1, limits->d_model);
    if (!shape.projected) {
        shape.d_v = shape.d_k;
        shape.d_model = shape.num_heads * shape.d_k;
    } else if (random_chance(random, 0.3)) {
        shape.num_heads *= random_size(random, 2, 3);
    }
    shape.scale = random_chance(random, 0.8) ? 1 / sqrtf((float)shape.d_k) : 0.3f;
    return shape;
}

struct attention_matrices random_matrices(struct random *random, const struct attention_shape *s, struct problem *owner)
{
    struct attention_matrices m = {0};
    if (!s->projected)
        return m;
    const size_t q = s->num_heads * s->d_k, k = s->num_kv_heads * s->d_k, v = s->num_kv_heads * s->d_v,
                 o = s->num_heads * s->d_v;
    const double gain = 1 / sqrt((double)s->d_model);
    m.w_q = random_tensor(random, owner, s->d_model * q, gain);
    m.w_k = random_tensor(random, owner, s->d_model * k, gain);
    m.w_v = random_tensor(random, owner, s->d_model * v, gain);
    m.w_o = random_tensor(random, owner, o * s->d_model, 1 / sqrt((double)o));
    m.b_q = random_chance(random, 0.5) ? random_tensor(random, owner, q, 0.5) : NULL;
    m.b_k = random_chance(random, 0.5) ? random_tensor(random, owner, k, 0.5) : NULL;
    m.b_v = random_chance(random, 0.5) ? random_tensor(random, owner, v, 0.5) : NULL;
    m.b_o = random_chance(random, 0.5) ? random_tensor(random, owner, s->d_model, 0.5) : NULL;
    return m;
}

/* Padding on the right, on the left, in holes, or everywhere. */
static void fill_padding(struct random *random, uint8_t *mask, size_t length)
{
    const size_t kind = random_size(random, 0, 9), kept = random_size(random, 1, length);
    for (size_t i = 0; i < length; i++)
        mask[i] = kind < 3 ? i < kept : kind < 6 ? i >= length - kept : kind < 9 ? random_chance(random, 0.6) : 0;
}

static void random_mask(struct random *random, struct problem *p)
{
    struct forward_input *in = &p->input;
    in->mask_kind = (enum forward_mask)random_size(random, FORWARD_MASK_NONE, FORWARD_MASK_PAIRS);
    if (in->mask_kind == FORWARD_MASK_KEYS) {
        uint8_t *mask = problem_take(p, in->batch * in->key_length);
        for (size_t b = 0; b < in->batch; b++)
            fill_padding(random, mask + b * in->key_length, in->key_length);
        in->mask = mask;
    } else if (in->mask_kind == FORWARD_MASK_PAIRS) {
        uint8_t *mask = problem_take(p, in->batch * in->query_length * in->key_length);
        for (size_t row = 0; row < in->batch * in->query_length; row++)
            fill_padding(random, mask + row * in->key_length, in->key_length);
        in->mask = mask;
    }
}

struct problem problem_create(struct random *random, const struct attention_shape *shape,
                              const struct attention_matrices *matrices, const struct problem_limits *limits)
{
    struct problem p = {.shape = *shape, .n_maps = shape->num_heads};
    p.matrices = matrices ? *matrices : random_matrices(random, shape, &p);
    struct forward_input *in = &p.input;
    in->batch = random_size(random, 1, limits->batch);
    in->rank2 = in->batch == 1 && random_chance(random, 0.3);
    in->query_length = in->key_length = random_size(random, 1, limits->length);
    in->self_attention = random_chance(random, 0.5);
    in->causal = random_chance(random, 0.3);
    if (!in->self_attention)
        in->key_length = random_size(random, 1, limits->length);
    in->query = random_tensor(random, &p, in->batch * in->query_length * shape->d_model, 1);
    in->key = in->value = in->query;
    if (!in->self_attention) {
        in->key = in->value = random_tensor(random, &p, in->batch * in->key_length * shape->d_model, 1);
        if (random_chance(random, 0.5))
            in->value = random_tensor(random, &p, in->batch * in->key_length * shape->d_model, 1);
    }
    random_mask(random, &p);
    if (random_chance(random, 0.4)) {
        in->bias_per_sequence = random_chance(random, 0.5);
        in->bias = random_tensor(
            random, &p, (in->bias_per_sequence ? in->batch : 1) * shape->num_heads * in->query_length * in->key_length,
            1);
    }
    if (random_chance(random, 0.4)) {
        float *head_mask = random_tensor(random, &p, shape->num_heads, 1);
        for (size_t h = 0; h < shape->num_heads; h++)
            if (random_chance(random, 0.3))
                head_mask[h] = 0;
        in->head_mask = head_mask;
    }
    if (random_chance(random, 0.3)) {
        p.n_maps = random_size(random, 0, shape->num_heads);
        p.include_heads = problem_take(&p, p.n_maps * sizeof *p.include_heads);
        for (size_t m = 0; m < p.n_maps; m++)
            p.include_heads[m] = (uint32_t)random_size(random, 0, shape->num_heads - 1);
    }
    return p;
}

void problem_free(struct problem *problem)
{
    for (size_t i = 0; i < problem->n_memory; i++)
        free(problem->memory[i]);
    *problem = (struct problem){0};
}

struct answer_sizes answer_sizes(const struct problem *p)
{
    const struct attention_shape *s = &p->shape;
    const struct forward_input *in = &p->input;
    const size_t queries = in->batch * in->query_length, keys = in->batch * in->key_length;
    return (struct answer_sizes){{queries * s->d_model, p->n_maps * queries * in->key_length,
                                  p->n_maps * queries * s->d_v, s->num_heads * queries * s->d_k,
                                  s->num_heads * keys * s->d_k, s->num_heads * keys * s->d_v}};
}

struct answer answer_create(const struct problem *problem)
{
    const struct answer_sizes sizes = answer_sizes(problem);
    float *tensors[6];
    for (size_t t = 0; t < 6; t++) {
        tensors[t] = malloc((sizes.n[t] + 1) * sizeof(float));
        ck_assert_ptr_nonnull(tensors[t]);
        for (size_t i = 0; i <= sizes.n[t]; i++)
            tensors[t][i] = -1.2345e33f;
    }
    return (struct answer){tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5], SIZE_MAX};
}

void answer_free(struct answer *a)
{
    float *const tensors[6] = {a->output, a->attention, a->heads, a->query, a->key, a->value};
    for (size_t t = 0; t < 6; t++)
        free(tensors[t]);
    *a = (struct answer){0};
}

struct forward_result answer_result(const struct problem *p, const struct answer *a)
{
    return (struct forward_result){a->output, a->attention,     a->heads,  a->query, a->key,
                                   a->value,  p->include_heads, p->n_maps, SIZE_MAX};
}

double worst_error(const float *a, const float *b, size_t count, double tolerance)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(a[i]) && isnan(b[i]))
            continue;
        const double error = fabs((double)a[i] - (double)b[i]) / (tolerance + tolerance * fabs((double)b[i]));
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

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

static bool reference_allows(const struct forward_input *in, size_t b, size_t i, size_t j)
{
    if (in->causal && j + in->query_length > i + in->key_length)
        return false;
    if (in->mask_kind == FORWARD_MASK_KEYS)
        return in->mask[b * in->key_length + j];
    return in->mask_kind == FORWARD_MASK_NONE || in->mask[(b * in->query_length + i) * in->key_length + j];
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
        r->weights[j] = reference_allows(in, b, i, j) ? score : -INFINITY;
        top = fmax(top, r->weights[j]);
    }
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

void run_problem(const struct attention_layer *layer, const struct problem *problem, const struct parallel *parallel,
                 struct answer *answer)
{
    const struct forward_input *inputs[1] = {&problem->input};
    struct forward_result result = answer_result(problem, answer), *results[1] = {&result};
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    ck_assert(forward_scratch_bytes(&problem->shape, inputs, 1, parallel->lanes, &bytes));
    ck_assert(arena_reserve(&arena, bytes));
    arena.capacity = bytes; /* not a byte more than was asked for */
    ck_assert_msg(forward_run(layer, inputs, results, 1, parallel, &arena, &error), "%s", error.message);
    answer->fully_masked_rows = result.fully_masked_rows;
    arena_free(&arena);
}
