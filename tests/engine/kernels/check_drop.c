/* drop, against the scalar generator. */

#include "check.h"

#include "engine/philox.h"
#include "guard.h"

#include <math.h>
#include <string.h>

static void check_dropping(const struct kernels *k, struct random *random, size_t count, uint32_t first_key,
                           bool in_place)
{
    static const uint32_t limits[] = {0, 1, 1677722, 8388608, 16777215, 16777216};
    const uint32_t limit = limits[random_size(random, 0, 5)];
    const uint32_t counter[3] = {(uint32_t)random_size(random, 0, UINT32_MAX), (uint32_t)random_size(random, 0, 5),
                                 (uint32_t)random_size(random, 0, UINT32_MAX)};
    const uint64_t seed = random_size(random, 0, ((size_t)1 << 53) - 1);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    check_case("%zu keys from %u, limit %u%s", count, first_key, limit, in_place ? ", in place" : "");
    float *from = guard_take("from", count * sizeof *from, sizeof *from);
    float *to = in_place ? from : guard_take("to", count * sizeof *to, sizeof *to);
    float *expected = guard_take("the expected weights", count * sizeof *expected, sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        const uint32_t at = first_key + (uint32_t)i;
        uint32_t numbers[4];
        philox((const uint32_t[4]){counter[0], counter[1], counter[2], at / 4}, seed, numbers);
        from[i] = random_chance(random, 0.1) ? NAN : (float)random_normal(random);
        expected[i] = numbers[at % 4] >> 8 < limit ? 0 : from[i];
    }
    if (!in_place)
        guard_read_only(from);
    k->drop(to, from, count, first_key, counter, key, limit);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&to[i], &expected[i], sizeof *to) != 0)
            check_fail("weight %zu is %.9g, not %.9g", i, (double)to[i], (double)expected[i]);
    guard_end();
}

void check_drop(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t count = 0; count <= 140; count++)
            check_dropping(k, random, count, (uint32_t)random_size(random, 0, 130), count % 2);
        for (uint32_t first_key = 0; first_key < 9; first_key++)
            check_dropping(k, random, 1000, first_key, false);
        check_dropping(k, random, 70, UINT32_MAX - 69, false);
    }
}
