/* src/runtime/region.c: every tile once, whoever comes, and nothing for who comes late. */
#include "suite.h"

#include "runtime/region.h"

#include <time.h>

#define TILES_MAX 64

struct counts {
    _Atomic unsigned called[TILES_MAX];
    _Atomic unsigned in_lane[4];
    _Atomic unsigned faults;
};

static void count_tile(void *argument, size_t index, unsigned lane)
{
    struct counts *counts = argument;
    if (atomic_fetch_add(&counts->in_lane[lane], 1) != 0)
        atomic_fetch_add(&counts->faults, 1);
    atomic_fetch_add(&counts->called[index], 1);
    atomic_fetch_sub(&counts->in_lane[lane], 1);
}

static void run_all(struct region *region, const struct region_opening *opening, unsigned lane)
{
    while (region_run_tile(region, opening, lane))
        ;
}

START_TEST(owner_alone_runs_every_tile_once)
{
    struct region region;
    struct counts counts = {0};
    struct region_opening opening;
    region_init(&region);
    region_open(&region, 5, count_tile, &counts);
    ck_assert(region_enter(&region, &opening));
    run_all(&region, &opening, 0);
    region_wait(&region);
    for (size_t i = 0; i < TILES_MAX; i++)
        ck_assert_uint_eq(counts.called[i], i < 5);
    region_destroy(&region);
}
END_TEST

START_TEST(exhausted_region_lets_nobody_in)
{
    struct region region;
    struct counts counts = {0};
    struct region_opening opening, late;
    region_init(&region);
    ck_assert(!region_enter(&region, &late));
    region_open(&region, 2, count_tile, &counts);
    ck_assert(region_enter(&region, &opening));
    run_all(&region, &opening, 0);
    ck_assert(!region_enter(&region, &late));
    region_wait(&region);
    region_destroy(&region);
}
END_TEST

/* It entered, lost the CPU, and comes back when the region is over, and then when it is open again. */
START_TEST(late_helper_finds_nothing)
{
    struct region region;
    struct counts first = {0}, second = {0};
    struct region_opening opening, late;
    region_init(&region);
    region_open(&region, 3, count_tile, &first);
    ck_assert(region_enter(&region, &opening));
    ck_assert(region_enter(&region, &late));
    run_all(&region, &opening, 0);
    region_wait(&region);
    run_all(&region, &late, 1);
    region_open(&region, 3, count_tile, &second);
    run_all(&region, &late, 1);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(first.called[i], 1);
        ck_assert_uint_eq(second.called[i], 0);
    }
    ck_assert(region_enter(&region, &opening));
    run_all(&region, &opening, 0);
    region_wait(&region);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(second.called[i], 1);
    region_destroy(&region);
}
END_TEST

struct slow {
    struct region *region;
    struct region_opening opening;
    _Atomic unsigned started, ended;
};

static void slow_tile(void *argument, size_t index, unsigned lane)
{
    struct slow *slow = argument;
    (void)index;
    (void)lane;
    atomic_fetch_add(&slow->started, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_fetch_add(&slow->ended, 1);
}

static void *slow_helper(void *argument)
{
    struct slow *slow = argument;
    run_all(slow->region, &slow->opening, 1);
    return NULL;
}

/* Far longer than the owner spins. */
START_TEST(owner_sleeps_until_a_taken_tile_returns)
{
    struct region region;
    struct slow slow = {.region = &region};
    pthread_t helper;
    region_init(&region);
    for (unsigned round = 1; round <= 5; round++) {
        region_open(&region, 1, slow_tile, &slow);
        ck_assert(region_enter(&region, &slow.opening));
        ck_assert_int_eq(pthread_create(&helper, NULL, slow_helper, &slow), 0);
        while (atomic_load(&slow.started) < round)
            region_pause();
        region_wait(&region);
        ck_assert_uint_eq(slow.ended, round);
        pthread_join(helper, NULL);
    }
    region_destroy(&region);
}
END_TEST

struct crowd {
    pthread_mutex_t mutex;
    struct region region;
    bool over;
};

struct crowd_member {
    struct crowd *crowd;
    unsigned lane;
};

static void *help_crowd(void *argument)
{
    struct crowd_member *member = argument;
    struct crowd *crowd = member->crowd;
    for (bool over = false; !over;) {
        struct region_opening opening;
        pthread_mutex_lock(&crowd->mutex);
        over = crowd->over;
        bool entered = region_enter(&crowd->region, &opening);
        pthread_mutex_unlock(&crowd->mutex);
        if (entered)
            run_all(&crowd->region, &opening, member->lane);
    }
    return NULL;
}

START_TEST(openings_in_quick_succession_never_mix)
{
    struct crowd crowd = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct crowd_member members[3];
    pthread_t threads[3];
    region_init(&crowd.region);
    for (unsigned i = 0; i < 3; i++) {
        members[i] = (struct crowd_member){&crowd, i + 1};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, help_crowd, &members[i]), 0);
    }
    unsigned wrong = 0, faults = 0;
    for (unsigned round = 0; round < 5000; round++) {
        struct counts counts = {0};
        struct region_opening opening;
        uint32_t n_tiles = 1 + round % TILES_MAX;
        pthread_mutex_lock(&crowd.mutex);
        region_open(&crowd.region, n_tiles, count_tile, &counts);
        region_enter(&crowd.region, &opening);
        pthread_mutex_unlock(&crowd.mutex);
        run_all(&crowd.region, &opening, 0);
        region_wait(&crowd.region);
        for (size_t i = 0; i < TILES_MAX; i++)
            wrong += counts.called[i] != (i < n_tiles);
        faults += counts.faults;
    }
    pthread_mutex_lock(&crowd.mutex);
    crowd.over = true;
    pthread_mutex_unlock(&crowd.mutex);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(faults, 0);
    region_destroy(&crowd.region);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("region");
    TCase *t = tcase_create("region");
    tcase_add_test(t, owner_alone_runs_every_tile_once);
    tcase_add_test(t, exhausted_region_lets_nobody_in);
    tcase_add_test(t, late_helper_finds_nothing);
    tcase_add_test(t, owner_sleeps_until_a_taken_tile_returns);
    tcase_add_test(t, openings_in_quick_succession_never_mix);
    suite_add_tcase(s, t);
    return s;
}
