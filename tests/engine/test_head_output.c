/* A head's part of the output, against plain loops in float64, for every instruction set; widths around those of
 * panels and vectors. */

#include "engine/head_output.h"

#include "engine/kernels/kernels.h"
#include "problem.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

/* Floats between the rows of the result, none half of the time. */
static size_t head_gap(struct random *random)
{
    return random_size(random, 0, 1) ? random_size(random, 1, 20) : 0;
}

static void check(struct random *random, const struct attention_shape *shape, size_t rows)
{
    struct problem memory = {0};
    struct error error;
    const struct attention_matrices matrices = random_matrices(random, shape, &memory);
    struct attention_layer *layer = attention_layer_create(shape, &matrices, &error);
    ck_assert_ptr_nonnull(layer);
    const size_t columns = head_output_columns(shape), d_v = shape->d_v, stride = columns + head_gap(random);
    ck_assert_uint_eq(columns, shape->projected ? shape->d_model : d_v);
    float *z = malloc(rows * d_v * sizeof *z), *out = malloc(rows * stride * sizeof *out + sizeof *out),
          *expected = malloc(rows * columns * sizeof *expected), *one = malloc(columns * sizeof *one);
    for (size_t i = 0; i < rows * d_v; i++)
        z[i] = (float)random_normal(random);
    for (size_t head = 0; head < shape->num_heads; head++) {
        const float scale = head % 2 ? 1 : -0.75f;
        for (size_t i = 0; i < rows; i++)
            for (size_t c = 0; c < columns; c++) {
                double sum = shape->projected ? 0 : (double)z[i * d_v + c];
                for (size_t d = 0; shape->projected && d < d_v; d++)
                    sum += (double)z[i * d_v + d] * (double)matrices.w_o[(head * d_v + d) * columns + c];
                expected[i * columns + c] = (float)((double)scale * sum);
            }
        for (size_t i = 0; i <= rows * stride; i++)
            out[i] = 1234;
        head_output(layer, head, scale, z, rows, out, stride);
        ck_assert(out[rows * stride] == 1234);
        for (size_t i = 0; i < rows; i++) {
            const float *row = out + i * stride;
            ck_assert_double_le(worst_error(row, expected + i * columns, columns, 1e-5), 1);
            for (size_t c = columns; c < stride; c++)
                ck_assert(row[c] == 1234);
            head_output(layer, head, scale, z + i * d_v, 1, one, columns);
            ck_assert_mem_eq(one, row, columns * sizeof *one); /* a row alone has the same bits */
        }
    }
    free(z);
    free(out);
    free(expected);
    free(one);
    attention_layer_free(layer);
    problem_free(&memory);
}

START_TEST(agrees_with_float64)
{
    static const size_t widths[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 80, 129};
    struct error error;
    struct random random = {11};
    if (!isa_supported((enum isa)_i))
        return;
    ck_assert(engine_init(kernel_variants[_i]->name, &error));
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t heads = 1; heads <= 3; heads++) {
            struct attention_shape shape = {
                .projected = true, .d_model = widths[w], .num_heads = heads, .num_kv_heads = heads, .d_k = 2};
            shape.d_v = random_size(&random, 1, 20);
            check(&random, &shape, random_size(&random, 1, 14));
            shape = (struct attention_shape){.d_model = widths[w] * heads,
                                             .num_heads = heads,
                                             .num_kv_heads = heads,
                                             .d_k = widths[w],
                                             .d_v = widths[w]};
            check(&random, &shape, random_size(&random, 1, 14));
        }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("engine/head_output");
    TCase *t = tcase_create("head_output");
    tcase_add_loop_test(t, agrees_with_float64, 0, KERNEL_VARIANT_COUNT);
    suite_add_tcase(s, t);
    return s;
}
