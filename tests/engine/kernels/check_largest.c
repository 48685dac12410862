/* keep_largest: against a sort, for scores that are all different, that are mostly equal, of both signs of zero, and
 * for what is not finite. */

#include "check.h"

#include "guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MOST = 700 };

enum scores { DIFFERENT, FEW_VALUES, ZEROS, TINY, WIDE, SCORE_KINDS };

static float draw(struct random *random, enum scores kind)
{
    static const float zeros[] = {0.0f, -0.0f, 0.0f, -0.0f, 1e-45f, -1e-45f};
    switch (kind) {
    case FEW_VALUES:
        return (float)random_size(random, 0, 3) - 2;
    case ZEROS:
        return zeros[random_size(random, 0, 5)];
    case TINY:
        return (float)random_normal(random) * 1e-43f;
    case WIDE:
        return ldexpf((float)random_normal(random), (int)random_size(random, 0, 200) - 100);
    default:
        return (float)random_normal(random);
    }
}

struct ranked {
    float score;
    size_t key;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->key < y->key ? -1 : 1;
}

static void check_row(const struct kernels *kernels, struct random *random, size_t n_keys)
{
    static struct ranked order[KEYS_MOST];
    static float sums[KEYS_MOST];
    static bool kept[KEYS_MOST];
    const enum scores kind = (enum scores)random_size(random, 0, SCORE_KINDS - 1);
    const bool biased = random_chance(random, 0.3), masked = random_chance(random, 0.4),
               faulty = random_chance(random, 0.1);
    const size_t k = random_chance(random, 0.1) ? n_keys + random_size(random, 0, 9) : random_size(random, 1, n_keys);
    check_case("%zu of %zu keys,%s%s%s scores of kind %d", k, n_keys, biased ? " bias," : "", masked ? " mask," : "",
               faulty ? " NaN," : "", (int)kind);
    float *scores = guard_take("scores", kernel_padded(n_keys) * sizeof *scores, 64);
    float *bias = biased ? guard_take("bias", n_keys * sizeof *bias, sizeof *bias) : NULL;
    uint8_t *allowed = masked ? guard_take("allowed", n_keys, 1) : NULL;
    size_t n_left = 0;
    for (size_t j = 0; j < n_keys; j++) {
        scores[j] = faulty && random_chance(random, 0.1) ? NAN : draw(random, kind);
        if (biased)
            bias[j] = random_chance(random, 0.1) ? -INFINITY : draw(random, kind);
        if (masked)
            allowed[j] = random_chance(random, 0.6);
        sums[j] = biased ? scores[j] + bias[j] : scores[j];
        kept[j] = (!masked || allowed[j]) && isnan(sums[j]);
        if ((!masked || allowed[j]) && !isnan(sums[j]))
            order[n_left++] = (struct ranked){sums[j], j};
    }
    qsort(order, n_left, sizeof *order, compare);
    for (size_t n = 0; n < n_left && n < k; n++)
        kept[order[n].key] = true;
    kernels->keep_largest(scores, n_keys, bias, allowed, k);
    for (size_t j = 0; j < n_keys; j++) {
        const float expected = kept[j] ? sums[j] : -INFINITY;
        if (biased || masked || n_left > k ? memcmp(&scores[j], &expected, sizeof expected) != 0 && !isnan(expected)
                                           : scores[j] != expected && !isnan(expected))
            check_fail("score %zu is %.9g, not %.9g", j, (double)scores[j], (double)expected);
        if (isnan(expected) && !isnan(scores[j]))
            check_fail("score %zu was NaN and is %g", j, (double)scores[j]);
    }
    guard_end();
}

void check_largest(const struct kernels *kernels, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t n_keys = 1; n_keys <= 200; n_keys++)
            for (int i = 0; i < 10; i++)
                check_row(kernels, random, n_keys);
        for (int i = 0; i < 50; i++)
            check_row(kernels, random, random_size(random, 200, KEYS_MOST));
    }
}
