/* src/runtime/seat.c: left when the CPU was lost, for longer and longer, and taken again. */
#include "suite.h"

#include "base/clock.h"
#include "runtime/seat.h"

#include <pthread.h>
#include <sched.h>

#define MS CLOCK_MILLISECOND

static int n_cpus(void)
{
    cpu_set_t mask;
    return pthread_getaffinity_np(pthread_self(), sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
}

/* On a thread of its own: the CPUs of the process are those of its first thread. */
static void on_a_thread(void *(*run)(void *all), int all)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, &all), 0);
    pthread_join(thread, NULL);
}

static void *leave_and_return(void *all)
{
    struct seat seat;
    seat_init(&seat, true, 0);
    ck_assert(seat.taken);
    ck_assert_int_eq(n_cpus(), 1);
    seat_judge(&seat, 101 * MS, 1 * MS); /* the server's own threads may take that much */
    ck_assert(seat.taken);
    ck_assert_uint_eq(seat.away_until, 0);
    seat_judge(&seat, 102 * MS, 1 * MS + 1);
    ck_assert(!seat.taken);
    ck_assert_int_eq(n_cpus(), *(int *)all);
    ck_assert_uint_eq(seat.away_until, 112 * MS);
    seat_judge(&seat, 103 * MS, 50 * MS); /* what it loses while away is no news */
    ck_assert_uint_eq(seat.away_until, 112 * MS);
    seat_watch_begin(&seat); /* long after */
    ck_assert(seat.taken);
    ck_assert_uint_eq(seat.away_until, 0);
    ck_assert_uint_eq(seat.ran_ns, 0);
    ck_assert_int_eq(n_cpus(), 1);
    return NULL;
}

START_TEST(left_and_taken_again)
{
    on_a_thread(leave_and_return, n_cpus());
}
END_TEST

static void *lose_again_and_again(void *all)
{
    static const uint64_t away[] = {10, 20, 40, 80, 160, 320, 640, 1000, 1000};
    struct seat seat;
    (void)all;
    seat_init(&seat, true, 0);
    for (size_t i = 0; i < sizeof away / sizeof *away; i++) {
        uint64_t now = (1000 + 5 * i) * MS; /* however long it had nothing to do */
        seat.ran_ns = SEAT_PROVEN_NS - 1;
        seat_judge(&seat, now, 4 * MS);
        ck_assert_uint_eq(seat.away_until, now + away[i] * MS);
        seat.away_until = 1;
        seat_watch_begin(&seat);
        ck_assert(seat.taken);
    }
    uint64_t now = 2000 * MS;
    seat.ran_ns = SEAT_PROVEN_NS; /* it was well through much work */
    seat_judge(&seat, now, 4 * MS);
    ck_assert_uint_eq(seat.away_until, now + 10 * MS);
    return NULL;
}

START_TEST(away_for_longer_and_longer)
{
    on_a_thread(lose_again_and_again, n_cpus());
}
END_TEST

static void *sleep_in_it(void *all)
{
    struct seat seat;
    const uint64_t before = clock_ns();
    seat_init(&seat, true, 0);
    for (int i = 0; i < 2; i++) { /* the first time it only becomes suspicious */
        ck_assert(seat.taken);
        struct seat_watch watch = seat_watch_begin(&seat);
        nanosleep(&(struct timespec){.tv_nsec = 5 * MS}, NULL);
        seat_watch_end(&seat, &watch);
    }
    ck_assert(!seat.taken);
    ck_assert_uint_ge(seat.ran_ns, 10 * MS);
    ck_assert_uint_gt(seat.away_until, before + 10 * MS); /* two naps, and as long as it is away at least */
    ck_assert_int_eq(n_cpus(), *(int *)all);
    return NULL;
}

START_TEST(time_without_a_cpu_is_seen)
{
    on_a_thread(sleep_in_it, n_cpus());
}
END_TEST

static void *use_none(void *all)
{
    struct seat seat;
    seat_init(&seat, false, 0);
    struct seat_watch watch = seat_watch_begin(&seat);
    nanosleep(&(struct timespec){.tv_nsec = 2 * MS}, NULL);
    seat_watch_end(&seat, &watch);
    ck_assert_uint_eq(seat.away_until, 0);
    ck_assert_int_eq(n_cpus(), *(int *)all);
    return NULL;
}

START_TEST(not_wanted)
{
    on_a_thread(use_none, n_cpus());
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seat");
    TCase *t = tcase_create("seat");
    tcase_add_test(t, left_and_taken_again);
    tcase_add_test(t, away_for_longer_and_longer);
    tcase_add_test(t, time_without_a_cpu_is_seen);
    tcase_add_test(t, not_wanted);
    suite_add_tcase(s, t);
    return s;
}
