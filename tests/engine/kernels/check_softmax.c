/* softmax: against float64 for every length, every mixture of bias and mask and scores of every size; what it must make
 * of NaN, infinities and rows without a key. */

#include "check.h"

#include "guard.h"
#include "reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { KEYS_MOST = 20000 };

enum scores { USUAL, LARGE, HUGE_SCORES, SUBNORMAL, EQUAL, ENDS_OF_RANGE, SCORE_KINDS };

struct row {
    size_t n_keys, width;
    float *scores;           /* [width] */
    float *bias;             /* [n_keys] or NULL */
    uint8_t *allowed;        /* [n_keys] or NULL */
    float before[KEYS_MOST]; /* the scores */
    double weights[KEYS_MOST];
};

static float draw(struct random *random, enum scores kind)
{
    const float normal = (float)random_normal(random);
    switch (kind) {
    case LARGE:
        return normal * 1e4f;
    case HUGE_SCORES:
        return normal * 1e30f;
    case SUBNORMAL:
        return normal * 1e-40f;
    case EQUAL:
        return -7.25f;
    case ENDS_OF_RANGE:
        return normal < 0 ? -FLT_MAX : FLT_MAX;
    default:
        return normal * 3;
    }
}

static void open_row(struct row *r, struct random *random, size_t n_keys, bool biased, bool masked, enum scores kind)
{
    r->n_keys = n_keys;
    r->width = kernel_padded(n_keys) + KERNEL_PAD * random_size(random, 0, 2);
    r->scores = guard_take("scores", r->width * sizeof *r->scores, 64);
    r->bias = biased ? guard_take("bias", n_keys * sizeof *r->bias, sizeof *r->bias) : NULL;
    r->allowed = masked ? guard_take("allowed", n_keys, 1) : NULL;
    const double kept = random_chance(random, 0.1) ? 0 : random_chance(random, 0.1) ? 1 : 0.7;
    for (size_t j = 0; j < n_keys; j++) {
        r->scores[j] = draw(random, kind);
        if (biased)
            r->bias[j] = random_chance(random, 0.1) ? -INFINITY : (float)random_normal(random);
        if (masked)
            r->allowed[j] = random_chance(random, kept);
    }
    check_case("%zu keys of width %zu,%s%s scores of kind %d", n_keys, r->width, biased ? " bias," : "",
               masked ? " mask," : "", (int)kind);
}

/* From here on bias and mask are read-only. */
static double run(const struct kernels *k, struct row *r)
{
    memcpy(r->before, r->scores, r->n_keys * sizeof *r->before);
    if (r->bias)
        guard_read_only(r->bias);
    if (r->allowed)
        guard_read_only(r->allowed);
    return k->softmax(r->scores, r->n_keys, r->width, r->bias, r->allowed);
}

/* Of exp, and of the rounded difference to the maximum; below 1.2e-38 the result is 0. */
static double weight_bound(double expected)
{
    return 1.2e-38 + (expected > 0 ? (1.5e-7 + 6e-8 * -log(expected)) * expected : 0);
}

static void check_weights(struct row *r, double sum)
{
    const double expected = reference_softmax(r->before, r->n_keys, r->bias, r->allowed, r->weights);
    if (!(fabs(sum - expected) <= 5e-7 * expected))
        check_fail("the sum is %.9g, not %.9g", sum, expected);
    if (sum != 0 && !(sum >= 1 && sum <= (double)r->n_keys))
        check_fail("the sum is %.9g, which is not between 1 and the number of keys", sum);
    for (size_t j = 0; j < r->n_keys; j++) {
        const double found = (double)r->scores[j];
        const bool hidden = (r->allowed && !r->allowed[j]) || (r->bias && r->bias[j] == -INFINITY);
        if (hidden ? found != 0 : !(fabs(found - r->weights[j]) <= weight_bound(r->weights[j])))
            check_fail("weight %zu is %.9g, not %.9g", j, found, hidden ? 0 : r->weights[j]);
    }
    for (size_t j = r->n_keys; j < r->width; j++)
        if (r->scores[j] != 0)
            check_fail("behind the keys, at %zu, is %g, not 0", j, (double)r->scores[j]);
}

/* The same row with more room behind it: the same bits. */
static void check_wider(const struct kernels *k, const struct row *r, double sum)
{
    const size_t width = r->width + KERNEL_PAD * 3;
    float *wide = guard_take("wider scores", width * sizeof *wide, 64);
    memcpy(wide, r->before, r->n_keys * sizeof *wide);
    const double found = k->softmax(wide, r->n_keys, width, r->bias, r->allowed);
    if (memcmp(&found, &sum, sizeof sum) != 0 || memcmp(wide, r->scores, r->n_keys * sizeof *wide) != 0)
        check_fail("other bits when the row has more room behind it");
}

static void check_row(const struct kernels *k, struct random *random, size_t n_keys, bool biased, bool masked)
{
    static struct row r;
    open_row(&r, random, n_keys, biased, masked, (enum scores)random_size(random, 0, SCORE_KINDS - 1));
    if (masked && random_chance(random, 0.3))
        for (size_t j = 0; j < n_keys; j++)
            if (!r.allowed[j]) /* what is hidden does not count, whatever it is */
                r.scores[j] = random_chance(random, 0.5) ? NAN : INFINITY;
    const double sum = run(k, &r);
    check_weights(&r, sum);
    check_wider(k, &r, sum);
    guard_end();
}

/* A NaN or +infinity among the allowed scores makes the sum NaN, wherever it is and whichever argument has it. */
static void check_fault(const struct kernels *k, struct random *random, size_t n_keys, size_t at)
{
    static struct row r;
    static const float faults[] = {NAN, INFINITY};
    const bool biased = random_chance(random, 0.5), masked = random_chance(random, 0.5);
    open_row(&r, random, n_keys, biased, masked, USUAL);
    const float fault = faults[random_size(random, 0, 1)];
    if (masked)
        r.allowed[at] = 1;
    if (biased)
        r.bias[at] = 1;
    if (biased && random_chance(random, 0.5))
        r.bias[at] = fault;
    else
        r.scores[at] = fault;
    const double sum = run(k, &r);
    if (!isnan(sum))
        check_fail("a score of %g at %zu, and the sum is %g, not NaN", (double)fault, at, sum);
    guard_end();
}

/* Rows that are left without a key: nothing but the mask, nothing but bias, scores of -infinity, sums that overflow. */
static void check_nothing_left(const struct kernels *k, struct random *random, size_t n_keys)
{
    static struct row r;
    for (int how = 0; how < 4; how++) {
        open_row(&r, random, n_keys, how == 1 || how == 3, how == 0, USUAL);
        for (size_t j = 0; j < n_keys; j++) {
            if (how == 0)
                r.allowed[j] = 0;
            if (how == 1)
                r.bias[j] = -INFINITY;
            if (how == 2)
                r.scores[j] = -INFINITY;
            if (how == 3)
                r.bias[j] = r.scores[j] = -FLT_MAX;
        }
        const double sum = run(k, &r);
        if (sum != 0)
            check_fail("no key is left (case %d), and the sum is %g", how, sum);
        for (size_t j = 0; j < r.width; j++)
            if (r.scores[j] != 0)
                check_fail("no key is left (case %d), and weight %zu is %g", how, j, (double)r.scores[j]);
        guard_end();
    }
}

/* Equal weights are all rounded alike when they are added, so that nothing averages out. */
static void check_long_sums(const struct kernels *k, struct random *random)
{
    static struct row r;
    for (int gap = 1; gap <= 20; gap++) {
        open_row(&r, random, KEYS_MOST, false, false, USUAL);
        for (size_t j = 0; j < KEYS_MOST; j++)
            r.scores[j] = j == 0 ? 0.1f * (float)gap : 0;
        const double found = run(k, &r);
        double sum = 0;
        for (size_t j = 0; j < KEYS_MOST; j++)
            sum += (double)r.scores[j];
        if (!(fabs(found - sum) <= 6e-7 * sum))
            check_fail("the weights sum to %.9g, and it says %.9g", sum, found);
        guard_end();
    }
}

void check_softmax(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t n = 0; n <= 300; n++)
            for (int arguments = 0; arguments < 4; arguments++)
                for (int i = 0; i < 3; i++)
                    check_row(k, random, n, arguments & 1, arguments & 2);
        for (size_t i = 0; i < 40; i++)
            check_row(k, random, random_size(random, 300, 3000), random_chance(random, 0.5),
                      random_chance(random, 0.5));
        for (size_t n = 1; n <= 80; n++) {
            check_nothing_left(k, random, n);
            for (size_t at = 0; at < n; at++)
                check_fault(k, random, n, at);
        }
    }
    check_long_sums(k, random);
}
