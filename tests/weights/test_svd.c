/* Layers of lower rank, against the eigenvalues of what they approximate, by plain loops in long double. */
#include "suite.h"

#include "run_forward.h"
#include "weights/svd.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALL_BIASES (15U << LAYER_B_Q)

/* splitmix64, and a sum of 12 as a normal number */
static double random_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        uint64_t z = *state += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        sum += (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
    }
    return sum;
}

static struct layer_tensors random_layer(const struct attention_shape *shape, unsigned biases, uint64_t seed)
{
    struct layer_tensors tensors = layer_tensors_describe(shape, biases);
    struct error error;
    ck_assert(layer_tensors_allocate(&tensors, &error));
    for (size_t i = 0; i < layer_tensors_count(&tensors); i++)
        tensors.memory[i] = (float)(random_normal(&seed) / sqrt((double)shape->d_model));
    return tensors;
}

/* One side of a head's form: rows of the matrix's columns `first` and on, then the bias. */
static long double element(const struct layer_tensors *t, enum layer_tensor_kind matrix, enum layer_tensor_kind bias,
                           size_t row, size_t column)
{
    const struct layer_tensor *m = &t->items[matrix], *b = &t->items[bias];
    return (long double)(row < m->rows ? m->data[row * m->columns + column] : b->rows ? b->data[column] : 0);
}

/* What is approximated of a head, [n, n] with n = d_model + 1: [W_Q; b_Q] [W_K; b_K]^T, or [W_V; b_V] W_O, whose last
 * column is 0. */
static long double *form(const struct attention_shape *s, const struct layer_tensors *t, size_t head, bool values)
{
    const size_t n = s->d_model + 1, kv_head = head / (s->num_heads / s->num_kv_heads);
    long double *product = calloc(n * n, sizeof *product);
    ck_assert_ptr_nonnull(product);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t d = 0; d < (values ? s->d_v : s->d_k); d++) {
                long double right;
                if (!values)
                    right = element(t, LAYER_W_K, LAYER_B_K, j, kv_head * s->d_k + d);
                else
                    right = j < s->d_model ? (long double)t->items[LAYER_W_O].data[(head * s->d_v + d) * s->d_model + j]
                                           : 0;
                product[i * n + j] += (values ? element(t, LAYER_W_V, LAYER_B_V, i, kv_head * s->d_v + d)
                                              : element(t, LAYER_W_Q, LAYER_B_Q, i, head * s->d_k + d)) *
                                      right;
            }
    return product;
}

static int descending(const void *a, const void *b)
{
    const long double x = *(const long double *)a, y = *(const long double *)b;
    return (x < y) - (x > y);
}

/* The eigenvalues of m^T m, largest first, by Jacobi's method for symmetric matrices. */
static long double *squared_singular_values(const long double *m, size_t n)
{
    long double *gram = calloc(n * n, sizeof *gram), *values = calloc(n, sizeof *values);
    ck_assert(gram && values);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < n; k++)
                gram[i * n + j] += m[k * n + i] * m[k * n + j];
    for (int sweep = 0; sweep < 30; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                if (gram[p * n + q] == 0)
                    continue;
                const long double theta = (gram[q * n + q] - gram[p * n + p]) / (2 * gram[p * n + q]),
                                  t = (theta < 0 ? -1 : 1) / (fabsl(theta) + sqrtl(theta * theta + 1)),
                                  c = 1 / sqrtl(t * t + 1), s = t * c;
                for (size_t k = 0; k < n; k++) {
                    const long double x = gram[k * n + p], y = gram[k * n + q];
                    gram[k * n + p] = c * x - s * y;
                    gram[k * n + q] = s * x + c * y;
                }
                for (size_t k = 0; k < n; k++) {
                    const long double x = gram[p * n + k], y = gram[q * n + k];
                    gram[p * n + k] = c * x - s * y;
                    gram[q * n + k] = s * x + c * y;
                }
            }
    for (size_t i = 0; i < n; i++)
        values[i] = fmaxl(gram[i * n + i], 0);
    qsort(values, n, sizeof *values, descending);
    free(gram);
    return values;
}

/* The approximation of one head is as near as any of its rank, and both sides hold the roots of the singular values. */
static void check_head(const struct attention_shape *shape, const struct layer_tensors *tensors,
                       const struct attention_shape *made, const struct layer_tensors *new, size_t head, size_t rank,
                       bool values)
{
    const size_t n = shape->d_model + 1;
    long double *whole = form(shape, tensors, head, values), *low = form(made, new, head, values),
                *squares = squared_singular_values(whole, n), distance = 0, left = 0, size = 0;
    for (size_t i = 0; i < n * n; i++)
        distance += (whole[i] - low[i]) * (whole[i] - low[i]);
    for (size_t i = 0; i < n; i++) {
        left += i >= rank ? squares[i] : 0;
        size += squares[i];
    }
    ck_assert_msg(fabsl(sqrtl(distance) - sqrtl(left)) <= 2e-6L * sqrtl(size),
                  "head %zu of rank %zu is %Lg off, not %Lg", head, rank, sqrtl(distance), sqrtl(left));
    for (size_t a = 0; a < rank; a++)
        for (size_t b = 0; b < rank; b++) {
            long double first = 0, second = 0;
            for (size_t i = 0; i < n; i++) {
                first += values ? element(new, LAYER_W_V, LAYER_B_V, i, head * rank + a) *
                                      element(new, LAYER_W_V, LAYER_B_V, i, head * rank + b)
                                : element(new, LAYER_W_Q, LAYER_B_Q, i, head * rank + a) *
                                      element(new, LAYER_W_Q, LAYER_B_Q, i, head * rank + b);
                if (!values)
                    second += element(new, LAYER_W_K, LAYER_B_K, i, head * rank + a) *
                              element(new, LAYER_W_K, LAYER_B_K, i, head * rank + b);
            }
            for (size_t i = 0; values && i < shape->d_model; i++)
                second += (long double)new->items[LAYER_W_O].data[(head * rank + a) * shape->d_model + i] *
                          (long double)new->items[LAYER_W_O].data[(head * rank + b) * shape->d_model + i];
            const long double expected = a == b && a < n ? sqrtl(squares[a]) : 0;
            const long double tolerance = 2e-6L * sqrtl(squares[0]) + 1e-30L;
            ck_assert_msg(fabsl(first - expected) <= tolerance && fabsl(second - expected) <= tolerance,
                          "columns %zu and %zu of head %zu: %Lg and %Lg, not %Lg", a, b, head, first, second, expected);
        }
    free(whole);
    free(low);
    free(squares);
}

static const struct attention_shape shapes[] = {
    {.d_model = 12, .num_heads = 3, .num_kv_heads = 3, .d_k = 4, .d_v = 4, .scale = 0.5f, .projected = true},
    {.d_model = 16, .num_heads = 4, .num_kv_heads = 2, .d_k = 3, .d_v = 5, .scale = 0.7f, .projected = true},
    {.d_model = 13, .num_heads = 2, .num_kv_heads = 1, .d_k = 9, .d_v = 3, .scale = 0.3f, .projected = true},
    {.d_model = 3, .num_heads = 2, .num_kv_heads = 2, .d_k = 7, .d_v = 6, .scale = 1, .projected = true}, /* wide */
    {.d_model = 1, .num_heads = 1, .num_kv_heads = 1, .d_k = 1, .d_v = 1, .scale = 1, .projected = true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_layer(const struct attention_shape *shape, const struct layer_tensors *tensors)
{
    for (size_t rank = 1; rank <= shape->d_k; rank++)
        for (int values = 0; values < 2; values++) {
            const struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = rank, .values = values};
            struct attention_shape made;
            struct layer_tensors new;
            struct error error;
            ck_assert_msg(svd_layer_make(shape, tensors, &rule, 2, &made, &new, &error), "%s", error.message);
            ck_assert_uint_eq(made.d_model, shape->d_model);
            ck_assert_uint_eq(made.num_heads, shape->num_heads);
            ck_assert_uint_eq(made.num_kv_heads, shape->num_heads);
            ck_assert_uint_eq(made.d_k, rank);
            ck_assert_uint_eq(made.d_v, values ? rank : shape->d_v);
            ck_assert(made.scale == shape->scale);
            for (size_t head = 0; head < shape->num_heads; head++) {
                check_head(shape, tensors, &made, &new, head, rank, false);
                if (values)
                    check_head(shape, tensors, &made, &new, head, rank, true);
            }
            layer_tensors_free(&new);
        }
}

START_TEST(each_head_is_as_near_as_its_rank_allows)
{
    for (unsigned biases = 0; biases < 16; biases += 5) {
        struct layer_tensors tensors = random_layer(&shapes[_i], biases << LAYER_B_Q, 40 + biases);
        check_layer(&shapes[_i], &tensors);
        layer_tensors_free(&tensors);
    }
}
END_TEST

/* Heads of lower rank than they have room for: two columns are the same, and in the end all is 0. */
START_TEST(missing_ranks_are_zero)
{
    const struct attention_shape *shape = &shapes[0];
    struct layer_tensors tensors = random_layer(shape, ALL_BIASES, 50);
    for (size_t row = 0; row <= shape->d_model; row++) {
        struct layer_tensor *t = &tensors.items[row < shape->d_model ? LAYER_W_K : LAYER_B_K];
        float *of_row = t->data + (row < shape->d_model ? row : 0) * t->columns;
        of_row[1] = of_row[2] = of_row[0];
    }
    check_layer(shape, &tensors);
    memset(tensors.memory, 0, layer_tensors_count(&tensors) * sizeof(float));
    const struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = 4, .values = true};
    struct attention_shape made;
    struct layer_tensors new;
    struct error error;
    ck_assert(svd_layer_make(shape, &tensors, &rule, 2, &made, &new, &error));
    for (size_t i = 0; i < layer_tensors_count(&new); i++)
        ck_assert(new.memory[i] == 0);
    layer_tensors_free(&new);
    layer_tensors_free(&tensors);
}
END_TEST

static struct forward_result forward_of(const struct attention_shape *shape, const struct layer_tensors *t,
                                        const struct forward_input *input)
{
    const struct attention_matrices matrices = {
        .w_q = t->items[LAYER_W_Q].data,
        .w_k = t->items[LAYER_W_K].data,
        .w_v = t->items[LAYER_W_V].data,
        .w_o = t->items[LAYER_W_O].data,
        .b_q = t->items[LAYER_B_Q].data,
        .b_k = t->items[LAYER_B_K].data,
        .b_v = t->items[LAYER_B_V].data,
        .b_o = t->items[LAYER_B_O].data,
    };
    struct error error;
    struct attention_layer *layer = attention_layer_create(shape, &matrices, &error);
    ck_assert_ptr_nonnull(layer);
    const struct forward_result result = run_forward(layer, input);
    attention_layer_free(layer);
    return result;
}

START_TEST(the_full_rank_changes_nothing)
{
    const struct attention_shape *shape = &shapes[_i];
    struct layer_tensors tensors = random_layer(shape, ALL_BIASES, 60);
    float x[2 * 7 * 16];
    uint64_t seed = 61;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)random_normal(&seed);
    const struct forward_input input = {
        .batch = 2, .query_length = 7, .key_length = 7, .self_attention = true, .query = x, .key = x, .value = x};
    ck_assert(use_kernels(0) || use_kernels(KERNEL_VARIANT_COUNT - 1));
    struct forward_result plain = forward_of(shape, &tensors, &input);
    for (int values = 0; values < 2; values++) {
        if (values && shape->d_v > shape->d_k)
            continue; /* the values lose rank */
        const struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = shape->d_k, .values = values};
        struct attention_shape made;
        struct layer_tensors new;
        struct error error;
        ck_assert(svd_layer_make(shape, &tensors, &rule, 2, &made, &new, &error));
        struct forward_result low = forward_of(&made, &new, &input);
        expect_close("output", low.output, plain.output, 2 * 7 * shape->d_model, false);
        expect_close("attention", low.attention, plain.attention, 2 * shape->num_heads * 7 * 7, false);
        if (!values)
            expect_close("heads", low.heads, plain.heads, 2 * shape->num_heads * 7 * shape->d_v, false);
        run_forward_free(&low);
        layer_tensors_free(&new);
    }
    run_forward_free(&plain);
    layer_tensors_free(&tensors);
}
END_TEST

START_TEST(what_cannot_be_made_is_said)
{
    struct attention_shape made = {.d_model = 77};
    struct layer_tensors tensors = random_layer(&shapes[0], 0, 70), new = {0};
    struct error error;
    struct low_rank_rule rule = {.kind = LOW_RANK_SVD, .rank = 5};
    ck_assert(!svd_layer_make(&shapes[0], &tensors, &rule, 2, &made, &new, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/low_rank/rank");
    ck_assert_str_eq(error.message, "rank is 5, expected 1 to d_k, which is 4 here");
    rule.rank = 0;
    ck_assert(!svd_layer_shape(&shapes[0], &rule, &made, &error));
    const struct attention_shape identity = {.d_model = 8, .num_heads = 2, .num_kv_heads = 2, .d_k = 4, .d_v = 4};
    rule.rank = 2;
    ck_assert(!svd_layer_shape(&identity, &rule, &made, &error));
    ck_assert_int_eq(error.code, ERROR_INVALID);
    ck_assert_str_eq(error.pointer, "/low_rank");
    ck_assert_uint_eq(made.d_model, 77);

    for (size_t i = 0; i < layer_tensors_count(&tensors); i++)
        tensors.memory[i] = FLT_MAX;
    ck_assert(!svd_layer_make(&shapes[0], &tensors, &rule, 2, &made, &new, &error));
    ck_assert_int_eq(error.code, ERROR_NOT_FINITE);
    ck_assert_str_eq(error.pointer, "/low_rank");
    ck_assert_ptr_null(new.memory);
    layer_tensors_free(&tensors);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/svd");
    TCase *tcase = tcase_create("svd");
    tcase_add_loop_test(tcase, each_head_is_as_near_as_its_rank_allows, 0, SHAPES);
    tcase_add_test(tcase, missing_ranks_are_zero);
    tcase_add_loop_test(tcase, the_full_rank_changes_nothing, 0, SHAPES);
    tcase_add_test(tcase, what_cannot_be_made_is_said);
    suite_add_tcase(suite, tcase);
    return suite;
}
