#include "model_problem.h"

#include "engine/packed_matrix.h"
#include "pattern_definition.h"
#include "positions.h"
#include "require.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens that tables of positions have rows for. */
enum { MOST_POSITIONS = 1200 };

static bool coin(struct random *random)
{
    return random_chance(random, 0.5);
}

/* ---- the model */

static struct norm_shape random_norm(struct random *random)
{
    static const float eps[] = {1e-5f, 1e-12f, 1e-2f};
    return (struct norm_shape){(enum norm_kind)random_size(random, NORM_NONE, NORM_RMS), coin(random),
                               eps[random_size(random, 0, 2)]};
}

static void random_own_rules(struct random *random, struct model_problem *m, struct layer_shape *layer)
{
    layer->own_causal = random_chance(random, 0.4);
    layer->causal = coin(random);
    if (random_chance(random, 0.3)) {
        enum position_kind kind = (enum position_kind)random_size(random, POSITION_NONE, POSITION_KIND_COUNT - 1);
        if (kind == POSITION_SINUSOIDAL || kind == POSITION_LEARNED || m->shape.attention.d_k < 2)
            kind = POSITION_ALIBI; /* those are no layer's */
        layer->own_position = true;
        layer->position = random_positions(random, kind, &m->shape.attention, MOST_POSITIONS, &m->owner)->position;
    }
    if (random_chance(random, 0.3)) {
        layer->own_pattern = true;
        layer->pattern = random_pattern(random, (enum pattern_kind)random_size(random, 0, PATTERN_KIND_COUNT - 1), 24);
        layer->pattern.k = random_size(random, 1, 20);
    }
}

static struct layer_shape random_layer(struct random *random, struct model_problem *m,
                                       const struct model_limits *limits)
{
    struct layer_shape layer = {
        .bias_q = coin(random),
        .bias_k = coin(random),
        .bias_v = coin(random),
        .bias_o = coin(random),
        .scale = coin(random) ? 1 / sqrtf((float)m->shape.attention.d_k) : 0.2f,
        .placement = coin(random) ? PLACEMENT_PRE : PLACEMENT_POST,
        .residual = random_chance(random, 0.7),
        .norm1 = random_norm(random),
        .norm2 = random_norm(random),
        .ffn = {.kind = (enum ffn_kind)random_size(random, FFN_NONE, FFN_KIND_COUNT - 1),
                .d_ff = random_size(random, 1, limits->d_ff),
                .bias_1 = coin(random),
                .bias_gate = coin(random),
                .bias_2 = coin(random)},
    };
    random_own_rules(random, m, &layer);
    return layer;
}

static struct embeddings_shape random_embeddings(struct random *random, size_t d_model)
{
    struct embeddings_shape e = {.present = random_chance(random, 0.7), .width = d_model, .scale = 1};
    if (!e.present)
        return (struct embeddings_shape){0};
    if (random_chance(random, 0.2)) {
        e.channels = random_size(random, 1, 3);
        e.patch_size = random_size(random, 1, 5);
        e.image_size = e.patch_size * random_size(random, 1, 4);
        e.positions = 17;
        return e;
    }
    e.projection = coin(random);
    e.projection_bias = coin(random);
    if (e.projection)
        e.width = random_size(random, 3, 30);
    e.vocabulary = random_size(random, 4, 30);
    e.position_offset = random_size(random, 0, 3);
    e.positions = random_chance(random, 0.7) ? MOST_POSITIONS + 5 : 0;
    e.types = coin(random) ? random_size(random, 1, 3) : 0;
    e.scale = coin(random) ? 1 : 2.5f;
    e.count_padding_id = coin(random);
    e.padding_id = (uint32_t)random_size(random, 0, 2);
    e.token_dropout = random_chance(random, 0.3);
    e.mask_token = (uint32_t)random_size(random, 0, e.vocabulary - 1);
    e.norm = random_norm(random);
    return e;
}

static void random_model_shape(struct random *random, struct model_problem *m, const struct model_limits *limits)
{
    struct attention_shape *a = &m->shape.attention;
    a->projected = true;
    a->d_model = random_size(random, 4, limits->d_model);
    a->num_kv_heads = random_size(random, 1, limits->heads);
    a->num_heads = a->num_kv_heads * (coin(random) ? 1 : random_size(random, 2, 3));
    a->d_k = random_size(random, 1, limits->d_k);
    a->d_v = random_size(random, 1, limits->d_k);
    m->shape.num_layers = random_size(random, 1, limits->layers);
    m->shape.embeddings = random_embeddings(random, a->d_model);
    m->shape.final_norm = random_norm(random);
    m->shape.precision = random_chance(random, 0.3) ? PRECISION_BF16 : PRECISION_F32;
    struct layer_shape *layers = problem_take(&m->owner, m->shape.num_layers * sizeof *layers);
    for (size_t n = 0; n < m->shape.num_layers; n++)
        layers[n] = random_layer(random, m, limits);
    m->shape.layers = layers;
}

/* In pieces, by rows or by columns. */
static void put(struct random *random, struct model *model, struct tensor_slot slot, struct slot_extent extent,
                const float *tensor)
{
    if (!extent.matrix || coin(random)) {
        for (size_t row = 0, n; row < extent.rows; row += n) {
            n = random_size(random, 1, extent.rows - row);
            model_put_rows(model, slot, row, n, tensor + row * extent.columns, extent.columns);
        }
        return;
    }
    float *transpose = malloc(extent.rows * extent.columns * sizeof *transpose);
    require(transpose, "no memory");
    for (size_t i = 0; i < extent.rows; i++)
        for (size_t j = 0; j < extent.columns; j++)
            transpose[j * extent.rows + i] = tensor[i * extent.columns + j];
    for (size_t column = 0, n; column < extent.columns; column += n) {
        n = extent.columns - column < PACKED_COLUMNS ? extent.columns - column : PACKED_COLUMNS;
        model_put_columns(model, slot, column, n, transpose + column * extent.rows, extent.rows);
    }
    free(transpose);
}

static bool is_gain(size_t layer, unsigned slot)
{
    return layer == MODEL_ITSELF ? slot == SLOT_EMBEDDING_GAIN || slot == SLOT_FINAL_GAIN
                                 : slot == SLOT_NORM1_GAIN || slot == SLOT_NORM2_GAIN;
}

/* The nearest number of bfloat16, of two that are as near the even one; or, `between`, half way to the next. */
static float to_bf16(double x, bool between)
{
    int exponent;
    const double fraction = frexp(x, &exponent) * 256;
    return (float)ldexp(between ? floor(fraction) + 0.5 : rint(fraction), exponent - 8);
}

/* Whether a model of bfloat16 has the tensor in it. */
static bool is_narrowed(struct slot_extent extent, size_t layer, unsigned slot)
{
    return extent.matrix ||
           (layer == MODEL_ITSELF && (slot == SLOT_TOKEN || slot == SLOT_POSITION || slot == SLOT_TYPE));
}

static void fill_model(struct random *random, struct model_problem *m, bool bf16)
{
    const size_t num_layers = m->shape.num_layers;
    size_t count = 0;
    float *next = NULL;
    for (int filling = 0; filling < 2; filling++) {
        for (size_t i = 0; i < (num_layers + 1) * MODEL_SLOTS; i++) {
            const size_t layer = i / MODEL_SLOTS < num_layers ? i / MODEL_SLOTS : MODEL_ITSELF;
            const unsigned slot = i % MODEL_SLOTS;
            if (slot >= (layer == MODEL_ITSELF ? (unsigned)MODEL_SLOT_COUNT : (unsigned)LAYER_SLOT_COUNT))
                continue;
            const struct slot_extent extent = model_slot_extent(&m->shape, (struct tensor_slot){layer, slot});
            const size_t numbers = extent.rows * extent.columns;
            count += filling ? 0 : numbers;
            if (!filling || !numbers)
                continue;
            const double deviation = extent.matrix ? 1 / sqrt((double)extent.rows) : extent.rows > 1 ? 1 : 0.3;
            float *tensor = m->tensors[i] = next;
            next += numbers;
            for (size_t j = 0; j < numbers; j++)
                tensor[j] = (float)(is_gain(layer, slot) + random_normal(random) * deviation);
            for (size_t j = 0; j < numbers; j++)
                if (bf16 || random_chance(random, 0.1))
                    tensor[j] = to_bf16((double)tensor[j], !bf16);
            put(random, m->model, (struct tensor_slot){layer, slot}, extent, tensor);
            for (size_t j = 0; m->shape.precision == PRECISION_BF16 && is_narrowed(extent, layer, slot) && j < numbers;
                 j++)
                tensor[j] = to_bf16((double)tensor[j], false); /* what the model has made of it */
        }
        if (!filling)
            next = problem_take(&m->owner, count * sizeof *next);
    }
}

static void random_rules(struct random *random, struct model_problem *m, const struct model_limits *limits)
{
    const struct attention_shape *a = &m->shape.attention;
    m->ruled = limits->dropout || coin(random);
    m->rules = (struct attention_rules){0};
    if (!m->ruled)
        return;
    m->rules.position_given = random_chance(random, 0.4); /* else it is the model's own */
    if (m->rules.position_given || coin(random)) {
        enum position_kind kind = (enum position_kind)random_size(random, POSITION_NONE, POSITION_KIND_COUNT - 1);
        if (kind == POSITION_ROPE && a->d_k < 2)
            kind = POSITION_SINUSOIDAL;
        m->rules.position = random_positions(random, kind, a, MOST_POSITIONS, &m->owner)->position;
    }
    m->rules.pattern_given = random_chance(random, 0.4);
    if (m->rules.pattern_given || coin(random)) {
        m->rules.pattern =
            random_pattern(random, (enum pattern_kind)random_size(random, 0, PATTERN_KIND_COUNT - 1), 24);
        m->rules.pattern.k = random_size(random, 1, 20);
    }
    if (random_chance(random, 0.4)) {
        struct keep_heads_rule *keep = &m->rules.keep_heads;
        double *importance = problem_take(&m->owner, m->shape.num_layers * a->num_heads * sizeof *importance);
        keep->kind = (enum keep_heads_kind)random_size(random, KEEP_COUNT, KEEP_ENTROPY_BELOW);
        keep->by = (enum keep_heads_measure)random_size(random, KEEP_BY_NORM, KEEP_BY_IMPORTANCE);
        keep->count = random_size(random, 1, a->num_heads);
        keep->mass = 0.6;
        keep->entropy_below = 0.8;
        for (size_t i = 0; i < m->shape.num_layers * a->num_heads; i++)
            importance[i] = (double)random_size(random, 0, 9);
        keep->importance = keep->kind != KEEP_ENTROPY_BELOW && keep->by == KEEP_BY_IMPORTANCE ? importance : NULL;
    }
    if (limits->dropout)
        m->rules.dropout =
            (struct dropout_rule){random_size(random, 1, 4), coin(random) ? 0.1 : 0.5, random_bits(random) >> 11};
}

void model_problem_open(struct model_problem *m, struct random *random, const struct model_limits *limits)
{
    struct error error = {0};
    size_t bytes;
    *m = (struct model_problem){0};
    random_model_shape(random, m, limits);
    m->tensors = problem_take(&m->owner, (m->shape.num_layers + 1) * MODEL_SLOTS * sizeof *m->tensors);
    m->model = model_create(&m->shape, &error);
    require(m->model, "%s", error.message);
    require(model_shape_bytes(&m->shape, &bytes) && bytes <= model_bytes(m->model), "a model is larger than counted");
    fill_model(random, m, limits->bf16);
    m->embeds = m->shape.embeddings.present && random_chance(random, 0.7);
    random_rules(random, m, limits);
}

struct model *model_problem_copy(const struct model_problem *m, enum precision precision)
{
    struct model_shape shape = m->shape;
    struct error error = {0};
    struct random random = {1};
    shape.precision = precision;
    struct model *copy = model_create(&shape, &error);
    require(copy, "%s", error.message);
    for (size_t i = 0; i < (shape.num_layers + 1) * MODEL_SLOTS; i++) {
        const struct tensor_slot slot = {i / MODEL_SLOTS < shape.num_layers ? i / MODEL_SLOTS : MODEL_ITSELF,
                                         i % MODEL_SLOTS};
        if (m->tensors[i])
            put(&random, copy, slot, model_slot_extent(&shape, slot), m->tensors[i]);
    }
    return copy;
}

void model_problem_close(struct model_problem *m)
{
    model_free(m->model);
    problem_free(&m->owner);
}

const float *model_problem_tensor(const struct model_problem *m, size_t layer, unsigned slot)
{
    return m->tensors[(layer == MODEL_ITSELF ? m->shape.num_layers : layer) * MODEL_SLOTS + slot];
}

struct attention_matrices model_problem_matrices(const struct model_problem *m, size_t layer)
{
    return (struct attention_matrices){
        .w_q = model_problem_tensor(m, layer, SLOT_W_Q),
        .w_k = model_problem_tensor(m, layer, SLOT_W_K),
        .w_v = model_problem_tensor(m, layer, SLOT_W_V),
        .w_o = model_problem_tensor(m, layer, SLOT_W_O),
        .b_q = model_problem_tensor(m, layer, SLOT_B_Q),
        .b_k = model_problem_tensor(m, layer, SLOT_B_K),
        .b_v = model_problem_tensor(m, layer, SLOT_B_V),
        .b_o = model_problem_tensor(m, layer, SLOT_B_O),
    };
}
