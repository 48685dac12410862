/* What a model gives back of its numbers, and models over another: with the numbers of the model below they have its
 * bits, whichever of their matrices are their own, and whatever its precision is. */

#include "engine/kernels/kernels.h"
#include "model_runner.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static const struct model_limits limits = {
    .layers = 3, .d_model = 70, .heads = 4, .d_k = 20, .d_ff = 60, .batch = 2, .length = 24, .bf16 = true};

static void check_got(const struct model_problem *m, const struct model *model)
{
    for (size_t i = 0; i < (m->shape.num_layers + 1) * MODEL_SLOTS; i++) {
        const struct tensor_slot slot = {i / MODEL_SLOTS < m->shape.num_layers ? i / MODEL_SLOTS : MODEL_ITSELF,
                                         i % MODEL_SLOTS};
        if (!m->tensors[i])
            continue;
        const struct slot_extent extent = model_slot_extent(&m->shape, slot);
        const size_t count = extent.rows * extent.columns;
        char name[SLOT_NAME_BYTES];
        float *got = malloc((count + 1) * sizeof *got);
        ck_assert_ptr_nonnull(got);
        got[count] = ANSWER_UNWRITTEN;
        model_get(model, slot, got);
        ck_assert_msg(memcmp(got, m->tensors[i], count * sizeof *got) == 0, "%s: %s, [%zu, %zu]", engine_isa(),
                      model_slot_name(slot, name), extent.rows, extent.columns);
        ck_assert(got[count] == ANSWER_UNWRITTEN);
        free(got);
    }
}

START_TEST(numbers_come_back)
{
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct random random = {seed};
        struct model_problem m;
        model_problem_open(&m, &random, &limits);
        for (unsigned precision = 0; precision < PRECISION_COUNT; precision++) {
            struct model *model = model_problem_copy(&m, (enum precision)precision);
            check_got(&m, model);
            model_free(model);
        }
        model_problem_close(&m);
    }
}
END_TEST

/* A tensor of keys or values [rows, num_kv_heads * width], with a copy for each head. */
static void put_per_head(struct model *over, struct tensor_slot slot, const float *tensor, size_t rows,
                         const struct attention_shape *a, size_t width)
{
    const size_t group = a->num_heads / a->num_kv_heads, columns = a->num_heads * width;
    float *wide = malloc(rows * columns * sizeof *wide);
    ck_assert_ptr_nonnull(wide);
    for (size_t i = 0; i < rows; i++)
        for (size_t head = 0; head < a->num_heads; head++)
            memcpy(wide + i * columns + head * width, tensor + i * a->num_kv_heads * width + head / group * width,
                   width * sizeof *wide);
    model_put_rows(over, slot, 0, rows, wide, columns);
    free(wide);
}

static void put_own(const struct model_problem *m, unsigned own, struct model *over)
{
    const struct attention_shape *a = &m->shape.attention;
    for (size_t n = 0; n < m->shape.num_layers; n++)
        for (unsigned kind = SLOT_W_Q; kind <= SLOT_B_O; kind++) {
            const unsigned matrix = kind < SLOT_B_Q ? kind : kind - SLOT_B_Q;
            const struct tensor_slot slot = {n, kind};
            const float *tensor = model_problem_tensor(m, n, kind);
            const struct slot_extent extent = model_slot_extent(&m->shape, slot);
            if (!tensor || !(own & 1U << matrix))
                continue;
            if (matrix == SLOT_W_K || matrix == SLOT_W_V)
                put_per_head(over, slot, tensor, extent.rows, a, matrix == SLOT_W_K ? a->d_k : a->d_v);
            else
                model_put_rows(over, slot, 0, extent.rows, tensor, extent.columns);
        }
}

static void check_runs(const struct model_problem *m, const struct model_problem *above, struct random *random)
{
    struct model_case c;
    model_case_open(&c, random, m, &limits);
    struct model_answer one = model_answer_create(m, &c), other = model_answer_create(m, &c);
    model_run_cases(m, &c, 1, NULL, &parallel_serial, &one);
    model_run_cases(above, &c, 1, NULL, &parallel_serial, &other);
    for (size_t t = 0; t < ANSWER_TENSORS; t++)
        ck_assert_msg(memcmp(one.tensors[t], other.tensors[t], (model_answer_size(m, &c, t) + 1) * sizeof(float)) == 0,
                      "%s: tensor %zu has other bits", engine_isa(), t);
    ck_assert_uint_eq(one.fully_masked_rows, other.fully_masked_rows);
    model_answer_free(&one);
    model_answer_free(&other);
    model_case_close(&c);
}

START_TEST(over_another)
{
    size_t compared = 0, grouped = 0;
    if (!choose_variant(_i))
        return;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct random random = {100 + seed};
        struct error error = {0};
        struct model_problem m;
        size_t bytes;
        model_problem_open(&m, &random, &limits);
        struct attention_shape lone = m.shape.attention;
        unsigned own = (unsigned)random_size(&random, 0, 15);
        if (lone.num_kv_heads < lone.num_heads)
            own |= 1U << SLOT_W_K | 1U << SLOT_W_V;
        lone.num_kv_heads = lone.num_heads;
        if (lone.projected) {
            struct model_problem below = m, above = m;
            below.model = model_problem_copy(&m, seed % 2 ? PRECISION_BF16 : PRECISION_F32);
            below.shape = *model_shape_of(below.model);
            above.model = model_create_over(below.model, &lone, own, &error);
            ck_assert_msg(above.model, "%s", error.message);
            above.shape = *model_shape_of(above.model);
            ck_assert(model_over_bytes(&below.shape, &lone, own, &bytes));
            ck_assert_uint_eq(model_bytes(above.model), bytes);
            put_own(&m, own, above.model);
            check_runs(&below, &above, &random);
            model_free(above.model);
            model_free(below.model);
            compared++;
            grouped += m.shape.attention.num_kv_heads < lone.num_heads;
        }
        model_problem_close(&m);
    }
    ck_assert_uint_gt(compared, 20);
    ck_assert_uint_gt(grouped, 5);
}
END_TEST

/* Nothing of the model below is there twice. */
START_TEST(takes_what_is_its_own)
{
    static const struct layer_shape layers[2] = {
        [0 ... 1] = {.scale = 1, .ffn = {.kind = FFN_GELU, .d_ff = 256}, .norm1 = {NORM_LAYER, true, 1e-5f}}};
    const struct model_shape shape = {
        .attention = {.d_model = 64, .num_heads = 4, .num_kv_heads = 4, .d_k = 16, .d_v = 16, .projected = true},
        .num_layers = 2,
        .layers = layers,
        .embeddings = {.present = true, .vocabulary = 100, .width = 64}};
    struct attention_shape low = shape.attention;
    size_t none, two;
    low.d_k = 4;
    ck_assert(model_over_bytes(&shape, &shape.attention, 0, &none));
    ck_assert(model_over_bytes(&shape, &low, 1U << SLOT_W_Q | 1U << SLOT_W_K, &two));
    ck_assert_uint_eq(two - none, 2 * 2 * 64 * 16 * sizeof(float));
    struct attention_shape vast = shape.attention;
    vast.d_k = SIZE_MAX / 64;
    ck_assert(!model_over_bytes(&shape, &vast, 1U << SLOT_W_Q, &none));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("model_over");
    TCase *c = tcase_create("model_over");
    tcase_add_loop_test(c, numbers_come_back, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(c, over_another, 0, KERNEL_VARIANT_COUNT);
    tcase_add_test(c, takes_what_is_its_own);
    suite_add_tcase(s, c);
    return s;
}
