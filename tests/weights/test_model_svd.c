/* Models of lower rank: every layer is what svd.c makes of that layer alone, by any number of threads and from either
 * precision; what is not made is the model's. */
#include "suite.h"

#include "engine/attention.h"
#include "weights/model_svd.h"
#include "weights/svd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 20, LAYERS = 2, HEADS = 4, D_K = 6, D_V = 5 };

static const struct layer_shape layers[LAYERS] = {
    {.bias_q = true,
     .bias_k = true,
     .bias_v = true,
     .bias_o = true,
     .scale = 0.4f,
     .ffn = {.kind = FFN_GELU, .d_ff = 24, .bias_1 = true}},
    {.bias_k = true, .scale = 0.5f, .ffn = {.kind = FFN_SWIGLU, .d_ff = 24}},
};

static struct model_shape shape_of(size_t num_kv_heads, enum precision precision)
{
    return (struct model_shape){
        .attention = {.d_model = D,
                      .num_heads = HEADS,
                      .num_kv_heads = num_kv_heads,
                      .d_k = D_K,
                      .d_v = D_V,
                      .scale = 0.4f,
                      .projected = true},
        .num_layers = LAYERS,
        .layers = layers,
        .precision = precision,
    };
}

/* Exact in bfloat16, where `exact`. */
static float number(uint64_t *state, bool exact)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return exact ? (float)((int)(*state >> 57) - 64) / 64 : (float)((double)(*state >> 11) * 0x1p-53 - 0.5);
}

static struct model *make_model(const struct model_shape *shape, bool exact)
{
    struct error error;
    uint64_t state = 7;
    struct model *model = model_create(shape, &error);
    ck_assert_ptr_nonnull(model);
    for (size_t n = 0; n < LAYERS; n++)
        for (unsigned slot = 0; slot < LAYER_SLOT_COUNT; slot++) {
            const struct slot_extent extent = model_slot_extent(shape, (struct tensor_slot){n, slot});
            float *tensor = calloc(extent.rows * extent.columns + 1, sizeof *tensor);
            for (size_t i = 0; i < extent.rows * extent.columns; i++)
                tensor[i] = number(&state, exact);
            if (extent.rows)
                model_put_rows(model, (struct tensor_slot){n, slot}, 0, extent.rows, tensor, extent.columns);
            free(tensor);
        }
    return model;
}

static float *get(const struct model *model, size_t n, unsigned slot, size_t *count)
{
    const struct slot_extent extent = model_slot_extent(model_shape_of(model), (struct tensor_slot){n, slot});
    *count = extent.rows * extent.columns;
    float *tensor = calloc(*count + 1, sizeof *tensor);
    ck_assert_ptr_nonnull(tensor);
    if (extent.rows)
        model_get(model, (struct tensor_slot){n, slot}, tensor);
    return tensor;
}

static void expect_same(const struct model *a, const struct model *b, size_t n, unsigned slot)
{
    size_t count, other;
    float *x = get(a, n, slot, &count), *y = get(b, n, slot, &other);
    ck_assert_uint_eq(count, other);
    ck_assert_msg(memcmp(x, y, count * sizeof *x) == 0, "layer %zu, tensor %u", n, slot);
    free(x);
    free(y);
}

/* What svd_layer_make gives for the layer alone. */
static void expect_layer(const struct model *model, const struct model *made, size_t n,
                         const struct low_rank_rule *rule)
{
    const struct model_shape *shape = model_shape_of(model);
    unsigned biases = 0;
    size_t count;
    for (unsigned kind = LAYER_B_Q; kind <= LAYER_B_O; kind++)
        if (model_slot_extent(shape, (struct tensor_slot){n, kind}).rows)
            biases |= 1U << kind;
    struct layer_tensors tensors = layer_tensors_describe(&shape->attention, biases), lower;
    struct attention_shape lower_shape;
    struct error error;
    ck_assert(layer_tensors_allocate(&tensors, &error));
    for (unsigned kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        float *tensor = get(model, n, kind, &count);
        if (count)
            memcpy(tensors.items[kind].data, tensor, count * sizeof *tensor);
        free(tensor);
    }
    ck_assert(svd_layer_make(&shape->attention, &tensors, rule, 1, &lower_shape, &lower, &error));
    ck_assert_mem_eq(&lower_shape, &model_shape_of(made)->attention, sizeof lower_shape);
    for (unsigned kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        const struct layer_tensor *expected = &lower.items[kind];
        float *tensor = get(made, n, kind, &count);
        ck_assert_uint_eq(count, expected->rows * expected->columns);
        if (count)
            ck_assert_msg(memcmp(tensor, expected->data, count * sizeof *tensor) == 0, "layer %zu, tensor %u", n, kind);
        free(tensor);
    }
    layer_tensors_free(&tensors);
    layer_tensors_free(&lower);
}

static const struct {
    size_t num_kv_heads, rank;
    bool values;
} CASES[] = {{4, 2, false}, {4, 3, true}, {2, 2, false}, {2, 6, true}, {1, 1, true}};

START_TEST(layers_of_lower_rank)
{
    const struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = CASES[_i].rank, .values = CASES[_i].values};
    const struct model_shape shape = shape_of(CASES[_i].num_kv_heads, PRECISION_F32);
    struct error error;
    size_t bytes, scratch;
    struct model *model = make_model(&shape, false), *made = model_svd_make(model, &rule, 3, &error);
    ck_assert_ptr_nonnull(made);
    for (size_t n = 0; n < LAYERS; n++) {
        expect_layer(model, made, n, &rule);
        ck_assert(model_shape_of(made)->layers[n].scale == layers[n].scale);
        for (unsigned slot = SLOT_W_1; slot < LAYER_SLOT_COUNT; slot++)
            expect_same(model, made, n, slot);
    }
    ck_assert(model_svd_need(&shape, &rule, 3, &bytes, &scratch, &error));
    ck_assert_uint_eq(bytes, model_bytes(made));
    ck_assert_uint_gt(scratch, 0);
    model_free(made);
    model_free(model);
}
END_TEST

/* Numbers that both hold exactly give the same factors: those are float32 in either. */
START_TEST(from_bfloat16)
{
    const struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = 2, .values = true};
    const struct model_shape shapes[] = {shape_of(2, PRECISION_F32), shape_of(2, PRECISION_BF16)};
    struct model *models[2], *made[2];
    struct error error;
    for (size_t i = 0; i < 2; i++) {
        models[i] = make_model(&shapes[i], true);
        made[i] = model_svd_make(models[i], &rule, 2, &error);
        ck_assert_ptr_nonnull(made[i]);
    }
    for (size_t n = 0; n < LAYERS; n++)
        for (unsigned slot = 0; slot < LAYER_SLOT_COUNT; slot++)
            expect_same(made[0], made[1], n, slot);
    for (size_t i = 0; i < 2; i++) {
        model_free(made[i]);
        model_free(models[i]);
    }
}
END_TEST

START_TEST(faults)
{
    struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = 7};
    const struct model_shape shape = shape_of(4, PRECISION_F32);
    struct model *model = make_model(&shape, false);
    struct error error;
    size_t bytes, scratch;
    ck_assert(!model_svd_make(model, &rule, 1, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/low_rank/rank");
    ck_assert(!model_svd_need(&shape, &rule, 1, &bytes, &scratch, &error));

    /* A factor that leaves float32 is found, and its layer is named. */
    float huge[D * HEADS * D_V], small[D * HEADS * D_V] = {0};
    for (size_t i = 0; i < D * HEADS * D_V; i++)
        huge[i] = 3e38f;
    rule = (struct low_rank_rule){.kind = LOW_RANK_SVD, .rank = 1, .values = true};
    model_put_rows(model, (struct tensor_slot){1, SLOT_W_V}, 0, D, huge, HEADS * D_V);
    model_put_rows(model, (struct tensor_slot){1, SLOT_W_O}, 0, HEADS * D_V, huge, D);
    ck_assert(!model_svd_make(model, &rule, 2, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_str_eq(error.pointer, "/low_rank");
    ck_assert_msg(strncmp(error.message, "layer 1: low_rank svd", 21) == 0, "%s", error.message);
    model_put_rows(model, (struct tensor_slot){1, SLOT_W_V}, 0, D, small, HEADS * D_V);
    struct model *made = model_svd_make(model, &rule, 2, &error);
    ck_assert_ptr_nonnull(made);
    model_free(made);
    model_free(model);
}
END_TEST

static void start(void)
{
    struct error error;
    if (!engine_init(NULL, &error))
        abort();
}

Suite *suite(void)
{
    Suite *s = suite_create("model_svd");
    TCase *c = tcase_create("model_svd");
    tcase_add_unchecked_fixture(c, start, NULL);
    tcase_add_loop_test(c, layers_of_lower_rank, 0, sizeof CASES / sizeof *CASES);
    tcase_add_test(c, from_bfloat16);
    tcase_add_test(c, faults);
    suite_add_tcase(s, c);
    return s;
}
