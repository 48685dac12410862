#include "runtime/drain.h"
#include "suite.h"

START_TEST(too_little_says_nothing)
{
    struct drain drain = {0};
    ck_assert_double_eq(drain_rate(&drain, false), 0);
    ck_assert_double_eq(drain_rate(&drain, true), 0);
    ck_assert_double_eq(drain_fastest(&drain), 0);
    ck_assert_double_eq(drain_unknown(&drain), 0);
    drain_note(&drain, true, 1500000, 1e8);
    ck_assert_double_eq(drain_rate(&drain, true), 0);
    ck_assert_double_eq(drain_fastest(&drain), 0);
}
END_TEST

START_TEST(the_rate_is_work_by_time)
{
    struct drain drain = {0};
    for (unsigned i = 0; i < 10; i++) {
        drain_note(&drain, _i, 10000000, 5e8);
        drain_note(&drain, !_i, 10000000, 3e7);
    }
    ck_assert_double_eq_tol(drain_rate(&drain, _i), 50, 1e-9);
    ck_assert_double_eq_tol(drain_rate(&drain, !_i), 3, 1e-9);
}
END_TEST

/* Ten seconds of one speed, and ten of another: the first is all but forgotten. */
START_TEST(what_is_long_past_is_forgotten)
{
    struct drain drain = {0};
    for (unsigned speed = 10; speed <= 90; speed += 80)
        for (unsigned i = 0; i < 100; i++)
            drain_note(&drain, true, 100000000, speed * 1e8);
    ck_assert_double_gt(drain_rate(&drain, true), 89);
    ck_assert_double_le(drain_rate(&drain, true), 90);
}
END_TEST

/* One that computes beside many that read: what is possible is what that one did, until it is long past. */
START_TEST(the_fastest_is_what_is_possible)
{
    struct drain drain = {0};
    drain_note(&drain, true, 100000000, 1e10);
    for (unsigned i = 0; i < 10; i++)
        drain_note(&drain, true, 100000000, 5e8);
    ck_assert_double_lt(drain_rate(&drain, true), 20);
    ck_assert_double_gt(drain_fastest(&drain), 90);
    ck_assert_double_le(drain_fastest(&drain), 100);
    drain_note(&drain, true, 10000, 1e8); /* too short to tell */
    ck_assert_double_le(drain_fastest(&drain), 100);
    for (unsigned i = 0; i < 1000; i++)
        drain_note(&drain, true, 100000000, 5e8);
    ck_assert_double_eq_tol(drain_fastest(&drain), 5, 1e-9);
}
END_TEST

/* It is time that makes it past, not the number of those that read. */
START_TEST(many_that_only_read_do_not_count_more)
{
    struct drain drain = {0};
    drain_note(&drain, true, 100000000, 1e10);
    for (unsigned i = 0; i < 1000; i++)
        drain_note(&drain, true, 2000000, 2e6);
    ck_assert_double_gt(drain_fastest(&drain), 85);
}
END_TEST

START_TEST(jobs_of_unknown_cost_have_a_mean)
{
    struct drain drain = {0};
    drain_note_unknown(&drain, 1e9);
    drain_note_unknown(&drain, 3e9);
    ck_assert_double_eq_tol(drain_unknown(&drain), 2e9, 1);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("runtime/drain");
    TCase *t = tcase_create("drain");
    tcase_add_test(t, too_little_says_nothing);
    tcase_add_loop_test(t, the_rate_is_work_by_time, 0, 2);
    tcase_add_test(t, what_is_long_past_is_forgotten);
    tcase_add_test(t, the_fastest_is_what_is_possible);
    tcase_add_test(t, many_that_only_read_do_not_count_more);
    tcase_add_test(t, jobs_of_unknown_cost_have_a_mean);
    suite_add_tcase(s, t);
    return s;
}
