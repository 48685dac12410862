/* softmax: against float64 for every length, every mixture of bias and mask and scores of every size; what it must make
 * of NaN, infinities and rows without a key; its exponential, over the whole range. softmax_rows: the same bits, row by
 * row. */

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
    return k->softmax(r->scores, r->n_keys, r->width, r->bias, r->allowed, NULL);
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
    const double found = k->softmax(wide, r->n_keys, width, r->bias, r->allowed, NULL);
    if (memcmp(&found, &sum, sizeof sum) != 0 || memcmp(wide, r->scores, r->n_keys * sizeof *wide) != 0)
        check_fail("other bits when the row has more room behind it");
}

/* The same row, and the sum of weight * ln weight: the same bits, and that of float64. */
static void check_logs(const struct kernels *k, const struct row *r, double sum)
{
    float *again = guard_take("scores again", r->width * sizeof *again, 64);
    double logs, expected = 0;
    memcpy(again, r->before, r->n_keys * sizeof *again);
    const double found = k->softmax(again, r->n_keys, r->width, r->bias, r->allowed, &logs);
    if (memcmp(&found, &sum, sizeof sum) != 0 || memcmp(again, r->scores, r->n_keys * sizeof *again) != 0)
        check_fail("other bits where the sum of weight * ln weight is asked for");
    for (size_t j = 0; j < r->n_keys; j++)
        expected += r->weights[j] > 1.2e-38 ? r->weights[j] * log(r->weights[j]) : 0;
    if (!(fabs(logs - expected) <= -1e-6 * expected + 2e-7 * sum))
        check_fail("the sum of weight * ln weight is %.9g, not %.9g", logs, expected);
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
    check_logs(k, &r, sum);
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

enum { BLOCK = 4096 };

/* All that a block of exponents gives, against exp of the C library: the row's maximum is 0, its first score. */
static void check_exponents(const struct kernels *k, float from)
{
    check_case("%d exponents from %.9g down", BLOCK, (double)from);
    float *x = guard_take("scores", BLOCK * sizeof *x, 64);
    for (size_t i = 1; i < BLOCK; i++)
        x[i] = fmaxf(from - 0.05f * (float)i / BLOCK, -87.329f);
    x[0] = 0;
    float before[BLOCK];
    memcpy(before, x, sizeof before);
    k->softmax(x, BLOCK, BLOCK, NULL, NULL, NULL);
    for (size_t i = 0; i < BLOCK; i++) {
        const double error = fabs((double)x[i] / exp((double)before[i]) - 1);
        if (!(error < 1.3e-7))
            check_fail("exp(%.9g) is %.9g: a relative error of %g", (double)before[i], (double)x[i], error);
    }
    guard_end();
}

/* The ends of the range of exponents. */
static void check_ends(const struct kernels *k, size_t n_keys)
{
    static const float ones[] = {0, -0.0f, -1e-30f, -1e-45f, -1e-9f};
    static const float zeros[] = {-87.34f, -88,  -104,   -1e4f,    -3e38f,  -INFINITY,
                                  -87.4f,  -200, -1e20f, -FLT_MAX, -87.331f};
    check_case("%zu special exponents", n_keys);
    const size_t width = kernel_padded(n_keys);
    float *x = guard_take("scores", width * sizeof *x, 64);
    for (size_t i = 0; i < n_keys; i++)
        x[i] = i % 2 == 0 ? ones[i / 2 % 5] : zeros[i / 2 % 11];
    k->softmax(x, n_keys, width, NULL, NULL, NULL);
    for (size_t i = 0; i < n_keys; i++)
        if (i % 2 == 0 ? x[i] != 1 : x[i] != 0 || signbit(x[i]))
            check_fail("exp(%g) is %g", (double)(i % 2 == 0 ? ones[i / 2 % 5] : zeros[i / 2 % 11]), (double)x[i]);
    guard_end();
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
    for (size_t n = 1; n <= 200; n++)
        check_ends(k, n);
    for (float from = 0; from > -87.33f; from -= 0.05f)
        check_exponents(k, from);
}

/* The keys of row i, as kernels.h says. */
static size_t keys_of(ptrdiff_t limit, size_t i, size_t n_keys)
{
    const ptrdiff_t keys = limit + (ptrdiff_t)i;
    return keys < 0 ? 0 : (size_t)keys > n_keys ? n_keys : (size_t)keys;
}

/* Rows of scores of every kind, with NaN and infinities in some, next to scores that are no keys and must not count. */
static void check_rows(const struct kernels *k, struct random *random, size_t n_rows, size_t n_keys, ptrdiff_t limit)
{
    const size_t width = kernel_padded(n_keys), stride = width + KERNEL_PAD * random_size(random, 0, 2);
    check_case("%zu rows of %zu keys, limit %td", n_rows, n_keys, limit);
    float *scores = guard_take("scores", n_rows * stride * sizeof *scores, 64);
    float *inverses = guard_take("inverses", (n_rows + 3) / 4 * 4 * sizeof *inverses, 16);
    float *logs = random_chance(random, 0.5) ? guard_take("logs", (n_rows + 3) / 4 * 4 * sizeof *logs, 16) : NULL;
    float *row = guard_take("one row", width * sizeof *row, 64);
    double row_logs;
    static float before[KEYS_MOST];
    for (size_t i = 0; i < n_rows; i++) {
        const enum scores kind = (enum scores)random_size(random, 0, SCORE_KINDS - 1);
        const bool nothing = random_chance(random, 0.1);
        for (size_t j = 0; j < n_keys; j++)
            scores[i * stride + j] = nothing ? -INFINITY : draw(random, kind);
        if (random_chance(random, 0.1))
            scores[i * stride + random_size(random, 0, n_keys - 1)] = random_chance(random, 0.5) ? NAN : INFINITY;
    }
    memcpy(before, scores, n_rows * stride * sizeof *before);
    k->softmax_rows(scores, stride, n_rows, n_keys, limit, inverses, logs);
    for (size_t i = 0; i < n_rows; i++) {
        const size_t keys = keys_of(limit, i, n_keys);
        memcpy(row, before + i * stride, n_keys * sizeof *row);
        const double sum = k->softmax(row, keys, width, NULL, NULL, &row_logs);
        const float inverse = sum != 0 ? (float)(1 / sum) : keys > 0 ? NAN : 0;
        if (isnan(inverse) ? !isnan(inverses[i]) : memcmp(&inverse, &inverses[i], sizeof inverse) != 0)
            check_fail("1 / sum of row %zu is %.9g, not %.9g", i, (double)inverses[i], (double)inverse);
        for (size_t j = 0; j < n_keys; j++)
            if (isnan(row[j]) ? !isnan(scores[i * stride + j])
                              : memcmp(&row[j], &scores[i * stride + j], sizeof *row) != 0)
                check_fail("weight %zu of row %zu is %.9g, not %.9g", j, i, (double)scores[i * stride + j],
                           (double)row[j]);
        if (logs && sum > 0 && !(fabs((double)logs[i] - row_logs) <= -1e-6 * row_logs))
            check_fail("the sum of weight * ln weight of row %zu is %.9g, not %.9g", i, (double)logs[i], row_logs);
        if (!guard_untouched(scores + i * stride + width, (stride - width) * sizeof *scores))
            check_fail("behind row %zu was written", i);
    }
    guard_end();
}

void check_softmax_rows(const struct kernels *k, struct random *random)
{
    for (enum guard_side side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
        guard_begin(side);
        for (size_t n_keys = 1; n_keys <= 80; n_keys++)
            for (size_t n_rows = 1; n_rows <= 13; n_rows++) {
                check_rows(k, random, n_rows, n_keys, (ptrdiff_t)n_keys);
                check_rows(k, random, n_rows, n_keys, 1);
                check_rows(k, random, n_rows, n_keys, (ptrdiff_t)random_size(random, 0, n_keys + 20) - 20);
            }
        check_rows(k, random, 9, 700, 700);
        check_rows(k, random, 9, 700, 697);
    }
}
