/* The sums over pairs of heads of every instruction set, against float64. */
#include "analysis/pair_kernels/pair_kernels.h"
#include "engine/random.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In [0, 1). */
static double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

enum { MOST = 4096 + 16 };

static float p[MOST] __attribute__((aligned(64))), q[MOST] __attribute__((aligned(64)));

static const struct pair_kernels *kernels_of(int index)
{
    return isa_supported((enum isa)index) ? pair_kernels_of((enum isa)index) : NULL;
}

/* Of all sizes that weights have, and exact 0 and 1. */
static float weight(struct random *random)
{
    const double kind = random_unit(random);
    return kind < 0.1 ? 0 : kind < 0.15 ? 1 : (float)exp(-90 * random_unit(random) * random_unit(random));
}

static double x_log_x(double x)
{
    return x > 0 ? x * log(x) : 0;
}

START_TEST(midpoint_log)
{
    const struct pair_kernels *kernels = kernels_of(_i);
    struct random random = {1};
    if (!kernels)
        return;
    for (size_t count = 0; count < MOST; count += 16 + count / 48 * 16) {
        double wanted = 0, own = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            p[i] = weight(&random);
            q[i] = weight(&random);
            wanted += x_log_x(((double)p[i] + (double)q[i]) / 2);
            own += x_log_x((double)p[i]);
            size += fabs(x_log_x(((double)p[i] + (double)q[i]) / 2)) + fabs(x_log_x((double)p[i]));
        }
        ck_assert(fabs(kernels->midpoint_log(p, q, count) - wanted) <= 4e-7 * size + 1e-35);
        ck_assert(fabs(kernels->midpoint_log(p, p, count) - own) <= 4e-7 * size + 1e-35);
        ck_assert_double_eq(kernels->midpoint_log(p, q, count), kernels->midpoint_log(q, p, count));
    }
    /* Near 1, where the logarithm is small. */
    for (int i = -2000; i < 2000; i++) {
        memset(p, 0, 16 * sizeof *p);
        p[5] = (float)(1 + i * 1e-4);
        ck_assert(fabs(kernels->midpoint_log(p, p, 16) - x_log_x((double)p[5])) <=
                  1.5e-7 * fabs(log((double)p[5])) + 1e-12);
    }
    /* What is too small to count, and what is no number. */
    const float tiny[] = {0, FLT_MIN, FLT_MIN / 16, FLT_TRUE_MIN};
    for (size_t i = 0; i < 4; i++) {
        memset(p, 0, 16 * sizeof *p);
        p[15] = tiny[i];
        ck_assert(fabs(kernels->midpoint_log(p, p, 16)) <= 1.1e-36);
    }
    p[3] = NAN;
    ck_assert(isnan(kernels->midpoint_log(p, p, 16)));
    p[3] = INFINITY;
    ck_assert(!isfinite(kernels->midpoint_log(p, p, 16)));
}
END_TEST

START_TEST(row_distances)
{
    const struct pair_kernels *kernels = kernels_of(_i);
    struct random random = {2};
    if (!kernels)
        return;
    for (size_t i = 0; i < MOST; i++) {
        p[i] = weight(&random);
        q[i] = weight(&random);
    }
    for (size_t stride = 16; stride <= 1024; stride += 16 + stride / 32 * 16) {
        const size_t rows = MOST / stride;
        double wanted = 0;
        for (size_t row = 0; row < rows; row++) {
            double squares = 0;
            for (size_t k = row * stride; k < (row + 1) * stride; k++)
                squares += ((double)p[k] - (double)q[k]) * ((double)p[k] - (double)q[k]);
            wanted += sqrt(squares);
        }
        ck_assert(fabs(kernels->row_distances(p, q, rows, stride) - wanted) <= 1e-6 * wanted);
        ck_assert_double_eq(kernels->row_distances(p, p, rows, stride), 0);
    }
}
END_TEST

/* Squares that float32 cannot hold. */
START_TEST(wide_squares_of_any_size)
{
    const struct pair_kernels *kernels = kernels_of(_i);
    static const float sizes[] = {1e-45f, 1e-30f, 1e30f, FLT_MAX};
    if (!kernels)
        return;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t i = 0; i < 48; i++)
            p[i] = i % 2 ? sizes[s] : -sizes[s];
        const double wanted = 48 * (double)sizes[s] * (double)sizes[s];
        ck_assert(fabs(kernels->wide_squares(p, 48) - wanted) <= 1e-13 * wanted);
    }
}
END_TEST

START_TEST(one_head)
{
    const struct pair_kernels *kernels = kernels_of(_i);
    static double sums[MOST];
    struct random random = {3};
    if (!kernels)
        return;
    for (size_t count = 0; count < MOST; count += 16 + count / 128 * 16) {
        double squares = 0, sum = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            p[i] = weight(&random) - 0.25f;
            q[i] = weight(&random);
            squares += (double)p[i] * (double)p[i];
            sum += (double)p[i];
            size += fabs((double)p[i]);
            sums[i] = (double)i;
        }
        ck_assert(fabs(kernels->squares(p, count) - squares) <= 1e-6 * squares);
        ck_assert(fabs(kernels->wide_squares(p, count) - squares) <= 1e-13 * squares);
        ck_assert(fabs(kernels->sum(p, count) - sum) <= 1e-6 * size);
        kernels->add(sums, p, count);
        for (size_t i = 0; i < count; i++)
            ck_assert_double_eq(sums[i], (double)i + (double)p[i]);
        memcpy(p, q, count * sizeof *p);
        kernels->square_roots(p, count);
        for (size_t i = 0; i < count; i++)
            ck_assert(p[i] == sqrtf(q[i]));
    }
}
END_TEST

START_TEST(products)
{
    static const size_t heads[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 47, 48, 49, 60, 97};
    static const size_t depths[] = {16, 32, 240, 256, 272, 1024, 1040, 2048};
    const struct pair_kernels *kernels = kernels_of(_i);
    struct random random = {4};
    if (!kernels)
        return;
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            const size_t n = heads[h], depth = depths[d], stride = depth + 16;
            float *x = aligned_alloc(64, n * stride * sizeof *x);
            double *sums = malloc(n * n * sizeof *sums);
            for (size_t i = 0; i < n * stride; i++)
                x[i] = (float)(random_unit(&random) - 0.5);
            for (size_t i = 0; i < n * n; i++)
                sums[i] = 100 + (double)i;
            const struct pair_next next = {.x = x, .heads = n, .stride = stride, .floats = depth};
            kernels->products(x, stride, n, depth, 2, sums, d % 2 ? &next : NULL);
            for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < n; b++) {
                    double wanted = 0;
                    for (size_t k = 0; k < depth && b <= a; k++)
                        wanted += 2 * (double)x[a * stride + k] * (double)x[b * stride + k];
                    const double got = sums[a * n + b] - 100 - (double)(a * n + b);
                    ck_assert_msg(b > a ? got == 0 : fabs(got - wanted) <= 2e-7 * (double)depth,
                                  "%zu heads, depth %zu: %zu, %zu: got %.9g, expected %.9g", n, depth, a, b, got,
                                  wanted);
                }
            free(x);
            free(sums);
        }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/pair_kernels");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, midpoint_log, 0, ISA_COUNT);
    tcase_add_loop_test(t, row_distances, 0, ISA_COUNT);
    tcase_add_loop_test(t, wide_squares_of_any_size, 0, ISA_COUNT);
    tcase_add_loop_test(t, one_head, 0, ISA_COUNT);
    tcase_add_loop_test(t, products, 0, ISA_COUNT);
    suite_add_tcase(s, t);
    return s;
}
