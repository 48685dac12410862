/* multiply_double, against long double; and that a row's bits depend neither on the other rows nor on the columns
 * beside.
 */

#include "check.h"

#include "guard.h"

#include <math.h>
#include <string.h>

static void check_product(const struct kernels *k, struct random *random, size_t rows, size_t depth, size_t columns)
{
    const size_t a_stride = depth + random_size(random, 0, 3),
                 b_stride = columns + KERNEL_PAD_DOUBLES * random_size(random, 0, 2),
                 c_stride = columns + KERNEL_PAD_DOUBLES * random_size(random, 0, 2);
    check_case("%zu rows of [%zu, %zu]", rows, depth, columns);
    double *a = guard_take("a", rows * a_stride * sizeof *a, sizeof *a);
    double *b = guard_take("b", depth * b_stride * sizeof *b, 64);
    double *c = guard_take("c", rows * c_stride * sizeof *c, 64);
    double *alone = guard_take("one row", columns * sizeof *c, 64);
    for (size_t i = 0; i < rows * a_stride; i++)
        a[i] = random_normal(random);
    for (size_t i = 0; i < depth * b_stride; i++)
        b[i] = random_normal(random);
    guard_read_only(a);
    guard_read_only(b);
    k->multiply_double(a, a_stride, b, b_stride, c, c_stride, rows, depth, columns);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            long double sum = 0, size = 0;
            for (size_t n = 0; n < depth; n++) {
                const long double term = (long double)a[i * a_stride + n] * (long double)b[n * b_stride + j];
                sum += term;
                size += fabsl(term);
            }
            if (!(fabsl(sum - (long double)c[i * c_stride + j]) <= (long double)depth * 0x1p-53L * size))
                check_fail("element %zu, %zu is %.17g, not %.17Lg", i, j, c[i * c_stride + j], sum);
        }
        if (!guard_untouched(c + i * c_stride + columns, (c_stride - columns) * sizeof *c))
            check_fail("what is behind row %zu was written to", i);
        k->multiply_double(a + i * a_stride, a_stride, b, b_stride, alone, columns, 1, depth, KERNEL_PAD_DOUBLES);
        if (memcmp(alone, c + i * c_stride, KERNEL_PAD_DOUBLES * sizeof *c) != 0)
            check_fail("row %zu has other bits alone", i);
    }
    guard_end();
}

void check_multiply_double(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t rows = 1; rows <= 9; rows++)
            for (size_t columns = 1; columns <= 9; columns++)
                check_product(k, random, rows, random_size(random, 0, 40), columns * KERNEL_PAD_DOUBLES);
        check_product(k, random, 33, 300, 64);
    }
}
