/* narrow_panel and widen: every bit, for every width and count; and that one undoes the other. */

#include "check.h"

#include "guard.h"
#include "reference.h"

#include <math.h>
#include <string.h>

/* Finite, half of them as near two numbers of bfloat16 as can be. */
static float draw(struct random *random)
{
    float x;
    do {
        uint32_t bits = (uint32_t)random_bits(random);
        if (random_chance(random, 0.5))
            bits = (bits & 0xffff0000u) + 0x7fff + (uint32_t)random_size(random, 0, 2);
        memcpy(&x, &bits, sizeof x);
    } while (!isfinite(x) || !isfinite(reference_bf16_value(reference_bf16(x))));
    return x;
}

static void check_narrowing(const struct kernels *k, struct random *random, size_t n_rows, size_t columns)
{
    const size_t width = reference_packed_floats(k, 1, columns), count = reference_pairs_count(k, n_rows, columns);
    check_case("a panel of %zu rows of %zu columns", n_rows, columns);
    if (count > n_rows * kernel_pairs(columns))
        check_fail("%zu numbers of 32 bits, more than are counted", count);
    float *b = guard_take("b", n_rows * columns * sizeof *b, sizeof *b);
    float *panel = guard_take("panel", n_rows * width * sizeof *panel, k->vector_floats * sizeof *panel);
    uint32_t *pairs = guard_take("pairs", count * sizeof *pairs, k->vector_floats * sizeof *pairs);
    uint32_t *expected = guard_take("the expected pairs", count * sizeof *expected, sizeof *expected);
    for (size_t i = 0; i < n_rows * columns; i++)
        b[i] = draw(random);
    k->pack(b, columns, n_rows, columns, panel);
    guard_read_only(panel);
    reference_pairs(k, b, n_rows, columns, expected);
    k->narrow_panel(panel, n_rows, width, pairs);
    for (size_t i = 0; i < count; i++)
        if (pairs[i] != expected[i])
            check_fail("number %zu is %08x, not %08x", i, pairs[i], expected[i]);
    guard_end();
}

static void check_widening(const struct kernels *k, struct random *random, size_t count, bool adds)
{
    const float factor = adds || random_chance(random, 0.5) ? 1 : (float)random_normal(random);
    check_case("%zu numbers of bfloat16 %s, times %g", count, adds ? "added" : "widened", (double)factor);
    uint16_t *from = guard_take("from", count * sizeof *from, sizeof *from);
    float *to = guard_take("to", count * sizeof *to, sizeof *to);
    float *expected = guard_take("the expected numbers", count * sizeof *expected, sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        from[i] = reference_bf16((float)random_normal(random) * (random_chance(random, 0.2) ? 1e-38f : 1));
        to[i] = (float)random_normal(random);
        expected[i] = adds ? to[i] + reference_bf16_value(from[i]) : reference_bf16_value(from[i]) * factor;
    }
    guard_read_only(from);
    k->widen(to, from, count, factor, adds);
    if (memcmp(to, expected, count * sizeof *to) != 0)
        check_fail("not these numbers");
    guard_end();
}

void check_bfloat(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t columns = 1; columns <= k->panel_columns; columns++)
            for (size_t n_rows = 0; n_rows <= 9; n_rows++)
                check_narrowing(k, random, n_rows, columns);
        for (size_t count = 0; count <= 200; count++)
            for (int adds = 0; adds < 2; adds++)
                check_widening(k, random, count, adds);
    }
}
