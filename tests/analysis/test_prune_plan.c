/* Every step of a plan against all choices, each summed anew over the whole Gram matrix. */

#include "analysis/prune_plan.h"

#include "engine/problem.h"
#include "suite.h"

#include <math.h>

enum { MOST_HEADS = 12, LENGTH = 20 };

/* ||the sum of the contributions in the set||. */
static double size_of_sum(double c[MOST_HEADS][LENGTH], size_t heads, const bool *in_set)
{
    double squares = 0;
    for (size_t k = 0; k < LENGTH; k++) {
        double sum = 0;
        for (size_t h = 0; h < heads; h++)
            sum += in_set[h] ? c[h][k] : 0;
        squares += sum * sum;
    }
    return sqrt(squares);
}

static void fill_gram(double c[MOST_HEADS][LENGTH], size_t heads, double *gram)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t g = 0; g < heads; g++) {
            gram[h * heads + g] = 0;
            for (size_t k = 0; k < LENGTH; k++)
                gram[h * heads + g] += c[h][k] * c[g][k];
        }
}

START_TEST(every_step_is_the_least)
{
    struct random random = {3};
    double c[MOST_HEADS][LENGTH], gram[MOST_HEADS * MOST_HEADS], cross[MOST_HEADS];
    struct prune_step plan[MOST_HEADS];
    for (int round = 0; round < 300; round++) {
        const size_t heads = random_size(&random, 1, MOST_HEADS);
        const double y = 0.5 + fabs(random_normal(&random)), shared = random_normal(&random);
        for (size_t h = 0; h < heads; h++)
            for (size_t k = 0; k < LENGTH; k++)
                c[h][k] = random_normal(&random) + shared;
        fill_gram(c, heads, gram);
        prune_plan(gram, heads, y, plan, cross);
        bool removed[MOST_HEADS] = {false};
        for (size_t step = 0; step < heads; step++) {
            ck_assert_uint_lt(plan[step].head, heads);
            ck_assert(!removed[plan[step].head]);
            double least = INFINITY;
            for (size_t h = 0; h < heads; h++) {
                if (removed[h])
                    continue;
                removed[h] = true;
                least = fmin(least, size_of_sum(c, heads, removed) / y);
                removed[h] = false;
            }
            removed[plan[step].head] = true;
            ck_assert_double_eq_tol(size_of_sum(c, heads, removed) / y, plan[step].change, 1e-9);
            ck_assert_double_le(plan[step].change, least + 1e-9);
        }
    }
}
END_TEST

START_TEST(ties_go_to_the_smaller_head)
{
    /* Heads 1, 3 and 4 are the same, 2 is nothing, 0 is the opposite of 3. */
    double c[MOST_HEADS][LENGTH] = {{-1, -1}, {1, 1}, {0}, {1, 1}, {1, 1}}, gram[25], cross[5];
    struct prune_step plan[5];
    static const size_t order[5] = {2, 0, 1, 3, 4};
    fill_gram(c, 5, gram);
    prune_plan(gram, 5, 2, plan, cross);
    for (size_t step = 0; step < 5; step++)
        ck_assert_uint_eq(plan[step].head, order[step]);
    ck_assert(plan[0].change == 0 && plan[2].change == 0);
    ck_assert_double_eq_tol(plan[1].change, sqrt(2) / 2, 1e-12);
}
END_TEST

START_TEST(nothing_to_compare_with)
{
    double gram[4] = {1, 0, 0, 0.5}, cross[2];
    struct prune_step plan[2];
    prune_plan(gram, 2, 0, plan, cross);
    ck_assert_uint_eq(plan[0].head, 1);
    ck_assert_uint_eq(plan[1].head, 0);
    ck_assert(isnan(plan[0].change) && isnan(plan[1].change));
    ck_assert_uint_eq(prune_plan_removable(plan, 2, 10), 0);
}
END_TEST

/* Rounding may leave the sum of a Gram matrix that cancels below 0. */
START_TEST(no_root_of_a_negative_sum)
{
    double gram[4] = {1, -1.0000000000000002, -1.0000000000000002, 1}, cross[2];
    struct prune_step plan[2];
    prune_plan(gram, 2, 1, plan, cross);
    ck_assert(plan[1].change == 0);
}
END_TEST

/* The change need not grow: what counts is the end of the beginning. */
START_TEST(removable)
{
    static const struct prune_step plan[] = {{4, 0.1}, {1, 0.4}, {0, 0.2}, {2, 0.3}, {3, 0.9}};
    ck_assert_uint_eq(prune_plan_removable(plan, 5, 0.05), 0);
    ck_assert_uint_eq(prune_plan_removable(plan, 5, 0.1), 1);
    ck_assert_uint_eq(prune_plan_removable(plan, 5, 0.25), 3);
    ck_assert_uint_eq(prune_plan_removable(plan, 5, 0.35), 4);
    ck_assert_uint_eq(prune_plan_removable(plan, 5, 1), 5);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("analysis/prune_plan");
    TCase *t = tcase_create("prune_plan");
    tcase_add_test(t, every_step_is_the_least);
    tcase_add_test(t, ties_go_to_the_smaller_head);
    tcase_add_test(t, nothing_to_compare_with);
    tcase_add_test(t, no_root_of_a_negative_sum);
    tcase_add_test(t, removable);
    suite_add_tcase(s, t);
    return s;
}
