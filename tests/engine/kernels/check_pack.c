/* packed_floats, pack and pack_transposed: every bit of the packed form, which head_output relies on, for every edge of
 * panels and vectors. */

#include "check.h"

#include "guard.h"
#include "reference.h"

#include <string.h>

static void check_one(const struct kernels *k, struct random *random, size_t depth, size_t columns, bool transposed)
{
    const size_t inner = transposed ? depth : columns, outer = transposed ? columns : depth;
    const size_t stride = inner + random_size(random, 0, 3), floats = reference_packed_floats(k, depth, columns);
    check_case("%s [%zu, %zu], rows %zu apart", transposed ? "pack_transposed" : "pack", depth, columns, stride);
    if (k->packed_floats(depth, columns) != floats || floats > depth * kernel_padded(columns))
        check_fail("packed_floats is %zu, not %zu", k->packed_floats(depth, columns), floats);

    uint32_t *b = guard_take("b", (outer ? (outer - 1) * stride + inner : 0) * sizeof *b, sizeof *b);
    float *packed = guard_take("packed", floats * sizeof *packed, k->vector_floats * sizeof *packed);
    float *expected = guard_take("the expected panels", floats * sizeof *expected, sizeof *expected);
    for (size_t row = 0; row < outer; row++)
        for (size_t i = 0; i < inner; i++) /* any bits: all kinds of NaN, infinities, subnormals */
            b[row * stride + i] = random_chance(random, 0.1) ? 0x7F800001u : (uint32_t)random_bits(random);
    guard_read_only(b);
    if (transposed) {
        k->pack_transposed((const float *)b, stride, depth, columns, packed);
        reference_pack(k, (const float *)b, 1, stride, depth, columns, expected);
    } else {
        k->pack((const float *)b, stride, depth, columns, packed);
        reference_pack(k, (const float *)b, stride, 1, depth, columns, expected);
    }
    for (size_t i = 0; i < floats; i++)
        if (memcmp(&packed[i], &expected[i], sizeof *packed) != 0)
            check_fail("number %zu of the panels is %g, not %g", i, (double)packed[i], (double)expected[i]);
    guard_end();
}

void check_pack(const struct kernels *k, struct random *random)
{
    static const size_t depths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33};
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (int transposed = 0; transposed < 2; transposed++) {
            for (size_t columns = 1; columns <= 2 * k->panel_columns + 3; columns++)
                for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
                    check_one(k, random, depths[i], columns, transposed);
            check_one(k, random, 769, 3 * k->panel_columns + 1, transposed);
            check_one(k, random, 64, 1000, transposed);
        }
    }
}
