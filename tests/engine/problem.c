#include "problem.h"

#include "require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void *problem_take(struct problem *problem, size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    require(memory, "no memory for %zu bytes", bytes);
    require(problem->n_memory < sizeof problem->memory / sizeof *problem->memory, "a problem has too many parts");
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
    return (struct answer_sizes){{queries * s->d_model, p->n_maps * queries * forward_map_columns(in),
                                  p->n_maps * queries * s->d_v, s->num_heads * queries * s->d_k,
                                  s->num_heads * keys * s->d_k, s->num_heads * keys * s->d_v}};
}

struct answer answer_create(const struct problem *problem)
{
    const struct answer_sizes sizes = answer_sizes(problem);
    float *tensors[6];
    for (size_t t = 0; t < 6; t++) {
        tensors[t] = malloc((sizes.n[t] + 1) * sizeof(float));
        require(tensors[t], "no memory for %zu numbers", sizes.n[t]);
        for (size_t i = 0; i <= sizes.n[t]; i++)
            tensors[t][i] = ANSWER_UNWRITTEN;
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
    return (struct forward_result){
        .output = a->output,
        .attention = a->attention,
        .heads = a->heads,
        .query = a->query,
        .key = a->key,
        .value = a->value,
        .include_heads = p->include_heads,
        .n_maps = p->n_maps,
        .fully_masked_rows = SIZE_MAX,
    };
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

void run_problem(const struct attention_layer *layer, const struct problem *problem, const struct parallel *parallel,
                 struct answer *answer)
{
    const struct forward_input *inputs[1] = {&problem->input};
    struct forward_result result = answer_result(problem, answer), *results[1] = {&result};
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    require(forward_scratch_bytes(&problem->shape, inputs, 1, parallel->lanes, &bytes), "the size overflows");
    require(arena_reserve(&arena, bytes), "no memory for %zu bytes", bytes);
    arena.capacity = bytes; /* not a byte more than was asked for */
    require(forward_run(layer, inputs, results, 1, parallel, &arena, &error), "%s", error.message);
    answer->fully_masked_rows = result.fully_masked_rows;
    arena_free(&arena);
}

void run_inputs(const struct attention_layer *layer, const struct forward_input *const *inputs,
                struct forward_result *const *results, size_t count, const struct parallel *parallel)
{
    struct arena arena = {0};
    struct error error = {0};
    size_t bytes;
    require(forward_scratch_bytes(attention_layer_shape(layer), inputs, count, parallel->lanes, &bytes),
            "the size overflows");
    require(arena_reserve(&arena, bytes), "no memory for %zu bytes", bytes);
    arena.capacity = bytes; /* not a byte more than was asked for */
    memset(arena.base, 0xFF, bytes);
    require(forward_run(layer, inputs, results, count, parallel, &arena, &error), "%s", error.message);
    arena_free(&arena);
}
