/* scale, scale_rows and add_rows. */

#include "check.h"

#include "guard.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const float special[] = {0,         -0.0f, 1e-40f, -1e-45f, FLT_MIN, -FLT_MAX, FLT_MAX, INFINITY,
                                -INFINITY, NAN,   1,      -1,      1.5e30f, 0.1f,     -1e-7f,  3};

static void check_scaling(const struct kernels *k, struct random *random, size_t count, bool in_place)
{
    static const float factors[] = {1, 0.5f, -0.3f, 1e-38f, 1e30f, 0, INFINITY, NAN};
    const float factor = factors[random_size(random, 0, 7)];
    check_case("%zu numbers times %g%s", count, (double)factor, in_place ? ", in place" : "");
    float *from = guard_take("from", count * sizeof *from, sizeof *from);
    float *to = in_place ? from : guard_take("to", count * sizeof *to, sizeof *to);
    float *expected = guard_take("the expected numbers", count * sizeof *expected, sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        from[i] = random_chance(random, 0.3) ? special[random_size(random, 0, 15)] : (float)random_normal(random);
        expected[i] = from[i] * factor;
    }
    if (!in_place)
        guard_read_only(from);
    k->scale(to, from, count, factor);
    for (size_t i = 0; i < count; i++)
        if (isnan(expected[i]) ? !isnan(to[i]) : memcmp(&to[i], &expected[i], sizeof *to) != 0)
            check_fail("number %zu is %.9g, not %.9g", i, (double)to[i], (double)expected[i]);
    guard_end();
}

/* Rows have the bits that scale gives them one by one, and what is between them stays. */
static void check_scaling_rows(const struct kernels *k, struct random *random, size_t n_rows, size_t count)
{
    const size_t from_stride = count + random_size(random, 0, 3), to_stride = count + random_size(random, 0, 3);
    check_case("%zu rows of %zu numbers", n_rows, count);
    float *from = guard_take("from", n_rows * from_stride * sizeof *from, sizeof *from);
    float *to = guard_take("to", n_rows * to_stride * sizeof *to, sizeof *to);
    float *expected = guard_take("the expected numbers", n_rows * to_stride * sizeof *expected, sizeof *expected);
    float *factors = guard_take("factors", n_rows * sizeof *factors, sizeof *factors);
    for (size_t i = 0; i < n_rows * from_stride; i++)
        from[i] = (float)random_normal(random);
    memset(to, 1, n_rows * to_stride * sizeof *to);
    memset(expected, 1, n_rows * to_stride * sizeof *expected);
    for (size_t row = 0; row < n_rows; row++) {
        factors[row] = (float)random_normal(random);
        for (size_t i = 0; i < count; i++)
            expected[row * to_stride + i] = from[row * from_stride + i] * factors[row];
    }
    guard_read_only(from);
    guard_read_only(factors);
    k->scale_rows(to, to_stride, from, from_stride, n_rows, count, factors);
    if (memcmp(to, expected, n_rows * to_stride * sizeof *to) != 0)
        check_fail("not the numbers times their row's factor");
    guard_end();
}

static void check_adding_rows(const struct kernels *k, struct random *random, size_t n_rows, size_t count)
{
    const size_t from_stride = count + random_size(random, 0, 3), to_stride = count + random_size(random, 0, 3);
    check_case("%zu rows of %zu numbers added", n_rows, count);
    float *from = guard_take("from", n_rows * from_stride * sizeof *from, sizeof *from);
    float *to = guard_take("to", n_rows * to_stride * sizeof *to, sizeof *to);
    float *expected = guard_take("the expected numbers", n_rows * to_stride * sizeof *expected, sizeof *expected);
    for (size_t i = 0; i < n_rows * from_stride; i++)
        from[i] = (float)random_normal(random);
    for (size_t i = 0; i < n_rows * to_stride; i++)
        expected[i] = to[i] = (float)random_normal(random);
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < count; i++)
            expected[row * to_stride + i] += from[row * from_stride + i];
    guard_read_only(from);
    k->add_rows(to, to_stride, from, from_stride, n_rows, count);
    if (memcmp(to, expected, n_rows * to_stride * sizeof *to) != 0)
        check_fail("not the sums");
    guard_end();
}

void check_scale(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t count = 0; count <= 300; count++)
            for (int in_place = 0; in_place < 2; in_place++)
                check_scaling(k, random, count, in_place);
        check_scaling(k, random, 100003, false);
        for (size_t count = 1; count <= 70; count++)
            check_scaling_rows(k, random, random_size(random, 1, 9), count);
        for (size_t count = 1; count <= 70; count++)
            check_adding_rows(k, random, random_size(random, 1, 9), count);
    }
}
