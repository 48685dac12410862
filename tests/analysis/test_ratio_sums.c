/* Means and standard errors against the two-pass formula, in long double. */
#include "analysis/ratio_sums.h"

#include "engine/random.h"
#include "suite.h"

#include <math.h>

enum { MOST = 40 };

static void direct(const double *y, const double *n, size_t count, double *mean, double *stderr_)
{
    long double sum_y = 0, sum_n = 0, squares = 0, with_rows = 0;
    for (size_t i = 0; i < count; i++) {
        sum_y += n[i] > 0 ? (long double)y[i] : 0;
        sum_n += (long double)n[i];
        with_rows += n[i] > 0;
    }
    for (size_t i = 0; i < count; i++)
        if (n[i] > 0) {
            const long double difference = (long double)y[i] - sum_y / sum_n * (long double)n[i];
            squares += difference * difference;
        }
    *mean = (double)(sum_y / sum_n);
    *stderr_ = (double)(sqrtl(with_rows / (with_rows - 1) * squares) / sum_n);
}

static void expect_near(double got, double wanted, double relative)
{
    ck_assert_msg(fabs(got - wanted) <= relative * fabs(wanted), "got %.17g, expected %.17g", got, wanted);
}

/* Means near `level` with a spread of 1: the sums of squares would cancel if they were not about an offset. */
START_TEST(random_sequences)
{
    static const double levels[] = {0, 1, -30, 1e6, 1e9};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random random = {seed};
        const size_t count = random_size(&random, 2, MOST), cut = random_size(&random, 0, count);
        const double level = levels[_i];
        double y[MOST], n[MOST], mean, error;
        struct ratio_sums whole = {0}, one = {0}, two = {0};
        for (size_t i = 0; i < count; i++) {
            n[i] = i < 2 ? 3 : (double)random_size(&random, 0, 50);
            y[i] = n[i] * (level + random_normal(&random));
            ratio_sums_add(&whole, y[i], n[i]);
            ratio_sums_add(i < cut ? &one : &two, y[i], n[i]);
        }
        direct(y, n, count, &mean, &error);
        expect_near(ratio_sums_mean(&whole), mean, fabs(level) > 0 ? 1e-13 : 1e-9);
        expect_near(ratio_sums_stderr(&whole), error, 1e-9 + 1e-15 * fabs(level));
        ratio_sums_merge(&one, &two);
        expect_near(ratio_sums_mean(&one), mean, fabs(level) > 0 ? 1e-13 : 1e-9);
        expect_near(ratio_sums_stderr(&one), error, 1e-9 + 1e-15 * fabs(level));
        ck_assert(one.sequences == whole.sequences && one.n == whole.n && one.nn == whole.nn);
    }
}
END_TEST

START_TEST(few_sequences)
{
    struct ratio_sums sums = {0}, none = {0};
    ck_assert(isnan(ratio_sums_mean(&sums)) && isnan(ratio_sums_stderr(&sums)));
    ratio_sums_add(&sums, 5, 0);
    ck_assert(sums.sequences == 0 && isnan(ratio_sums_mean(&sums)));
    ratio_sums_add(&sums, 6, 4);
    ck_assert(ratio_sums_mean(&sums) == 1.5 && isnan(ratio_sums_stderr(&sums)));
    ratio_sums_merge(&sums, &none);
    ck_assert(ratio_sums_mean(&sums) == 1.5 && isnan(ratio_sums_stderr(&sums)));
    ratio_sums_merge(&none, &sums);
    ratio_sums_merge(&none, &sums);
    ck_assert(ratio_sums_mean(&none) == 1.5 && ratio_sums_stderr(&none) == 0);
}
END_TEST

START_TEST(equal_sequences_have_no_error)
{
    struct ratio_sums sums = {0};
    for (int i = 1; i < 30; i++)
        ratio_sums_add(&sums, 0.1 * i, i);
    ck_assert(fabs(ratio_sums_mean(&sums) - 0.1) < 1e-15);
    ck_assert(ratio_sums_stderr(&sums) >= 0 && ratio_sums_stderr(&sums) < 1e-16);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/ratio_sums");
    TCase *t = tcase_create("ratio_sums");
    tcase_add_loop_test(t, random_sequences, 0, 5);
    tcase_add_test(t, few_sequences);
    tcase_add_test(t, equal_sequences_have_no_error);
    suite_add_tcase(s, t);
    return s;
}
