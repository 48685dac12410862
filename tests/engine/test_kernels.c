/* Every variant's kernels against plain float64, and the one order of operations they promise. */

#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct kernels *variant(int i)
{
    return kernel_variants[i]->supported() ? kernel_variants[i] : &kernels_generic;
}

static float *aligned_floats(size_t count)
{
    float *memory = aligned_alloc(64, kernel_padded(count + 1) * sizeof *memory);
    ck_assert_ptr_nonnull(memory);
    for (size_t i = 0; i < kernel_padded(count + 1); i++)
        memory[i] = -7;
    return memory;
}

static float *random_matrix(struct random *random, size_t rows, size_t columns)
{
    float *m = aligned_floats(rows * columns);
    for (size_t i = 0; i < rows * columns; i++)
        m[i] = (float)random_normal(random);
    return m;
}

/* C of the product, each row and each panel on its own. */
static void multiply_piecewise(const struct kernels *k, const struct product *p, size_t rows, struct random *random)
{
    for (size_t row = 0, n; row < rows; row += n) {
        n = random_size(random, 1, rows - row < 3 ? rows - row : 3);
        for (size_t column = 0; column < p->columns; column += k->panel_columns)
            k->multiply(p, row, row + n, column,
                        p->columns - column < k->panel_columns ? p->columns : column + k->panel_columns);
    }
}

static void check_product(const struct kernels *k, struct random *random, size_t rows, size_t depth, size_t columns)
{
    const bool transposed = random_chance(random, 0.5);
    const size_t a_stride = depth + random_size(random, 0, 3), c_stride = columns + random_size(random, 0, 3);
    float *a = random_matrix(random, rows, a_stride), *b = random_matrix(random, depth, columns),
          *bias = random_matrix(random, 1, columns);
    float *packed = aligned_floats(k->packed_floats(depth, columns)), *c = aligned_floats(rows * c_stride),
          *pieces = aligned_floats(rows * c_stride);
    if (transposed) {
        float *bt = aligned_floats(depth * columns);
        for (size_t i = 0; i < depth; i++)
            for (size_t j = 0; j < columns; j++)
                bt[j * depth + i] = b[i * columns + j];
        k->pack_transposed(bt, depth, depth, columns, packed);
        free(bt);
    } else {
        k->pack(b, columns, depth, columns, packed);
    }
    ck_assert(packed[k->packed_floats(depth, columns)] == -7);
    ck_assert_uint_le(k->packed_floats(depth, columns), depth * kernel_padded(columns));
    struct product p = {.depth = depth,
                        .columns = columns,
                        .a = a,
                        .a_stride = a_stride,
                        .b = packed,
                        .b_depth = depth,
                        .scale = 0.75f,
                        .c = c,
                        .c_stride = c_stride};
    if (random_chance(random, 0.5)) {
        p.bias = bias;
        p.scale = 1;
    }
    k->multiply(&p, 0, rows, 0, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < c_stride; j++) {
            double sum = 0, size = 0;
            for (size_t d = 0; j < columns && d < depth; d++) {
                sum += (double)a[i * a_stride + d] * (double)b[d * columns + j];
                size += fabs((double)a[i * a_stride + d] * (double)b[d * columns + j]);
            }
            const double expected = j >= columns ? -7 : (double)p.scale * sum + (p.bias ? (double)bias[j] : 0);
            const double bound =
                FLT_EPSILON / 2 *
                ((double)depth * size + 2 * fabs(expected) + 2 * size); /* half a unit for every operation */
            ck_assert_msg(fabs((double)c[i * c_stride + j] - expected) <= bound,
                          "%s: [%zu, %zu] x [%zu, %zu] at %zu, %zu: %g, not %g", k->name, rows, depth, depth, columns,
                          i, j, (double)c[i * c_stride + j], expected);
        }
    ck_assert(c[rows * c_stride] == -7);
    p.c = pieces;
    multiply_piecewise(k, &p, rows, random);
    ck_assert_msg(memcmp(c, pieces, rows * c_stride * sizeof *c) == 0,
                  "%s: [%zu, %zu] x [%zu, %zu]: other bits in pieces", k->name, rows, depth, depth, columns);
    free(a), free(b), free(bias), free(packed), free(c), free(pieces);
}

START_TEST(products_agree_and_have_one_order)
{
    const struct kernels *k = variant(_i);
    struct random random = {1};
    for (size_t columns = 1; columns <= 2 * k->panel_columns + 3; columns += random_size(&random, 1, 5))
        for (size_t rows = 1; rows <= 27; rows += random_size(&random, 1, 4))
            check_product(k, &random, rows, random_size(&random, 1, 40), columns);
    for (size_t i = 0; i < 8; i++) /* several blocks of depth */
        check_product(k, &random, random_size(&random, 1, 9), random_size(&random, 380, 1700),
                      random_size(&random, 1, 80));
    check_product(k, &random, 250, 20, 30); /* several blocks of rows */
    check_product(k, &random, 3, 768, 5);
    check_product(k, &random, 3, 769, 5);
}
END_TEST

/* A product over the first rows of B only, and over none. */
START_TEST(products_use_part_of_the_depth)
{
    const struct kernels *k = variant(_i);
    struct random random = {2};
    float *a = random_matrix(&random, 4, 50), *b = random_matrix(&random, 50, 100),
          *packed = aligned_floats(k->packed_floats(50, 100));
    float *short_packed = aligned_floats(k->packed_floats(20, 100)), *c = aligned_floats(400),
          *expected = aligned_floats(400);
    k->pack(b, 100, 50, 100, packed);
    k->pack(b, 100, 20, 100, short_packed);
    struct product p = {.depth = 20,
                        .columns = 100,
                        .a = a,
                        .a_stride = 50,
                        .b = packed,
                        .b_depth = 50,
                        .scale = 1,
                        .c = c,
                        .c_stride = 100};
    k->multiply(&p, 0, 4, 0, 100);
    p.b = short_packed, p.b_depth = 20, p.c = expected;
    k->multiply(&p, 0, 4, 0, 100);
    ck_assert_int_eq(memcmp(c, expected, 400 * sizeof *c), 0);
    p.depth = 0;
    k->multiply(&p, 0, 4, 0, 100);
    for (size_t i = 0; i < 400; i++)
        ck_assert(expected[i] == 0);
    free(a), free(b), free(packed), free(short_packed), free(c), free(expected);
}
END_TEST

START_TEST(exponential_is_accurate)
{
    const struct kernels *k = variant(_i);
    enum { BLOCK = 4096 };
    float *x = aligned_floats(BLOCK), *y = aligned_floats(BLOCK);
    double worst = 0;
    for (float top = 0; top > -87.33f; top -= 0.05f) {
        for (size_t i = 0; i < BLOCK; i++)
            x[i] = fmaxf(top - 0.05f * (float)i / BLOCK, -87.329f);
        k->exponential(y, x, BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            worst = fmax(worst, fabs((double)y[i] / exp((double)x[i]) - 1));
    }
    ck_assert_msg(worst < 1.3e-7, "%s: largest relative error %g", k->name, worst);
    const float special[16] = {0,   -0.0f,   -87.34f, -88,    -104, -1e4f,  -3e38f,   -INFINITY,
                               NAN, -1e-30f, -1e-7f,  -87.4f, -200, -1e20f, -FLT_MAX, -87.331f};
    memcpy(x, special, sizeof special);
    k->exponential(y, x, 16);
    ck_assert(y[0] == 1 && y[1] == 1 && y[9] == 1);
    for (size_t i = 2; i < 8; i++)
        ck_assert(y[i] == 0 && !signbit(y[i]));
    ck_assert(isnan(y[8]));
    for (size_t i = 11; i < 16; i++)
        ck_assert(y[i] == 0 && !signbit(y[i]));
    free(x), free(y);
}
END_TEST

static void check_softmax(const struct kernels *k, struct random *random, size_t n_keys)
{
    const size_t width = kernel_padded(n_keys) + 16 * random_size(random, 0, 2);
    float *scores = aligned_floats(width), *bias = malloc((n_keys + 1) * sizeof *bias);
    uint8_t *allowed = malloc(n_keys + 1);
    double *expected = malloc((n_keys + 1) * sizeof *expected), top = -INFINITY, sum = 0;
    const bool biased = random_chance(random, 0.5), masked = random_chance(random, 0.5);
    const double spread = random_chance(random, 0.2) ? 1e4 : 3;
    for (size_t j = 0; j < n_keys; j++) {
        scores[j] = (float)(random_normal(random) * spread);
        bias[j] = (float)random_normal(random);
        allowed[j] = random_chance(random, 0.7);
        const float score = biased ? scores[j] + bias[j] : scores[j];
        expected[j] = masked && !allowed[j] ? -INFINITY : (double)score;
        top = fmax(top, expected[j]);
    }
    for (size_t j = 0; j < n_keys; j++)
        sum += expected[j] = top > -INFINITY ? exp(expected[j] - top) : 0;
    const double found = k->softmax(scores, n_keys, width, biased ? bias : NULL, masked ? allowed : NULL);
    ck_assert_double_le(fabs(found - sum), 5e-7 * sum);
    for (size_t j = 0; j < n_keys; j++) {
        const double bound = expected[j] > 0 ? (1.5e-7 + 6e-8 * -log(expected[j])) * expected[j]
                                             : 0; /* of exp, and of the rounded difference to the maximum */
        ck_assert_double_le(fabs((double)scores[j] - expected[j]), bound + 1.2e-38);
        ck_assert(!masked || allowed[j] || scores[j] == 0);
    }
    for (size_t j = n_keys; j < width; j++)
        ck_assert(scores[j] == 0);
    ck_assert(scores[width] == -7);
    free(scores), free(bias), free(allowed), free(expected);
}

START_TEST(softmax_agrees)
{
    const struct kernels *k = variant(_i);
    struct random random = {3};
    for (size_t n = 0; n < 150; n++)
        check_softmax(k, &random, n);
    for (size_t i = 0; i < 40; i++)
        check_softmax(k, &random, random_size(&random, 150, 3000));
}
END_TEST

/* Equal weights are all rounded alike when they are added, so that nothing averages out. */
START_TEST(sums_of_long_rows_stay_accurate)
{
    enum { KEYS = 20000 };
    const struct kernels *k = variant(_i);
    float *scores = aligned_floats(KEYS);
    for (int gap = 1; gap <= 20; gap++) {
        for (size_t j = 0; j < KEYS; j++)
            scores[j] = j == 0 ? 0.1f * (float)gap : 0;
        const double found = k->softmax(scores, KEYS, KEYS, NULL, NULL);
        double sum = 0;
        for (size_t j = 0; j < KEYS; j++)
            sum += (double)scores[j];
        ck_assert_double_le(fabs(found - sum), 6e-7 * sum);
    }
    free(scores);
}
END_TEST

START_TEST(softmax_lets_faults_through)
{
    const struct kernels *k = variant(_i);
    const float faults[] = {NAN, INFINITY};
    for (size_t n = 1; n < 40; n++)
        for (size_t at = 0; at < n; at++)
            for (size_t f = 0; f < 2; f++) {
                float *scores = aligned_floats(48);
                for (size_t j = 0; j < n; j++)
                    scores[j] = (float)j;
                scores[at] = faults[f];
                ck_assert(isnan(k->softmax(scores, n, 48, NULL, NULL)));
                free(scores);
            }
}
END_TEST

START_TEST(scale_writes_what_it_should)
{
    const struct kernels *k = variant(_i);
    for (size_t n = 0; n < 70; n++) {
        float *from = aligned_floats(80), *to = aligned_floats(80);
        for (size_t i = 0; i < 80; i++)
            from[i] = (float)i;
        k->scale(to + 3, from + 1, n, 0.5f);
        for (size_t i = 0; i < 80; i++)
            ck_assert(to[i] == (i >= 3 && i < 3 + n ? (float)(i - 2) * 0.5f : -7));
        free(from), free(to);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, products_agree_and_have_one_order, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, products_use_part_of_the_depth, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, exponential_is_accurate, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, softmax_agrees, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, sums_of_long_rows_stay_accurate, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, softmax_lets_faults_through, 0, KERNEL_VARIANT_COUNT);
    tcase_add_loop_test(t, scale_writes_what_it_should, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
