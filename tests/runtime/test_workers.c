/* src/runtime/workers.c: the classes share the workers, and nobody starves or sleeps through. */
#include "suite.h"

#include "jobs.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

/* A heavy job of `n_tiles` tiles in one region: what happens in each is the test's. */
struct tiled {
    struct job job;
    size_t n_tiles;
    void (*tile)(struct tiled *tiled, size_t index);
    struct pool *pool;
    struct noted *light; /* jobs that the tiles submit */
    _Atomic unsigned missed;
    sem_t opened, leave, done;
};

static void call_tile(void *argument, size_t index, unsigned lane)
{
    struct tiled *tiled = argument;
    (void)lane;
    tiled->tile(tiled, index);
}

static void run_tiled(struct job *job, enum job_end end)
{
    struct tiled *tiled = (struct tiled *)job;
    struct parallel parallel = job_parallel(job);
    (void)end;
    parallel.run(parallel.context, tiled->n_tiles, call_tile, tiled);
    sem_post(&tiled->done);
}

static void tiled_init(struct tiled *tiled, struct pool *pool, size_t n_tiles, void (*tile)(struct tiled *, size_t))
{
    *tiled = (struct tiled){.job = {.run = run_tiled, .flop = HEAVY}, .n_tiles = n_tiles, .tile = tile, .pool = pool};
    sem_init(&tiled->opened, 0, 0);
    sem_init(&tiled->leave, 0, 0);
    sem_init(&tiled->done, 0, 0);
}

static void expect(struct tiled *tiled, bool fine)
{
    if (!fine)
        atomic_fetch_add(&tiled->missed, 1);
}

/* Order */

START_TEST(one_worker_takes_heavy_before_light)
{
    _Atomic unsigned clock = 0;
    static const double flop[] = {LIGHT, HEAVY, LIGHT, HEAVY, JOB_LIGHT_FLOP};
    static const unsigned at[] = {2, 0, 3, 1, 4};
    struct noted *jobs = make_jobs(5, &clock);
    struct pool *pool = make_pool(1, 8, false);
    struct gate gate;
    enter_gate(pool, &gate, LIGHT);
    for (size_t i = 0; i < 5; i++) {
        jobs[i].job.flop = flop[i];
        submit(pool, &jobs[i].job);
    }
    sem_post(&gate.leave);
    await_count(&clock, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(jobs[i].at, at[i]);
    pool_free(pool);
    free(jobs);
}
END_TEST

/* The second one is taken only when the grace after the light one is over, which nothing but time tells. */
START_TEST(a_second_heavy_job_waits_behind_light_ones)
{
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(3, &clock);
    struct pool *pool = make_pool(2, 8, false);
    struct gate heavy, light;
    enter_gate(pool, &heavy, HEAVY);
    enter_gate(pool, &light, LIGHT);
    jobs[0].job.flop = HEAVY;
    for (size_t i = 0; i < 3; i++)
        submit(pool, &jobs[i].job);
    sem_post(&light.leave);
    await_count(&clock, 3);
    ck_assert_uint_eq(jobs[1].at, 0);
    ck_assert_uint_eq(jobs[2].at, 1);
    ck_assert_uint_eq(jobs[0].at, 2);
    sem_post(&heavy.leave);
    pool_free(pool);
    free(jobs);
}
END_TEST

/* A light job that is queued again as soon as it has run, until it is told to end. */
struct endless {
    struct job job;
    struct pool *pool;
    _Atomic bool *over;
    _Atomic unsigned *ended;
};

static void run_endless(struct job *job, enum job_end end)
{
    struct endless *endless = (struct endless *)job;
    struct error error;
    if (end == JOB_DROPPED || atomic_load(endless->over) || !pool_submit(endless->pool, job, &error))
        atomic_fetch_add(endless->ended, 1);
}

START_TEST(heavy_jobs_do_not_starve)
{
    enum { ENDLESS = 6, HEAVIES = 8 };
    for (unsigned workers = 1; workers <= 3; workers++) {
        _Atomic unsigned clock = 0, ended = 0;
        _Atomic bool over = false;
        struct endless endless[ENDLESS];
        struct noted *jobs = make_jobs(HEAVIES, &clock);
        struct pool *pool = make_pool(workers, ENDLESS + HEAVIES, false);
        for (size_t i = 0; i < ENDLESS; i++) {
            endless[i] = (struct endless){.job.run = run_endless, .pool = pool, .over = &over, .ended = &ended};
            submit(pool, &endless[i].job);
        }
        for (size_t i = 0; i < HEAVIES; i++) {
            jobs[i].job.flop = HEAVY;
            submit(pool, &jobs[i].job);
        }
        await_count(&clock, HEAVIES);
        over = true;
        await_count(&ended, ENDLESS);
        pool_free(pool);
        free(jobs);
    }
}
END_TEST

static void empty_tile(struct tiled *tiled, size_t index)
{
    (void)tiled;
    (void)index;
}

/* Each look between two tiles runs what waits by then, and not what comes meanwhile. */
START_TEST(heavy_job_goes_on_among_light_ones)
{
    _Atomic unsigned ended = 0;
    _Atomic bool over = false;
    struct pool *pool = make_pool(1, 8, false);
    struct endless endless[3];
    struct tiled tiled;
    for (size_t i = 0; i < 3; i++) {
        endless[i] = (struct endless){.job.run = run_endless, .pool = pool, .over = &over, .ended = &ended};
        submit(pool, &endless[i].job);
    }
    tiled_init(&tiled, pool, 200, empty_tile);
    submit(pool, &tiled.job);
    ck_assert(await(&tiled.done));
    over = true;
    await_count(&ended, 3);
    pool_free(pool);
}
END_TEST

/* Nested */

/* The first tile submits two jobs, the second one sees that they have run. */
static void submit_and_see(struct tiled *tiled, size_t index)
{
    if (index == 0) {
        submit(tiled->pool, &tiled->light[0].job);
        submit(tiled->pool, &tiled->light[1].job);
        expect(tiled, atomic_load(tiled->light[0].clock) == 0);
    } else if (index == 1) {
        expect(tiled, atomic_load(tiled->light[0].clock) == 2);
    }
}

static void check_served(struct noted *light)
{
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(light[i].runs, 1);
        ck_assert_uint_eq(light[i].at, i);
        ck_assert_uint_eq(light[i].lanes, 1);
    }
}

START_TEST(one_worker_serves_light_jobs_between_tiles)
{
    for (size_t n_tiles = 1; n_tiles <= 3; n_tiles++) {
        _Atomic unsigned clock = 0;
        struct pool *pool = make_pool(1, 8, false);
        struct tiled tiled;
        tiled_init(&tiled, pool, n_tiles, submit_and_see);
        tiled.light = make_jobs(2, &clock);
        submit(pool, &tiled.job);
        ck_assert(await(&tiled.done));
        ck_assert_uint_eq(tiled.missed, 0);
        ck_assert_uint_eq(clock, 2);
        check_served(tiled.light);
        pool_free(pool);
        free(tiled.light);
    }
}
END_TEST

START_TEST(light_jobs_are_served_while_all_workers_are_heavy)
{
    _Atomic unsigned clock = 0;
    struct pool *pool = make_pool(3, 8, false);
    struct gate gates[2];
    struct tiled tiled;
    enter_gate(pool, &gates[0], HEAVY);
    enter_gate(pool, &gates[1], HEAVY);
    tiled_init(&tiled, pool, 3, submit_and_see);
    tiled.light = make_jobs(2, &clock);
    submit(pool, &tiled.job);
    ck_assert(await(&tiled.done));
    ck_assert_uint_eq(tiled.missed, 0);
    ck_assert_uint_eq(clock, 2);
    check_served(tiled.light);
    sem_post(&gates[0].leave);
    sem_post(&gates[1].leave);
    pool_free(pool);
    free(tiled.light);
}
END_TEST

/* All tiles wait until a light job has run, but for the one that submits it: whoever runs that one runs the light job
 * before another tile. */
static void wait_for_light(struct tiled *tiled, size_t index)
{
    if (index != 1) {
        if (index == 0)
            sem_post(&tiled->opened);
        for (const uint64_t end = clock_ns() + PATIENCE_NS; !tiled->light->runs && clock_ns() < end;)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        expect(tiled, tiled->light->runs == 1);
    } else {
        expect(tiled, await(&tiled->opened));
        submit(tiled->pool, &tiled->light->job);
    }
}

START_TEST(a_helper_leaves_for_a_light_job)
{
    for (int round = 0; round < 20; round++) {
        _Atomic unsigned clock = 0;
        struct pool *pool = make_pool(2, 8, false);
        struct tiled tiled;
        tiled_init(&tiled, pool, 40, wait_for_light);
        tiled.light = make_jobs(1, &clock);
        submit(pool, &tiled.job);
        ck_assert(await(&tiled.done));
        ck_assert_uint_eq(tiled.missed, 0);
        pool_free(pool);
        free(tiled.light);
    }
}
END_TEST

/* Time */

/* Both tiles must be there at once. */
static void meet(struct tiled *tiled, size_t index)
{
    sem_post(index ? &tiled->opened : &tiled->leave);
    expect(tiled, await(index ? &tiled->leave : &tiled->opened));
}

/* The region opens while light jobs have just come: nobody may help at first, and nothing but time says when. */
static void run_meeting_in_traffic(struct job *job, enum job_end end)
{
    struct tiled *tiled = (struct tiled *)job;
    submit(tiled->pool, &tiled->light->job);
    run_tiled(job, end);
}

START_TEST(helpers_come_when_the_grace_is_over)
{
    for (unsigned workers = 2; workers <= 5; workers++) {
        for (int round = 0; round < 10; round++) {
            _Atomic unsigned clock = 0;
            struct pool *pool = make_pool(workers, 8, false);
            struct tiled tiled;
            tiled_init(&tiled, pool, 2, meet);
            tiled.job.run = run_meeting_in_traffic;
            tiled.light = make_jobs(1, &clock);
            submit(pool, &tiled.job);
            ck_assert(await(&tiled.done));
            ck_assert_uint_eq(tiled.missed, 0);
            await_count(&clock, 1);
            pool_free(pool);
            free(tiled.light);
        }
    }
}
END_TEST

/* As many tiles as workers, all of which must be there. */
static void all_meet(struct tiled *tiled, size_t index)
{
    (void)index;
    sem_post(&tiled->opened);
    expect(tiled, await(&tiled->leave));
}

START_TEST(all_helpers_come_when_the_grace_is_over)
{
    enum { WORKERS = 5 };
    _Atomic unsigned clock = 0;
    struct pool *pool = make_pool(WORKERS, 8, false);
    struct tiled tiled;
    tiled_init(&tiled, pool, WORKERS, all_meet);
    tiled.job.run = run_meeting_in_traffic;
    tiled.light = make_jobs(1, &clock);
    await_rest(pool);
    submit(pool, &tiled.job);
    for (int i = 0; i < WORKERS; i++)
        ck_assert(await(&tiled.opened));
    for (int i = 0; i < WORKERS; i++)
        sem_post(&tiled.leave);
    ck_assert(await(&tiled.done));
    ck_assert_uint_eq(tiled.missed, 0);
    pool_free(pool);
    free(tiled.light);
}
END_TEST

static void long_tile(struct tiled *tiled, size_t index)
{
    (void)tiled;
    (void)index;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Two workers that are without their CPUs for a while in tiles, and then must both be there. */
static void run_meeting_after_loss(struct job *job, enum job_end end)
{
    struct tiled *tiled = (struct tiled *)job;
    struct parallel parallel = job_parallel(job);
    tiled->tile = long_tile;
    parallel.run(parallel.context, 2, call_tile, tiled);
    tiled->tile = meet;
    run_tiled(job, end);
}

START_TEST(who_lost_its_cpu_comes_back_to_help)
{
    struct pool *pool = make_pool(2, 8, true);
    for (int round = 0; round < 4; round++) {
        struct tiled tiled;
        tiled_init(&tiled, pool, 2, meet);
        tiled.job.run = run_meeting_after_loss;
        submit(pool, &tiled.job);
        ck_assert(await(&tiled.done));
        ck_assert_uint_eq(tiled.missed, 0);
    }
    pool_free(pool);
}
END_TEST

/* Arenas: the first look is at the start, the next one a minute later, which is longer than a test may take; here it is
 * seen that the look at the start is not the end of the pool. */
START_TEST(idle_workers_look_after_arenas)
{
    _Atomic unsigned clock = 0;
    struct error error;
    struct pool_options options = {.workers = 2, .queue_depth = 4, .arenas = arena_store_create(SIZE_MAX, &error)};
    struct pool *pool = pool_create(&options, &error);
    ck_assert_ptr_nonnull(pool);
    struct noted *jobs = make_jobs(2, &clock);
    submit(pool, &jobs[0].job);
    await_count(&clock, 1);
    await_rest(pool);
    submit(pool, &jobs[1].job);
    await_count(&clock, 2);
    pool_free(pool);
    arena_store_free(options.arenas);
    free(jobs);
}
END_TEST

/* Everything at once: classes, keys, regions, withdrawals. */

struct mixed {
    struct job job;
    _Atomic unsigned *ended;
    _Atomic unsigned ends, tiles;
};

static void mixed_tile(void *argument, size_t index, unsigned lane)
{
    struct mixed *mixed = argument;
    (void)index;
    (void)lane;
    atomic_fetch_add(&mixed->tiles, 1);
}

static void end_mixed(struct mixed *mixed)
{
    atomic_fetch_add(&mixed->ends, 1);
    atomic_fetch_add(mixed->ended, 1);
}

static void run_mixed(struct job *job, enum job_end end)
{
    struct parallel parallel = job_parallel(job);
    struct job *companion = job_take_companions(job), *next;
    (void)end;
    parallel.run(parallel.context, 1 + (size_t)job->flop % 7, mixed_tile, job);
    job_yield(job);
    parallel.run(parallel.context, 20, mixed_tile, job);
    for (; companion; companion = next) {
        next = companion->next;
        end_mixed((struct mixed *)companion);
    }
    end_mixed((struct mixed *)job);
}

START_TEST(everything_at_once)
{
    enum { COUNT = 6000 };
    static const int keys[3];
    for (unsigned workers = 1; workers <= 4; workers++) {
        _Atomic unsigned ended = 0;
        struct error error;
        struct pool_options options = {
            .workers = workers, .queue_depth = 64, .batch_rows = 8, .batch_delay_ns = workers % 2 ? 0 : 50000};
        struct pool *pool = pool_create(&options, &error);
        struct mixed *jobs = calloc(COUNT, sizeof *jobs);
        unsigned withdrawn = 0;
        ck_assert(pool && jobs);
        for (size_t i = 0; i < COUNT; i++) {
            jobs[i].job = (struct job){.run = run_mixed, .flop = i % 5 ? LIGHT : HEAVY + (double)i};
            jobs[i].job.batch_key = i % 4 ? &keys[i % 3] : NULL;
            jobs[i].job.batch_rows = i % 9;
            jobs[i].ended = &ended;
            while (!pool_submit(pool, &jobs[i].job, &error))
                sched_yield();
            if (i % 11 == 0 && pool_withdraw(pool, &jobs[i - i % 7].job)) {
                ck_assert_uint_eq(atomic_fetch_add(&jobs[i - i % 7].ends, 1), 0);
                withdrawn++;
            }
        }
        await_count(&ended, COUNT - withdrawn);
        pool_free(pool);
        for (size_t i = 0; i < COUNT; i++)
            ck_assert_uint_eq(jobs[i].ends, 1);
        free(jobs);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("workers");
    TCase *t = tcase_create("workers");
    tcase_add_test(t, one_worker_takes_heavy_before_light);
    tcase_add_test(t, a_second_heavy_job_waits_behind_light_ones);
    tcase_add_test(t, heavy_jobs_do_not_starve);
    tcase_add_test(t, heavy_job_goes_on_among_light_ones);
    tcase_add_test(t, one_worker_serves_light_jobs_between_tiles);
    tcase_add_test(t, light_jobs_are_served_while_all_workers_are_heavy);
    tcase_add_test(t, a_helper_leaves_for_a_light_job);
    tcase_add_test(t, helpers_come_when_the_grace_is_over);
    tcase_add_test(t, all_helpers_come_when_the_grace_is_over);
    tcase_add_test(t, who_lost_its_cpu_comes_back_to_help);
    tcase_add_test(t, idle_workers_look_after_arenas);
    tcase_add_test(t, everything_at_once);
    suite_add_tcase(s, t);
    return s;
}
