/* src/runtime/schedule.c: the order of pool.h, case by case. */
#include "suite.h"

#include "base/clock.h"
#include "runtime/schedule.h"

#define NEVER CLOCK_NEVER

/* The grace in which a worker is kept for light jobs, of pool.h's text. */
#define GRACE 250000

/* Times count from when the last light job came, at 1000000. */
static const struct {
    const char *what;
    uint64_t after, ripe_after; /* ripe_after: NEVER none, 0 at once */
    bool heavy_waits, light_region, heavy_region;
    unsigned heavy_running, workers;
    enum choice choice;
    uint64_t due_after;
} cases[] = {
    {"nothing", 10, NEVER, 0, 0, 0, 0, 2, CHOICE_NONE, NEVER},
    {"a first heavy job before all", 10, 0, 1, 1, 1, 0, 2, CHOICE_HEAVY, GRACE},
    {"a light job before the second heavy one", 10, 0, 1, 1, 1, 1, 2, CHOICE_LIGHT, GRACE},
    {"a light job before a region", GRACE, 0, 0, 1, 1, 1, 2, CHOICE_LIGHT, NEVER},
    {"a light job that is not ripe yet", 10, 400, 0, 0, 0, 0, 2, CHOICE_NONE, 400},
    {"a light job that has just become ripe", 400, 400, 0, 0, 0, 0, 2, CHOICE_LIGHT, NEVER},
    {"a region while a light job ripens", 10, 400, 0, 1, 0, 0, 2, CHOICE_HELP_LIGHT, 400},
    {"a light job's region at once", 10, NEVER, 0, 1, 0, 0, 2, CHOICE_HELP_LIGHT, NEVER},
    {"a light job's region of both", 10, NEVER, 0, 1, 1, 1, 2, CHOICE_HELP_LIGHT, GRACE},
    {"a heavy job's region in light traffic", GRACE - 1, NEVER, 0, 0, 1, 1, 2, CHOICE_NONE, GRACE},
    {"a heavy job's region after it", GRACE, NEVER, 0, 0, 1, 1, 2, CHOICE_HELP, NEVER},
    {"the grace is over before the batch is ripe", 10, GRACE + 5, 0, 0, 1, 1, 2, CHOICE_NONE, GRACE},
    {"the batch is ripe before the grace is over", 10, GRACE - 5, 0, 0, 1, 1, 2, CHOICE_NONE, GRACE - 5},
    {"a region before the second heavy job", GRACE, NEVER, 1, 0, 1, 1, 2, CHOICE_HELP, NEVER},
    {"a second heavy job", GRACE, NEVER, 1, 0, 0, 1, 2, CHOICE_HEAVY, NEVER},
    {"a second heavy job in light traffic", 10, NEVER, 1, 0, 0, 1, 2, CHOICE_NONE, GRACE},
    {"a second heavy job and a third worker", 10, NEVER, 1, 0, 0, 1, 3, CHOICE_HEAVY, GRACE},
    {"a third heavy job of three", 10, NEVER, 1, 0, 0, 2, 3, CHOICE_NONE, GRACE},
    {"a third heavy job of three after it", GRACE, NEVER, 1, 0, 0, 2, 3, CHOICE_HEAVY, NEVER},
    {"one worker alone", 10, 0, 1, 0, 0, 0, 1, CHOICE_HEAVY, GRACE},
};

START_TEST(order)
{
    const uint64_t last = 1000000;
    struct outlook outlook = {.now = last + cases[_i].after,
                              .last_light = last,
                              .heavy_waits = cases[_i].heavy_waits,
                              .light_region = cases[_i].light_region,
                              .heavy_region = cases[_i].heavy_region,
                              .heavy_running = cases[_i].heavy_running,
                              .workers = cases[_i].workers};
    uint64_t due, ripe = cases[_i].ripe_after;
    outlook.light_ripe = ripe == NEVER || ripe == 0 ? ripe : last + ripe;
    ck_assert_msg(schedule_choose(&outlook, &due) == cases[_i].choice, "%s", cases[_i].what);
    uint64_t wanted = cases[_i].due_after == NEVER ? NEVER : last + cases[_i].due_after;
    ck_assert_msg(due == wanted, "%s: %llu", cases[_i].what, (unsigned long long)due);
}
END_TEST

START_TEST(no_light_job_ever)
{
    struct outlook outlook = {.now = 5, .light_ripe = NEVER, .heavy_waits = true, .heavy_running = 1, .workers = 2};
    uint64_t due;
    ck_assert_int_eq(schedule_choose(&outlook, &due), CHOICE_HEAVY);
    ck_assert_uint_eq(due, NEVER);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("schedule");
    TCase *t = tcase_create("schedule");
    tcase_add_loop_test(t, order, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, no_light_job_ever);
    suite_add_tcase(s, t);
    return s;
}
