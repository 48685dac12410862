/* Drift between made-up lots of sequences, against formulas written out here. */
#include "analysis/live_drift.h"

#include "suite.h"

#include <math.h>

static const struct drift_limits limits = DRIFT_LIMITS_DEFAULT;

/* `count` sequences of 10 rows, whose means are mean + spread and mean - spread in turn. */
static struct ratio_sums lot(size_t count, double mean, double spread)
{
    struct ratio_sums sums = {0};
    for (size_t i = 0; i < count; i++)
        ratio_sums_add(&sums, 10 * (mean + (i % 2 ? spread : -spread)), 10);
    return sums;
}

START_TEST(z_and_effect_are_as_defined)
{
    const struct ratio_sums before = lot(100, 2, 0.1), within = lot(50, 2.2, 0.1);
    const struct drift got = live_drift(&before, &within, &limits);
    /* sum (y - R n)^2 = B (10 * 0.1)^2 = B, over (10 B)^2 */
    const double before_error = sqrt(100.0 / 99 * 100) / 1000, within_error = sqrt(50.0 / 49 * 50) / 500;
    ck_assert(fabs(got.baseline - 2) < 1e-12 && fabs(got.window - 2.2) < 1e-12);
    ck_assert(fabs(got.z - 0.2 / hypot(before_error, within_error)) < 1e-9);
    ck_assert(fabs(got.effect - 0.2 / (before_error * 10)) < 1e-9);
    ck_assert(got.drifted);
}
END_TEST

START_TEST(both_limits_are_needed)
{
    const struct ratio_sums before = lot(100000, 2, 0.1), within = lot(100000, 2.01, 0.1);
    const struct drift small = live_drift(&before, &within, &limits);
    ck_assert(small.z > 4 && small.effect < 0.2 && !small.drifted);
    const struct ratio_sums few = lot(30, 2, 0.1), other = lot(30, 2.05, 0.1);
    const struct drift weak = live_drift(&few, &other, &limits);
    ck_assert(weak.z < 4 && weak.effect > 0.2 && !weak.drifted);
    const struct drift_limits lower = {1, 0.2, 30};
    ck_assert(live_drift(&few, &other, &lower).drifted);
    const struct drift down = live_drift(&other, &few, &lower);
    ck_assert(down.z < 0 && down.effect < 0 && down.drifted);
}
END_TEST

static bool is_undefined(struct ratio_sums before, struct ratio_sums within)
{
    const struct drift got = live_drift(&before, &within, &limits);
    return isnan(got.z) && isnan(got.effect) && !got.drifted;
}

START_TEST(undefined_with_few_sequences_or_no_spread)
{
    ck_assert(is_undefined(lot(29, 2, 0.1), lot(100, 2, 0.1)));
    ck_assert(is_undefined(lot(100, 2, 0.1), lot(29, 2, 0.1)));
    ck_assert(!is_undefined(lot(30, 2, 0.1), lot(30, 2, 0.1)));
    ck_assert(is_undefined((struct ratio_sums){0}, lot(100, 2, 0.1)));
    ck_assert(is_undefined(lot(100, 2, 0), lot(100, 3, 0)));
    ck_assert(is_undefined(lot(100, 2, 1e-12), lot(100, 3, 0.1)));
    ck_assert(is_undefined(lot(100, 0, 0), lot(100, 0, 0)));
    const struct ratio_sums none = {0}, some = lot(40, 3, 0.1);
    ck_assert(isnan(live_drift(&none, &some, &limits).baseline));
    ck_assert(fabs(live_drift(&none, &some, &limits).window - 3) < 1e-12);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/live_drift");
    TCase *t = tcase_create("live_drift");
    tcase_add_test(t, z_and_effect_are_as_defined);
    tcase_add_test(t, both_limits_are_needed);
    tcase_add_test(t, undefined_with_few_sequences_or_no_spread);
    suite_add_tcase(s, t);
    return s;
}
