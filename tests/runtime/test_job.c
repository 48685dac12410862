/* src/runtime/job.c: companions, batches that wait, light jobs within heavy ones. */
#include "suite.h"

#include "jobs.h"

#include "base/clock.h"

#include <stdlib.h>

#define ROWS 8
#define HOUR (3600 * CLOCK_SECOND)
#define JOBS 8

static const int key_a, key_b;
static struct pool *pool;

/* A job that takes its companions and notes which, twice. */
struct leader {
    struct job job;
    unsigned order[JOBS], n_taken; /* its companions' indices */
    bool second_found;
    size_t running;
    _Atomic unsigned runs;
    struct leader *all;
};

static struct leader jobs[JOBS];
static _Atomic unsigned ended; /* of them */

static void run_leader(struct job *job, enum job_end end)
{
    struct leader *leader = (struct leader *)job;
    atomic_fetch_add(&leader->runs, 1);
    if (end == JOB_RUN) {
        unsigned n = 0;
        for (struct job *taken = job_take_companions(job); taken; taken = taken->next)
            leader->order[n++] = (unsigned)((struct leader *)taken - leader->all);
        leader->n_taken = n;
        leader->second_found = job_take_companions(job) != NULL;
        leader->running = pool_state(pool).running;
    }
    atomic_fetch_add(&ended, 1 + leader->n_taken);
}

static void set(size_t i, const void *key, size_t rows, double flop)
{
    jobs[i] =
        (struct leader){.job = {.run = run_leader, .batch_key = key, .batch_rows = rows, .flop = flop}, .all = jobs};
}

static void start(unsigned workers, size_t batch_rows, uint64_t delay_ns)
{
    struct pool_options options = {
        .workers = workers, .queue_depth = 16, .batch_rows = batch_rows, .batch_delay_ns = delay_ns};
    struct error error;
    pool = pool_create(&options, &error);
    ck_assert_ptr_nonnull(pool);
}

static void tear_down(void)
{
    pool_free(pool);
    pool = NULL;
}

/* Submits jobs [0, count) while the only worker is busy, and lets it go. */
static void queue_up(struct gate *gate, size_t count)
{
    enter_gate(pool, gate, LIGHT);
    for (size_t i = 0; i < count; i++)
        submit(pool, &jobs[i].job);
}

/* Companions */

START_TEST(companions_of_a_key_oldest_first_up_to_the_limit)
{
    static struct gate gate;
    start(1, ROWS, 0);
    set(0, &key_a, 3, LIGHT);
    set(1, &key_b, 1, LIGHT); /* of another key */
    set(2, &key_a, 2, LIGHT);
    set(3, NULL, 1, LIGHT);
    set(4, &key_a, 4, LIGHT); /* too large beside 3 + 2 */
    set(5, &key_a, 3, LIGHT); /* makes 8 */
    set(6, &key_a, 1, LIGHT); /* is one too many */
    queue_up(&gate, 7);
    sem_post(&gate.leave);
    await_count(&ended, 7);
    await_rest(pool);
    ck_assert_uint_eq(jobs[0].n_taken, 2);
    ck_assert_uint_eq(jobs[0].order[0], 2);
    ck_assert_uint_eq(jobs[0].order[1], 5);
    ck_assert(!jobs[0].second_found);
    ck_assert_uint_eq(jobs[0].running, 3);
    ck_assert_uint_eq(jobs[1].n_taken, 0);
    ck_assert_uint_eq(jobs[1].running, 1);
    ck_assert_uint_eq(jobs[3].n_taken, 0);
    ck_assert_uint_eq(jobs[4].n_taken, 1);
    ck_assert_uint_eq(jobs[4].order[0], 6);
    static const unsigned runs[] = {1, 1, 0, 1, 1, 0, 0};
    for (size_t i = 0; i < 7; i++)
        ck_assert_uint_eq(jobs[i].runs, runs[i]);
    ck_assert_uint_eq(pool_state(pool).running, 0);
}
END_TEST

START_TEST(heavy_jobs_are_no_companions)
{
    static struct gate gate, busy;
    start(2, ROWS, 0);
    enter_gate(pool, &busy, HEAVY);
    set(0, &key_a, 1, LIGHT);
    set(1, &key_a, 1, HEAVY);
    set(2, &key_a, 1, LIGHT);
    queue_up(&gate, 3);
    sem_post(&gate.leave);
    await_count(&ended, 3);
    ck_assert_uint_eq(jobs[0].n_taken, 1);
    ck_assert_uint_eq(jobs[0].order[0], 2);
    ck_assert_uint_eq(jobs[1].runs, 1);
    sem_post(&busy.leave);
}
END_TEST

START_TEST(no_companions_without_leave_key_worker_or_room)
{
    static struct gate gate;
    start(1, 0, HOUR); /* without batches there is no waiting for them */
    set(0, &key_a, 0, LIGHT);
    set(1, &key_a, 0, LIGHT);
    set(2, &key_a, 1, LIGHT);
    queue_up(&gate, 3);
    sem_post(&gate.leave);
    await_count(&ended, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(jobs[i].runs, 1);
    pool_free(pool);

    start(1, ROWS, 0);
    ended = 0;
    set(0, &key_a, ROWS + 1, LIGHT);
    set(1, &key_a, 0, LIGHT);
    set(2, NULL, 1, LIGHT);
    set(3, NULL, 1, LIGHT);
    queue_up(&gate, 4);
    run_leader(&jobs[2].job, JOB_RUN); /* by its caller */
    ck_assert_uint_eq(jobs[2].n_taken, 0);
    sem_post(&gate.leave);
    await_count(&ended, 5);
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(jobs[i].n_taken, 0);
}
END_TEST

START_TEST(companions_are_not_to_be_withdrawn)
{
    static struct gate gate;
    start(1, ROWS, 0);
    for (size_t i = 0; i < 4; i++)
        set(i, &key_a, 1, i == 3 ? HEAVY : LIGHT);
    queue_up(&gate, 4);
    ck_assert(pool_withdraw(pool, &jobs[1].job));
    ck_assert(pool_withdraw(pool, &jobs[3].job)); /* of the other class */
    ck_assert_uint_eq(pool_state(pool).queued, 2);
    sem_post(&gate.leave);
    await_count(&ended, 2);
    ck_assert_uint_eq(jobs[0].n_taken, 1);
    ck_assert_uint_eq(jobs[0].order[0], 2);
    ck_assert(!pool_withdraw(pool, &jobs[2].job));
}
END_TEST

START_TEST(depth_and_dropping_are_of_both_classes)
{
    struct error error;
    static struct gate gate;
    struct pool_options options = {.workers = 1, .queue_depth = 3};
    pool = pool_create(&options, &error);
    ck_assert_ptr_nonnull(pool);
    for (size_t i = 0; i < 4; i++)
        set(i, NULL, 1, i % 2 ? HEAVY : LIGHT);
    queue_up(&gate, 3);
    ck_assert(!pool_submit(pool, &jobs[3].job, &error));
    ck_assert_int_eq(error.code, ERROR_QUEUE_FULL);
    ck_assert_uint_eq(pool_state(pool).queued, 3);
    pool_drop_queued(pool);
    ck_assert_uint_eq(ended, 3);
    ck_assert_uint_eq(pool_state(pool).queued, 0);
    sem_post(&gate.leave);
}
END_TEST

/* Batches that wait */

START_TEST(a_batch_waits_until_it_is_full)
{
    _Atomic unsigned clock = 0;
    struct noted *others = make_jobs(3, &clock);
    for (unsigned workers = 1; workers <= 3; workers++) {
        start(workers, ROWS, HOUR);
        ended = clock = 0;
        set(0, &key_a, 5, LIGHT);
        set(1, &key_b, 5, LIGHT);
        set(2, &key_a, 2, LIGHT);
        set(3, &key_a, 1, LIGHT);
        for (size_t i = 0; i < 3; i++)
            submit(pool, &jobs[i].job);
        submit(pool, &others[workers - 1].job); /* one without a key is run at once */
        await_count(&clock, 1);
        await_rest(pool);
        ck_assert_uint_eq(ended, 0);
        ck_assert_uint_eq(pool_state(pool).queued, 3);
        submit(pool, &jobs[3].job);
        await_count(&ended, 3);
        ck_assert_uint_eq(jobs[0].n_taken, 2);
        ck_assert_uint_eq(pool_state(pool).queued, 1);
        pool_drop_queued(pool); /* does not wait for a batch */
        ck_assert_uint_eq(ended, 4);
        ck_assert_uint_eq(jobs[1].runs, 1);
        pool_free(pool);
    }
    pool = NULL;
    free(others);
}
END_TEST

START_TEST(a_job_of_a_whole_batch_waits_for_nobody)
{
    start(2, ROWS, HOUR);
    set(0, &key_a, ROWS, LIGHT);
    submit(pool, &jobs[0].job);
    await_count(&ended, 1);
}
END_TEST

START_TEST(a_batch_is_full_without_the_one_that_left)
{
    static struct gate gate;
    start(1, ROWS, HOUR);
    for (size_t i = 0; i < 3; i++)
        set(i, &key_a, 4, LIGHT);
    queue_up(&gate, 3);
    ck_assert(pool_withdraw(pool, &jobs[0].job));
    sem_post(&gate.leave);
    await_count(&ended, 2);
    ck_assert_uint_eq(jobs[1].n_taken, 1);
    ck_assert_uint_eq(jobs[1].order[0], 2);
}
END_TEST

START_TEST(what_a_batch_leaves_may_be_another_one)
{
    static struct gate gate;
    start(1, ROWS, HOUR);
    for (size_t i = 0; i < 5; i++)
        set(i, &key_a, 4, LIGHT);
    queue_up(&gate, 5);
    sem_post(&gate.leave);
    await_count(&ended, 4);
    await_rest(pool);
    ck_assert_uint_eq(jobs[0].n_taken, 1);
    ck_assert_uint_eq(jobs[2].n_taken, 1);
    ck_assert_uint_eq(pool_state(pool).queued, 1); /* the fifth waits on */
}
END_TEST

START_TEST(sleepers_wake_for_a_batch_that_is_old_enough)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        ended = 0;
        start(workers, ROWS, 3000000);
        await_rest(pool);
        set(0, &key_a, 1, LIGHT);
        set(1, &key_b, 1, LIGHT);
        submit(pool, &jobs[0].job);
        submit(pool, &jobs[1].job);
        await_count(&ended, 2);
        pool_free(pool);
    }
    pool = NULL;
}
END_TEST

/* The one that wakes by time takes the first job and keeps it: another one has to wake by time from then on. */
START_TEST(there_is_always_a_sleeper_that_keeps_the_time)
{
    static struct gate gate;
    for (int early = 0; early < 2; early++) {
        ended = 0;
        start(2, ROWS, 3000000);
        await_rest(pool);
        gate_init(&gate, LIGHT);
        gate.job.batch_key = &key_a;
        set(0, &key_b, 1, LIGHT);
        submit(pool, &gate.job);
        if (early)
            submit(pool, &jobs[0].job);
        ck_assert(await(&gate.entered));
        if (!early)
            submit(pool, &jobs[0].job);
        await_count(&ended, 1);
        sem_post(&gate.leave);
        pool_free(pool);
    }
    pool = NULL;
}
END_TEST

/* Within heavy jobs */

/* A heavy job of one stage after the other, until `ended` has come to `wanted`. */
struct staged {
    struct job job;
    _Atomic unsigned *ended;
    unsigned wanted;
    bool reached;
};

static void run_staged(struct job *job, enum job_end end)
{
    struct staged *staged = (struct staged *)job;
    (void)end;
    for (uint64_t over = clock_ns() + PATIENCE_NS; clock_ns() < over && !staged->reached;) {
        job_yield(job);
        staged->reached = atomic_load(staged->ended) >= staged->wanted;
    }
}

START_TEST(batches_form_within_a_heavy_job)
{
    static const uint64_t delays[] = {0, 3000000, HOUR};
    static const size_t rows[][3] = {{2, 3, 3}, {2, 2, 2}, {2, 3, 3}}; /* the second one never is full */
    for (size_t d = 0; d < 3; d++) {
        ended = 0;
        static struct gate gate;
        struct staged staged = {.job = {.run = run_staged, .flop = HEAVY}, .ended = &ended, .wanted = 3};
        start(1, ROWS, delays[d]);
        for (size_t i = 0; i < 3; i++)
            set(i, &key_a, rows[d][i], LIGHT);
        enter_gate(pool, &gate, LIGHT);
        submit(pool, &staged.job);
        for (size_t i = 0; i < 3; i++)
            submit(pool, &jobs[i].job);
        sem_post(&gate.leave);
        await_count(&ended, 3);
        await_rest(pool);
        ck_assert(staged.reached);
        ck_assert_uint_eq(jobs[0].n_taken, 2);
        ck_assert_uint_eq(jobs[0].running, 4); /* and the heavy one */
        pool_free(pool);
    }
    pool = NULL;
}
END_TEST

/* A nested job that does what would run another one if it could. */
struct nesting {
    struct job job;
    struct noted *inner;
    unsigned lanes, inner_ran;
    _Atomic bool done;
    unsigned tiles;
};

static void nesting_tile(void *argument, size_t index, unsigned lane)
{
    struct nesting *nesting = argument;
    (void)index;
    nesting->tiles += lane == 0;
}

static void run_nesting(struct job *job, enum job_end end)
{
    struct nesting *nesting = (struct nesting *)job;
    struct parallel parallel = job_parallel(job);
    (void)end;
    nesting->lanes = parallel.lanes;
    submit(pool, &nesting->inner->job);
    parallel.run(parallel.context, 3, nesting_tile, nesting);
    job_yield(job);
    nesting->inner_ran = nesting->inner->runs;
    nesting->done = true;
}

START_TEST(nested_jobs_do_not_nest)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        _Atomic unsigned clock = 0;
        static struct gate gate, busy;
        struct noted *inner = make_jobs(1, &clock);
        struct nesting nesting = {.job.run = run_nesting, .inner = inner};
        struct staged staged = {.job = {.run = run_staged, .flop = HEAVY}, .ended = &clock, .wanted = 1};
        start(workers, ROWS, 0);
        if (workers == 2)
            enter_gate(pool, &busy, LIGHT);
        enter_gate(pool, &gate, LIGHT);
        submit(pool, &staged.job);
        submit(pool, &nesting.job);
        sem_post(&gate.leave);
        await_count(&clock, 1);
        if (workers == 2)
            sem_post(&busy.leave);
        await_rest(pool);
        ck_assert(staged.reached);
        ck_assert(nesting.done);
        ck_assert_uint_eq(nesting.lanes, 1);
        ck_assert_uint_eq(nesting.tiles, 3);
        ck_assert_uint_eq(nesting.inner_ran, 0);
        pool_free(pool);
        free(inner);
    }
    pool = NULL;
}
END_TEST

/* A light job on top does not yield. */
static void run_yielding(struct job *job, enum job_end end)
{
    struct nesting *nesting = (struct nesting *)job;
    (void)end;
    submit(pool, &nesting->inner->job);
    job_yield(job);
    nesting->inner_ran = nesting->inner->runs;
    nesting->done = true;
}

START_TEST(light_jobs_do_not_yield)
{
    _Atomic unsigned clock = 0;
    struct noted *inner = make_jobs(1, &clock);
    struct nesting nesting = {.job.run = run_yielding, .inner = inner};
    start(1, ROWS, 0);
    submit(pool, &nesting.job);
    await_count(&clock, 1);
    await_rest(pool);
    ck_assert(nesting.done);
    ck_assert_uint_eq(nesting.inner_ran, 0);
    free(inner);
}
END_TEST

/* One that may be taken at once comes just before one that has to wait: the sleeper that is woken is not the one that
 * keeps the time, and has taken the first by the time it looks at the second. */
START_TEST(the_timekeeper_hears_of_what_came_behind_another)
{
    start(2, ROWS, 2000000);
    for (size_t round = 0; round < 100; round++) {
        await_rest(pool);
        atomic_store(&ended, 0);
        set(0, NULL, 1, LIGHT);
        set(1, &key_a, 1, LIGHT);
        submit(pool, &jobs[0].job);
        submit(pool, &jobs[1].job);
        await_count(&ended, 2);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("job");
    TCase *t = tcase_create("job");
    tcase_add_checked_fixture(t, NULL, tear_down);
    tcase_add_test(t, companions_of_a_key_oldest_first_up_to_the_limit);
    tcase_add_test(t, heavy_jobs_are_no_companions);
    tcase_add_test(t, no_companions_without_leave_key_worker_or_room);
    tcase_add_test(t, companions_are_not_to_be_withdrawn);
    tcase_add_test(t, depth_and_dropping_are_of_both_classes);
    tcase_add_test(t, a_batch_waits_until_it_is_full);
    tcase_add_test(t, a_job_of_a_whole_batch_waits_for_nobody);
    tcase_add_test(t, a_batch_is_full_without_the_one_that_left);
    tcase_add_test(t, what_a_batch_leaves_may_be_another_one);
    tcase_add_test(t, sleepers_wake_for_a_batch_that_is_old_enough);
    tcase_add_test(t, there_is_always_a_sleeper_that_keeps_the_time);
    tcase_add_test(t, the_timekeeper_hears_of_what_came_behind_another);
    tcase_add_test(t, batches_form_within_a_heavy_job);
    tcase_add_test(t, nested_jobs_do_not_nest);
    tcase_add_test(t, light_jobs_do_not_yield);
    suite_add_tcase(s, t);
    return s;
}
