/* rotate: every number of pairs up to some vectors, in either order, in heads that have more components than are
 * turned. */

#include "check.h"

#include "guard.h"

#include <math.h>

static void fill_turns(struct random *random, const struct rotation *r, float *turns, size_t n_rows)
{
    const size_t pairs = r->dims / 2;
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < pairs; i++) {
            float *to = turns + row * r->turns_stride;
            const double angle = 7 * random_normal(random);
            const float cosine = (float)cos(angle), sine = (float)sin(angle);
            if (r->interleaved) {
                to[2 * i] = to[2 * i + 1] = cosine;
                to[r->dims + 2 * i] = -sine;
                to[r->dims + 2 * i + 1] = sine;
            } else {
                to[i] = cosine;
                to[pairs + i] = sine;
            }
        }
}

/* Two products and a sum, fused or not, of numbers that float32 has. */
static void compare(float is, double a, double cosine, double b, double sine, const char *which, size_t pair)
{
    const double expected = a * cosine + b * sine, bound = 2e-7 * (fabs(a * cosine) + fabs(b * sine)) + 1e-44;
    if (!(fabs((double)is - expected) <= bound))
        check_fail("the %s of pair %zu is %.9g, not %.9g", which, pair, (double)is, expected);
}

static void check_one(const struct kernels *k, struct random *random, size_t dims, bool interleaved)
{
    const size_t n_rows = random_size(random, 1, 5), n_heads = random_size(random, 1, 4);
    struct rotation r = {.d_k = dims + random_size(random, 0, 3), .dims = dims, .interleaved = interleaved};
    const size_t columns = n_heads * r.d_k, stride = columns + random_size(random, 0, 3);
    r.turns_stride = (interleaved ? 2 : 1) * dims + random_size(random, 0, 2);
    check_case("%zu of %zu components, %s, of %zu rows of %zu heads", dims, r.d_k,
               interleaved ? "neighbours" : "halves", n_rows, n_heads);
    const size_t turns_floats = (n_rows - 1) * r.turns_stride + (interleaved ? 2 : 1) * dims,
                 x_floats = (n_rows - 1) * stride + columns;
    float *turns = guard_take("turns", turns_floats * sizeof *turns, sizeof *turns);
    float *x = guard_take("x", x_floats * sizeof *x, sizeof *x);
    float *before = guard_take("x as it was", x_floats * sizeof *x, sizeof *x);
    fill_turns(random, &r, turns, n_rows);
    r.turns = turns;
    for (size_t i = 0; i < x_floats; i++)
        before[i] = x[i] = (float)random_normal(random);
    guard_read_only(turns);
    k->rotate(&r, x, stride, n_rows, n_heads);
    for (size_t at = 0; at < x_floats; at++) {
        const size_t row = at / stride, column = at % stride, place = column % r.d_k;
        if (column >= columns || place >= dims) {
            if (x[at] != before[at])
                check_fail("number %zu of row %zu is not to be turned", column, row);
            continue;
        }
        const size_t pairs = dims / 2, pair = interleaved ? place / 2 : place % pairs, apart = interleaved ? 1 : pairs;
        const bool second = interleaved ? place % 2 : place >= pairs;
        const float *turn = turns + row * r.turns_stride;
        const double cosine = (double)turn[interleaved ? 2 * pair : pair],
                     sine = (double)(interleaved ? turn[dims + 2 * pair + 1] : turn[pairs + pair]);
        if (second)
            compare(x[at], (double)before[at], cosine, (double)before[at - apart], sine, "second", pair);
        else
            compare(x[at], (double)before[at], cosine, (double)before[at + apart], -sine, "first", pair);
    }
    guard_end();
}

void check_rotate(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t dims = 2; dims <= 8 * k->vector_floats + 10; dims += 2)
            for (int interleaved = 0; interleaved < 2; interleaved++)
                check_one(k, random, dims, interleaved);
    }
}
