/* src/runtime/pool.c: jobs once each, in order, bounded, withdrawn or dropped; regions shared by who is idle. */
#include "suite.h"

#include "base/clock.h"
#include "jobs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* The queue */

struct submitter {
    struct pool *pool;
    struct noted *jobs;
    size_t count;
    unsigned accepted, refused;
};

static void *submit_all(void *argument)
{
    struct submitter *submitter = argument;
    for (size_t i = 0; i < submitter->count;) {
        struct error error;
        if (pool_submit(submitter->pool, &submitter->jobs[i].job, &error)) {
            submitter->accepted++;
            i++;
        } else if (error.code == ERROR_QUEUE_FULL) {
            sched_yield();
        } else {
            submitter->refused += error.code == ERROR_DRAINING;
            i++;
        }
    }
    return NULL;
}

START_TEST(jobs_of_many_threads_run_once_each)
{
    enum { THREADS = 6, EACH = 500 };
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(THREADS * EACH, &clock);
    struct pool *pool = make_pool(4, 32, false);
    struct submitter submitters[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        submitters[i] = (struct submitter){.pool = pool, .jobs = jobs + i * EACH, .count = EACH};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    await_count(&clock, THREADS * EACH);
    pool_free(pool);
    for (size_t i = 0; i < THREADS * EACH; i++) {
        ck_assert_uint_eq(jobs[i].runs, 1);
        ck_assert_uint_eq(jobs[i].dropped, 0);
    }
    free(jobs);
}
END_TEST

/* At once, by the caller itself; not where it would leave its company behind, and not at the end. */
START_TEST(short_jobs_run_on_their_caller)
{
    static const char key, other_key;
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(5, &clock);
    struct pool *pool = make_pool(1, 8, false);
    struct gate gate;
    enter_gate(pool, &gate, 0); /* the worker is busy */
    ck_assert(pool_run_here(pool, &jobs[0].job));
    ck_assert_uint_eq(jobs[0].runs, 1);
    ck_assert_uint_eq(jobs[0].lanes, 1);
    ck_assert(pthread_equal(jobs[0].thread, pthread_self()));

    for (size_t i = 1; i < 5; i++)
        jobs[i].job.batch_key = i == 3 ? &other_key : &key;
    ck_assert(pool_run_here(pool, &jobs[1].job));
    submit(pool, &jobs[2].job);
    ck_assert(pool_run_here(pool, &jobs[3].job));
    ck_assert(!pool_run_here(pool, &jobs[4].job));
    ck_assert_uint_eq(jobs[4].runs, 0);
    ck_assert_uint_eq(pool_state(pool).queued, 1);
    pool_drop_queued(pool);
    ck_assert(!pool_run_here(pool, &jobs[3].job));
    ck_assert_uint_eq(jobs[3].runs, 1);
    sem_post(&gate.leave);
    pool_free(pool);
    free(jobs);
}
END_TEST

/* The time of one busy worker of two is that of the clock, also while its job runs; at rest it stands still. */
START_TEST(busy_time_is_counted)
{
    struct gate gate;
    struct pool *pool = make_pool(2, 8, false);
    await_rest(pool);
    const struct pool_state before = pool_state(pool);
    ck_assert_uint_eq(before.busy, 0);
    const uint64_t began = clock_ns();
    enter_gate(pool, &gate, HEAVY);
    const uint64_t entered = clock_ns();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    const uint64_t slept = clock_ns();
    const struct pool_state within = pool_state(pool);
    const uint64_t read = clock_ns();
    ck_assert_uint_eq(within.busy, 1);
    ck_assert_uint_ge(within.busy_ns - before.busy_ns, slept - entered);
    ck_assert_uint_le(within.busy_ns - before.busy_ns, read - began);
    sem_post(&gate.leave);
    await_rest(pool);
    const struct pool_state after = pool_state(pool), later = pool_state(pool);
    ck_assert(after.busy == 0 && after.busy_ns >= within.busy_ns && later.busy_ns == after.busy_ns);
    ck_assert_uint_le(after.busy_ns - before.busy_ns, clock_ns() - began);
    pool_free(pool);
}
END_TEST

START_TEST(first_in_first_out_and_bounded)
{
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(4, &clock);
    struct pool *pool = make_pool(1, 3, false);
    struct gate gate;
    struct error error;
    enter_gate(pool, &gate, 0);
    for (size_t i = 0; i < 3; i++)
        submit(pool, &jobs[i].job);
    ck_assert(!pool_submit(pool, &jobs[3].job, &error));
    ck_assert_int_eq(error.code, ERROR_QUEUE_FULL);
    ck_assert_ptr_nonnull(strstr(error.message, "limits.queue_depth (3)"));
    struct pool_state state = pool_state(pool);
    ck_assert_uint_eq(state.queued, 3);
    ck_assert_uint_eq(state.running, 1);
    ck_assert_uint_eq(state.workers, 1);
    sem_post(&gate.leave);
    await_count(&clock, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(jobs[i].at, i);
    submit(pool, &jobs[3].job); /* there is room again */
    await_count(&clock, 4);
    pool_free(pool);
    free(jobs);
}
END_TEST

START_TEST(withdrawn_jobs_do_not_run)
{
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(5, &clock);
    struct pool *pool = make_pool(1, 8, false);
    struct gate gate;
    enter_gate(pool, &gate, 0);
    for (size_t i = 0; i < 4; i++)
        submit(pool, &jobs[i].job);
    ck_assert(pool_withdraw(pool, &jobs[1].job)); /* from the middle, the end, the beginning */
    ck_assert(pool_withdraw(pool, &jobs[3].job));
    ck_assert(pool_withdraw(pool, &jobs[0].job));
    ck_assert(!pool_withdraw(pool, &jobs[0].job));
    ck_assert(!pool_withdraw(pool, &gate.job));
    submit(pool, &jobs[4].job);
    ck_assert_uint_eq(pool_state(pool).queued, 2);
    sem_post(&gate.leave);
    await_count(&clock, 2);
    ck_assert(!pool_withdraw(pool, &jobs[2].job));
    pool_free(pool);
    static const unsigned runs[5] = {0, 0, 1, 0, 1};
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(jobs[i].runs, runs[i]);
    free(jobs);
}
END_TEST

START_TEST(withdrawing_races_with_taking)
{
    enum { COUNT = 4000 };
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(COUNT, &clock);
    struct pool *pool = make_pool(2, 16, false);
    struct submitter submitter = {.pool = pool, .jobs = jobs, .count = COUNT};
    bool *withdrawn = calloc(COUNT, sizeof *withdrawn);
    pthread_t thread;
    unsigned n_withdrawn = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, submit_all, &submitter), 0);
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < COUNT; i += 3) {
            if (pool_withdraw(pool, &jobs[i].job)) {
                ck_assert(!withdrawn[i]);
                withdrawn[i] = true;
                n_withdrawn++;
            }
        }
    }
    pthread_join(thread, NULL);
    await_count(&clock, COUNT - n_withdrawn);
    pool_free(pool);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_uint_eq(jobs[i].runs, !withdrawn[i]);
    free(withdrawn);
    free(jobs);
}
END_TEST

START_TEST(dropped_jobs_end_on_the_caller)
{
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(4, &clock);
    struct pool *pool = make_pool(1, 8, false);
    struct gate gate;
    struct error error;
    enter_gate(pool, &gate, 0);
    for (size_t i = 0; i < 3; i++)
        submit(pool, &jobs[i].job);
    pool_drop_queued(pool);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(jobs[i].runs, 1);
        ck_assert_uint_eq(jobs[i].at, i);
        ck_assert_uint_eq(jobs[i].dropped, 1);
        ck_assert(pthread_equal(jobs[i].thread, pthread_self()));
    }
    ck_assert(!pool_submit(pool, &jobs[3].job, &error));
    ck_assert_int_eq(error.code, ERROR_DRAINING);
    ck_assert_uint_eq(pool_state(pool).queued, 0);
    ck_assert_uint_eq(pool_state(pool).running, 1);
    sem_post(&gate.leave);
    pool_free(pool);
    ck_assert_int_eq(gate.end, JOB_RUN);
    ck_assert_uint_eq(clock, 3);
    free(jobs);
}
END_TEST

START_TEST(dropping_races_with_submitting)
{
    enum { COUNT = 2000 };
    for (unsigned round = 0; round < 10; round++) {
        _Atomic unsigned clock = 0;
        struct noted *jobs = make_jobs(2 * COUNT, &clock);
        struct pool *pool = make_pool(2, 64, false);
        struct submitter submitters[2];
        pthread_t threads[2];
        for (size_t i = 0; i < 2; i++) {
            submitters[i] = (struct submitter){.pool = pool, .jobs = jobs + i * COUNT, .count = COUNT};
            ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
        }
        while (atomic_load(&clock) < 100 * round)
            sched_yield();
        pool_drop_queued(pool);
        for (size_t i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            ck_assert_uint_eq(submitters[i].accepted + submitters[i].refused, COUNT);
        }
        pool_free(pool);
        ck_assert_uint_eq(clock, submitters[0].accepted + submitters[1].accepted);
        for (size_t i = 0; i < 2 * COUNT; i++) /* each thread's jobs were taken in order up to the first refusal */
            ck_assert_uint_eq(jobs[i].runs, i % COUNT < submitters[i / COUNT].accepted);
        free(jobs);
    }
}
END_TEST

START_TEST(freeing_waits_for_running_and_drops_queued_jobs)
{
    _Atomic unsigned clock = 0;
    pool_free(NULL);
    for (unsigned workers = 1; workers <= 8; workers++)
        pool_free(make_pool(workers, 1, false));
    struct noted *jobs = make_jobs(200, &clock);
    struct pool *pool = make_pool(3, 200, false);
    for (size_t i = 0; i < 200; i++)
        submit(pool, &jobs[i].job);
    pool_free(pool);
    for (size_t i = 0; i < 200; i++)
        ck_assert_uint_eq(jobs[i].runs, 1);
    free(jobs);
}
END_TEST

/* Regions */

#define LANES     4
#define TILES_MAX 1000

struct regions {
    struct job job;
    unsigned rounds, lanes;
    sem_t done;
    _Atomic unsigned called[TILES_MAX];
    _Atomic unsigned in_lane[LANES];
    size_t next[LANES]; /* the least index that the lane may get: its user's alone */
    _Atomic unsigned wrong;
    _Atomic bool unwanted;
};

static void region_tile(void *argument, size_t index, unsigned lane)
{
    struct regions *regions = argument;
    if (lane >= LANES || index >= TILES_MAX || atomic_fetch_add(&regions->in_lane[lane], 1) != 0) {
        atomic_fetch_add(&regions->wrong, 1);
        return;
    }
    if (index < regions->next[lane])
        atomic_fetch_add(&regions->wrong, 1);
    regions->next[lane] = index + 1;
    atomic_fetch_add(&regions->called[index], 1);
    atomic_fetch_sub(&regions->in_lane[lane], 1);
}

static void run_regions(struct job *job, enum job_end end)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, TILES_MAX};
    struct regions *regions = (struct regions *)job;
    struct parallel parallel = job_parallel(job);
    (void)end;
    regions->lanes = parallel.lanes;
    for (unsigned round = 0; round < regions->rounds; round++) {
        size_t n_tiles = sizes[round % (sizeof sizes / sizeof *sizes)];
        memset(regions->next, 0, sizeof regions->next);
        for (size_t i = 0; i < TILES_MAX; i++)
            atomic_store_explicit(&regions->called[i], 0, memory_order_relaxed);
        parallel.run(parallel.context, n_tiles, region_tile, regions);
        for (size_t i = 0; i < TILES_MAX; i++)
            if (regions->called[i] != (i < n_tiles))
                atomic_fetch_add(&regions->wrong, 1);
    }
    sem_post(&regions->done);
}

static struct regions *make_regions(unsigned rounds)
{
    struct regions *regions = calloc(1, sizeof *regions);
    ck_assert_ptr_nonnull(regions);
    regions->job.run = run_regions;
    regions->rounds = rounds;
    sem_init(&regions->done, 0, 0);
    return regions;
}

START_TEST(tiles_run_once_each_in_order_on_lanes_of_their_own)
{
    for (unsigned workers = 1; workers <= LANES; workers++) {
        struct pool *pool = make_pool(workers, 4, false);
        struct regions *regions = make_regions(140);
        submit(pool, &regions->job);
        ck_assert(await(&regions->done));
        ck_assert_uint_eq(regions->lanes, workers);
        ck_assert_uint_eq(regions->wrong, 0);
        pool_free(pool);
        free(regions);
    }
}
END_TEST

START_TEST(several_jobs_have_regions_open)
{
    enum { JOBS = 12 };
    struct pool *pool = make_pool(LANES, JOBS, false);
    struct regions *regions[JOBS];
    for (size_t i = 0; i < JOBS; i++) {
        regions[i] = make_regions(70);
        submit(pool, &regions[i]->job);
    }
    for (size_t i = 0; i < JOBS; i++)
        ck_assert(await(&regions[i]->done));
    pool_free(pool);
    for (size_t i = 0; i < JOBS; i++) {
        ck_assert_uint_eq(regions[i]->wrong, 0);
        free(regions[i]);
    }
}
END_TEST

/* Every tile waits until all have begun: it ends only when each runs on a worker of its own. */
struct meeting {
    struct job job;
    size_t n_tiles;
    pthread_mutex_t mutex;
    pthread_cond_t all_there;
    size_t there;
    bool missed;
    sem_t done;
};

static void meeting_tile(void *argument, size_t index, unsigned lane)
{
    struct meeting *meeting = argument;
    struct timespec until;
    (void)index;
    (void)lane;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(PATIENCE_NS / CLOCK_SECOND);
    pthread_mutex_lock(&meeting->mutex);
    if (++meeting->there == meeting->n_tiles)
        pthread_cond_broadcast(&meeting->all_there);
    while (meeting->there < meeting->n_tiles && !meeting->missed)
        meeting->missed = pthread_cond_timedwait(&meeting->all_there, &meeting->mutex, &until) == ETIMEDOUT;
    pthread_mutex_unlock(&meeting->mutex);
}

static void run_meeting(struct job *job, enum job_end end)
{
    struct meeting *meeting = (struct meeting *)job;
    struct parallel parallel = job_parallel(job);
    (void)end;
    for (int i = 0; i < 20; i++) {
        meeting->there = 0;
        /* Shorter and longer than idle workers spin. */
        nanosleep(&(struct timespec){.tv_nsec = i % 2 ? 1000 : 1000000}, NULL);
        parallel.run(parallel.context, meeting->n_tiles, meeting_tile, meeting);
    }
    sem_post(&meeting->done);
}

START_TEST(idle_workers_come_to_help)
{
    struct pool *pool = make_pool(4, 4, false);
    for (size_t n_tiles = 2; n_tiles <= 4; n_tiles++) {
        struct meeting meeting = {.job.run = run_meeting,
                                  .n_tiles = n_tiles,
                                  .mutex = PTHREAD_MUTEX_INITIALIZER,
                                  .all_there = PTHREAD_COND_INITIALIZER};
        sem_init(&meeting.done, 0, 0);
        submit(pool, &meeting.job);
        ck_assert(await(&meeting.done));
        ck_assert(!meeting.missed);
    }
    pool_free(pool);
}
END_TEST

/* Two tiles; the first waits for the second, which only the other worker can take. */
struct pair {
    struct job job;
    sem_t opened, second, done;
    bool second_came;
    struct noted *waiting; /* a job that was queued before the other worker became idle */
    unsigned waiting_ran;
};

static void pair_tile(void *argument, size_t index, unsigned lane)
{
    struct pair *pair = argument;
    (void)lane;
    if (index == 0) {
        sem_post(&pair->opened);
        pair->second_came = await(&pair->second);
    } else {
        pair->waiting_ran = atomic_load(&pair->waiting->runs);
        sem_post(&pair->second);
    }
}

static void run_pair(struct job *job, enum job_end end)
{
    struct pair *pair = (struct pair *)job;
    struct parallel parallel = job_parallel(job);
    (void)end;
    parallel.run(parallel.context, 2, pair_tile, pair);
    sem_post(&pair->done);
}

START_TEST(worker_helps_before_it_takes_a_heavy_job)
{
    _Atomic unsigned clock = 0;
    struct noted *jobs = make_jobs(1, &clock);
    struct pool *pool = make_pool(2, 4, false);
    struct gate gate;
    struct pair pair = {.job = {.run = run_pair, .flop = HEAVY}, .waiting = jobs, .waiting_ran = 99};
    sem_init(&pair.opened, 0, 0);
    sem_init(&pair.second, 0, 0);
    sem_init(&pair.done, 0, 0);
    enter_gate(pool, &gate, HEAVY);
    submit(pool, &pair.job);
    ck_assert(await(&pair.opened)); /* nobody was idle when it opened */
    jobs[0].job.flop = HEAVY;
    submit(pool, &jobs[0].job);
    sem_post(&gate.leave);
    ck_assert(await(&pair.done));
    ck_assert(pair.second_came);
    ck_assert_uint_eq(pair.waiting_ran, 0);
    await_count(&clock, 1);
    pool_free(pool);
    free(jobs);
}
END_TEST

START_TEST(nothing_waits_for_a_busy_worker)
{
    struct pool *pool = make_pool(2, 4, false);
    struct gate gate;
    struct regions *regions = make_regions(70);
    enter_gate(pool, &gate, 0);
    submit(pool, &regions->job);
    ck_assert(await(&regions->done));
    ck_assert_uint_eq(regions->wrong, 0);
    sem_post(&gate.leave);
    pool_free(pool);
    free(regions);
}
END_TEST

START_TEST(job_without_a_worker_runs_its_tiles_itself)
{
    struct regions *regions = make_regions(14);
    run_regions(&regions->job, JOB_RUN);
    ck_assert_uint_eq(regions->lanes, 1);
    ck_assert_uint_eq(regions->wrong, 0);
    free(regions);
}
END_TEST

static bool is_unwanted(struct job *job)
{
    return atomic_load(&((struct regions *)job)->unwanted);
}

START_TEST(cancelled_asks_the_job)
{
    struct regions *regions = make_regions(0);
    struct parallel parallel = job_parallel(&regions->job);
    ck_assert(!parallel.cancelled(parallel.context));
    regions->job.cancelled = is_unwanted;
    ck_assert(!parallel.cancelled(parallel.context));
    regions->unwanted = true;
    ck_assert(parallel.cancelled(parallel.context));
    free(regions);
}
END_TEST

/* What a worker gives a job */

struct inspection {
    struct job job;
    sem_t done;
    sigset_t blocked;
    int n_cpus;
};

static void run_inspection(struct job *job, enum job_end end)
{
    struct inspection *inspection = (struct inspection *)job;
    cpu_set_t mask;
    (void)end;
    pthread_sigmask(SIG_BLOCK, NULL, &inspection->blocked);
    pthread_getaffinity_np(pthread_self(), sizeof mask, &mask);
    inspection->n_cpus = CPU_COUNT(&mask);
    sem_post(&inspection->done);
}

static void inspect(struct pool *pool, struct inspection *inspection)
{
    memset(inspection, 0, sizeof *inspection);
    inspection->job.run = run_inspection;
    sem_init(&inspection->done, 0, 0);
    submit(pool, &inspection->job);
    ck_assert(await(&inspection->done));
    while (pool_state(pool).running)
        sched_yield();
}

START_TEST(workers_take_no_signals)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGALRM};
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    struct pool *pool = make_pool(1, 1, false);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    struct inspection inspection;
    inspect(pool, &inspection);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        ck_assert_int_eq(sigismember(&inspection.blocked, signals[i]), 1);
        ck_assert_int_eq(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
    pool_free(pool);
}
END_TEST

START_TEST(workers_are_pinned_when_asked)
{
    cpu_set_t mask;
    struct inspection inspection;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    struct pool *pool = make_pool(1, 1, false);
    inspect(pool, &inspection);
    ck_assert_int_eq(inspection.n_cpus, CPU_COUNT(&mask));
    pool_free(pool);
    pool = make_pool(1, 1, true);
    inspect(pool, &inspection);
    ck_assert_int_eq(inspection.n_cpus, 1);
    pool_free(pool);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they reserve more address space than that */
START_TEST(threads_that_cannot_start)
{
    struct pool_options options = {.workers = 200, .queue_depth = 1};
    struct error error = {0};
    struct rlimit space;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &space), 0);
    space.rlim_cur = (rlim_t)512 << 20; /* room for some stacks of 8 MiB */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
    ck_assert_ptr_null(pool_create(&options, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "server.workers (200)"));
}
END_TEST
#endif

Suite *suite(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_test(t, jobs_of_many_threads_run_once_each);
    tcase_add_test(t, short_jobs_run_on_their_caller);
    tcase_add_test(t, busy_time_is_counted);
    tcase_add_test(t, first_in_first_out_and_bounded);
    tcase_add_test(t, withdrawn_jobs_do_not_run);
    tcase_add_test(t, withdrawing_races_with_taking);
    tcase_add_test(t, dropped_jobs_end_on_the_caller);
    tcase_add_test(t, dropping_races_with_submitting);
    tcase_add_test(t, freeing_waits_for_running_and_drops_queued_jobs);
    tcase_add_test(t, tiles_run_once_each_in_order_on_lanes_of_their_own);
    tcase_add_test(t, several_jobs_have_regions_open);
    tcase_add_test(t, idle_workers_come_to_help);
    tcase_add_test(t, worker_helps_before_it_takes_a_heavy_job);
    tcase_add_test(t, nothing_waits_for_a_busy_worker);
    tcase_add_test(t, job_without_a_worker_runs_its_tiles_itself);
    tcase_add_test(t, cancelled_asks_the_job);
    tcase_add_test(t, workers_take_no_signals);
    tcase_add_test(t, workers_are_pinned_when_asked);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(t, threads_that_cannot_start);
#endif
    suite_add_tcase(s, t);
    return s;
}
