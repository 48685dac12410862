/* normalize and activate, against float64. */

#include "check.h"

#include "guard.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST = 5000 };

static void check_normalizing(const struct kernels *k, struct random *random, size_t n_rows, size_t count,
                              bool in_place)
{
    static const double sizes[] = {1, 1e-3, 1e3, 1e15, 1e-15};
    const bool centred = random_chance(random, 0.5), biased = random_chance(random, 0.5);
    const double size = sizes[random_size(random, 0, 4)], offset = random_chance(random, 0.3) ? 100 * size : 0;
    const float eps = random_chance(random, 0.5) ? 1e-5f : 1e-12f;
    const size_t from_stride = count + random_size(random, 0, 3),
                 to_stride = in_place ? from_stride : count + random_size(random, 0, 3);
    check_case("%zu rows of %zu numbers of size %g about %g,%s%s eps %g%s", n_rows, count, size, offset,
               centred ? " centred," : "", biased ? " bias," : "", (double)eps, in_place ? ", in place" : "");
    float *from = guard_take("from", n_rows * from_stride * sizeof *from, sizeof *from);
    float *to = in_place ? from : guard_take("to", n_rows * to_stride * sizeof *to, sizeof *to);
    float *gain = guard_take("gain", count * sizeof *gain, sizeof *gain);
    float *bias = biased ? guard_take("bias", count * sizeof *bias, sizeof *bias) : NULL;
    static double expected[MOST], bound[MOST];
    for (size_t i = 0; i < n_rows * from_stride; i++)
        from[i] = (float)(random_normal(random) * size + offset);
    for (size_t i = 0; i < count; i++) {
        gain[i] = (float)random_normal(random);
        if (biased)
            bias[i] = (float)random_normal(random);
    }
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < count; i++) {
            const float *x = from + row * from_stride;
            double mean = 0, squares = 0;
            for (size_t j = 0; j < count && centred; j++)
                mean += (double)x[j] / (double)count;
            for (size_t j = 0; j < count; j++)
                squares += ((double)x[j] - mean) * ((double)x[j] - mean) / (double)count;
            const double root = sqrt(squares + (double)eps), value = ((double)x[i] - mean) / root * (double)gain[i];
            expected[row * count + i] = value + (biased ? (double)bias[i] : 0);
            /* the mean is right to a few roundings of numbers of the row's size, the rest is rounded four times */
            bound[row * count + i] = 4e-7 * (fabs(value) + (sqrt(squares) + fabs(mean)) / root * fabs((double)gain[i]) +
                                             (biased ? fabs((double)bias[i]) : 0)) +
                                     1e-37;
        }
    if (!in_place)
        guard_read_only(from);
    guard_read_only(gain);
    if (biased)
        guard_read_only(bias);
    k->normalize(to, to_stride, from, from_stride, n_rows, count, centred, eps, gain, bias);
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < count; i++) {
            const double got = (double)to[row * to_stride + i], wanted = expected[row * count + i];
            if (!(fabs(got - wanted) <= bound[row * count + i]))
                check_fail("row %zu, number %zu is %.9g, not %.9g", row, i, got, wanted);
        }
    guard_end();
}

/* A row has the same bits whatever stands beside it; what is not finite makes its row NaN and no other. */
static void check_rows_apart(const struct kernels *k, struct random *random)
{
    enum { COUNT = 77, ROWS = 3 };
    check_case("three rows of %d numbers, one with an infinity", COUNT);
    float *from = guard_take("from", ROWS * COUNT * sizeof *from, sizeof *from);
    float *to = guard_take("to", ROWS * COUNT * sizeof *to, sizeof *to);
    float *alone = guard_take("alone", COUNT * sizeof *alone, sizeof *alone);
    float *gain = guard_take("gain", COUNT * sizeof *gain, sizeof *gain);
    for (size_t i = 0; i < ROWS * COUNT; i++)
        from[i] = (float)random_normal(random);
    for (size_t i = 0; i < COUNT; i++)
        gain[i] = 1;
    from[COUNT + 5] = INFINITY;
    k->normalize(to, COUNT, from, COUNT, ROWS, COUNT, true, 1e-5f, gain, NULL);
    for (size_t row = 0; row < ROWS; row += 2) {
        k->normalize(alone, COUNT, from + row * COUNT, COUNT, 1, COUNT, true, 1e-5f, gain, NULL);
        if (memcmp(alone, to + row * COUNT, COUNT * sizeof *alone) != 0)
            check_fail("row %zu has other bits alone", row);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (!isnan(to[COUNT + i]))
            check_fail("number %zu of the row with an infinity is %g", i, (double)to[COUNT + i]);
    guard_end();
}

void check_normalize(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t count = 1; count <= 200; count++)
            check_normalizing(k, random, random_size(random, 1, 4), count, random_chance(random, 0.5));
        check_normalizing(k, random, 1, MOST, false);
        check_rows_apart(k, random);
    }
}

static double activation_of(double x, enum activation activation)
{
    switch (activation) {
    case ACTIVATION_GELU:
        return x * erfc(-x / sqrt(2)) / 2;
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_NONE:
        break;
    }
    return x;
}

static void check_activating(const struct kernels *k, struct random *random, enum activation activation, size_t n_rows,
                             size_t count)
{
    static const double sizes[] = {1, 3, 1e-3, 1e3, 1e12};
    const double size = sizes[random_size(random, 0, 4)];
    const bool gated = random_chance(random, 0.5);
    const size_t stride = count + random_size(random, 0, 3), factor_stride = count + random_size(random, 0, 3);
    check_case("%zu rows of %zu numbers of size %g, activation %d%s", n_rows, count, size, (int)activation,
               gated ? ", gated" : "");
    float *rows = guard_take("rows", n_rows * stride * sizeof *rows, sizeof *rows);
    float *factor = gated ? guard_take("factor", n_rows * factor_stride * sizeof *factor, sizeof *factor) : NULL;
    static double before[MOST];
    for (size_t i = 0; i < n_rows * stride; i++) {
        rows[i] = (float)(random_normal(random) * size);
        before[i] = (double)rows[i];
    }
    for (size_t i = 0; gated && i < n_rows * factor_stride; i++)
        factor[i] = (float)random_normal(random);
    if (gated)
        guard_read_only(factor);
    k->activate(rows, stride, n_rows, count, activation, factor, factor_stride);
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < stride; i++) {
            const double x = before[row * stride + i],
                         by = gated && i < count ? (double)factor[row * factor_stride + i] : 1,
                         wanted = i < count ? activation_of(x, activation) * by : x,
                         got = (double)rows[row * stride + i];
            if (!(fabs(got - wanted) <= 4e-7 * fabs(x * by) + 1e-37))
                check_fail("row %zu, number %zu, of %.9g, is %.9g, not %.9g", row, i, x, got, wanted);
        }
    guard_end();
}

static void check_not_finite(const struct kernels *k, enum activation activation)
{
    check_case("activation %d of infinity, NaN and the largest numbers", (int)activation);
    float *rows = guard_take("rows", 4 * sizeof *rows, sizeof *rows);
    const float given[] = {INFINITY, NAN, FLT_MAX, -FLT_MAX};
    memcpy(rows, given, sizeof given);
    k->activate(rows, 4, 1, 4, activation, NULL, 0);
    if (rows[0] != INFINITY || !isnan(rows[1]) || rows[2] != FLT_MAX ||
        (activation != ACTIVATION_NONE && !(fabsf(rows[3]) <= 4e-7f * FLT_MAX)))
        check_fail("%g, %g, %g, %g", (double)rows[0], (double)rows[1], (double)rows[2], (double)rows[3]);
    guard_end();
}

void check_activate(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (enum activation activation = ACTIVATION_NONE; activation <= ACTIVATION_SILU; activation++) {
            for (size_t count = 1; count <= 100; count++)
                check_activating(k, random, activation, random_size(random, 1, 3), count);
            check_activating(k, random, activation, 1, MOST - 10);
            check_not_finite(k, activation);
        }
    }
}
