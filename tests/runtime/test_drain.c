#include "runtime/drain.h"
#include "suite.h"

START_TEST(too_little_says_nothing)
{
    struct drain drain = {0};
    ck_assert_double_eq(drain_rate(&drain), 0);
    ck_assert_double_eq(drain_unknown(&drain), 0);
    drain_note_busy(&drain, 1000000);
    drain_note_done(&drain, 1e8);
    ck_assert_double_eq(drain_rate(&drain), 0);
}
END_TEST

START_TEST(the_rate_is_work_by_time)
{
    struct drain drain = {0};
    for (unsigned i = 0; i < 10; i++) {
        drain_note_busy(&drain, 10000000);
        drain_note_done(&drain, 5e8);
    }
    ck_assert_double_eq_tol(drain_rate(&drain), 50, 1e-9);
}
END_TEST

/* Ten seconds of one speed, and ten of another: the first is all but forgotten. */
START_TEST(what_is_long_past_is_forgotten)
{
    struct drain drain = {0};
    for (unsigned speed = 10; speed <= 90; speed += 80)
        for (unsigned i = 0; i < 100; i++) {
            drain_note_busy(&drain, 100000000);
            drain_note_done(&drain, speed * 1e8);
        }
    ck_assert_double_gt(drain_rate(&drain), 89);
    ck_assert_double_le(drain_rate(&drain), 90);
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
    tcase_add_test(t, the_rate_is_work_by_time);
    tcase_add_test(t, what_is_long_past_is_forgotten);
    tcase_add_test(t, jobs_of_unknown_cost_have_a_mean);
    suite_add_tcase(s, t);
    return s;
}
