/* What the pool says of work before it is begun: too late for what waits, too late by itself, and when it will be done.
 * Jobs here take at least the time they sleep, so that a slow machine only makes the pool slower. */
#include "base/clock.h"
#include "suite.h"

#include "jobs.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define SLEEP_NS (20 * CLOCK_MILLISECOND)
#define HOUR     (3600 * CLOCK_SECOND)
#define JOB_FLOP (10 * JOB_LIGHT_FLOP)
#define TRIES    60

struct sleeper {
    struct job job;
    _Atomic unsigned *done;
    bool forgone;
    double learns; /* 0: nothing */
    bool learned;
};

static void run_sleeper(struct job *job, enum job_end end)
{
    struct sleeper *sleeper = (struct sleeper *)job;
    const struct timespec time = {.tv_nsec = SLEEP_NS};
    struct error error;
    if (end == JOB_RUN && !sleeper->forgone)
        nanosleep(&time, NULL);
    if (end == JOB_RUN && sleeper->learns > 0)
        sleeper->learned = job_learn(job, sleeper->learns, &error);
    if (sleeper->forgone)
        job_forgo(job, job);
    atomic_fetch_add(sleeper->done, 1);
}

static struct sleeper *sleepers(size_t count, _Atomic unsigned *done)
{
    struct sleeper *all = calloc(count, sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i < count; i++) {
        all[i].job.run = run_sleeper;
        all[i].job.flop = JOB_FLOP;
        all[i].done = done;
    }
    return all;
}

/* A pool of one worker that has worked long enough to be known. */
static struct pool *known_pool(void)
{
    enum { JOBS = 4 };
    _Atomic unsigned done = 0;
    struct pool *pool = make_pool(1, 64, false);
    struct sleeper *jobs = sleepers(JOBS, &done);
    for (size_t i = 0; i < JOBS; i++)
        submit(pool, &jobs[i].job);
    await_count(&done, JOBS);
    await_rest(pool);
    free(jobs);
    return pool;
}

static enum error_code submitted(struct pool *pool, struct job *job, uint64_t deadline)
{
    struct error error = {.code = ERROR_NONE};
    job->deadline = deadline;
    if (pool_submit(pool, job, &error))
        return ERROR_NONE;
    ck_assert_int_ne(error.code, ERROR_NONE);
    return error.code;
}

START_TEST(an_unknown_pool_refuses_nobody)
{
    struct pool *pool = make_pool(1, 8, false);
    struct gate gate;
    _Atomic unsigned done = 0;
    struct sleeper *jobs = sleepers(3, &done);
    enter_gate(pool, &gate, HEAVY);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(submitted(pool, &jobs[i].job, clock_ns() + CLOCK_MILLISECOND), ERROR_NONE);
    ck_assert_uint_eq(pool_backlog_ns(pool), 0);
    sem_post(&gate.leave);
    await_count(&done, 3);
    pool_free(pool);
    free(jobs);
}
END_TEST

/* Whether there is no place in 50 ms for one behind jobs that wait. Where the machine stands still between this clock
 * and the pool's, the deadline has passed by the time that it is looked at: then it is tried again. */
static bool refused_for_those_that_wait(struct pool *pool, struct job *job)
{
    for (unsigned try = 0; try < TRIES; try++) {
        const enum error_code refusal = submitted(pool, job, clock_ns() + 50 * CLOCK_MILLISECOND);
        if (refusal == ERROR_OVERLOADED)
            return true;
        if (refusal == ERROR_NONE)
            ck_assert(pool_withdraw(pool, job));
    }
    return false;
}

START_TEST(what_waits_makes_others_too_late)
{
    enum { JOBS = 10 };
    struct pool *pool = known_pool();
    struct gate gate;
    _Atomic unsigned done = 0;
    struct sleeper *jobs = sleepers(JOBS + 3, &done);
    enter_gate(pool, &gate, HEAVY);
    /* Alone, there is time. */
    ck_assert_int_eq(submitted(pool, &jobs[JOBS].job, clock_ns() + HOUR), ERROR_NONE);
    ck_assert(pool_withdraw(pool, &jobs[JOBS].job));
    for (size_t i = 0; i < JOBS; i++)
        ck_assert_int_eq(submitted(pool, &jobs[i].job, 0), ERROR_NONE);
    /* Each takes 20 ms at least, all ten 200 ms: not done in 50 ms, whatever the margin. */
    ck_assert_uint_ge(pool_backlog_ns(pool), JOBS * SLEEP_NS);
    ck_assert(refused_for_those_that_wait(pool, &jobs[JOBS].job));
    ck_assert_int_eq(submitted(pool, &jobs[JOBS].job, clock_ns() + HOUR), ERROR_NONE);
    ck_assert_int_eq(submitted(pool, &jobs[JOBS + 1].job, 0), ERROR_NONE);
    /* Light ones do not wait for heavy ones. */
    jobs[JOBS + 2].job.flop = 1;
    enum error_code refusal = ERROR_OVERLOADED;
    for (unsigned try = 0; try < TRIES && refusal != ERROR_NONE; try++)
        refusal = submitted(pool, &jobs[JOBS + 2].job, clock_ns() + 50 * CLOCK_MILLISECOND);
    ck_assert_int_eq(refusal, ERROR_NONE);
    sem_post(&gate.leave);
    await_count(&done, JOBS + 3);
    await_rest(pool);
    ck_assert_uint_eq(pool_backlog_ns(pool), 0);
    pool_free(pool);
    free(jobs);
}
END_TEST

START_TEST(what_is_withdrawn_does_not_wait)
{
    enum { JOBS = 10 };
    struct pool *pool = known_pool();
    struct gate gate;
    _Atomic unsigned done = 0;
    struct sleeper *jobs = sleepers(JOBS + 1, &done);
    enter_gate(pool, &gate, LIGHT);
    for (size_t i = 0; i < JOBS; i++)
        ck_assert_int_eq(submitted(pool, &jobs[i].job, 0), ERROR_NONE);
    const uint64_t waited = pool_backlog_ns(pool);
    ck_assert_uint_ge(waited, JOBS * SLEEP_NS);
    for (size_t i = 0; i < JOBS; i++)
        ck_assert(pool_withdraw(pool, &jobs[i].job));
    ck_assert_uint_lt(pool_backlog_ns(pool), waited / 10); /* a light one, which runs */
    sem_post(&gate.leave);
    pool_free(pool);
    free(jobs);
}
END_TEST

START_TEST(some_work_is_too_much_by_itself)
{
    struct pool *pool = known_pool();
    _Atomic unsigned done = 0;
    struct sleeper *jobs = sleepers(2, &done);
    jobs[0].job.flop = 1e5 * JOB_FLOP; /* 2000 s at least */
    ck_assert_int_eq(submitted(pool, &jobs[0].job, clock_ns() + 60 * CLOCK_SECOND), ERROR_DEADLINE);
    ck_assert_int_eq(submitted(pool, &jobs[0].job, 0), ERROR_NONE);
    await_count(&done, 1);
    /* It has shown only now. A second after the first refusal one is let in to see whether the pool is right, and looks
     * fast: the next is larger still. */
    jobs[1].job.flop = INFINITY;
    jobs[1].learned = true;
    for (unsigned try = 0; try < 3 && jobs[1].learned; try++) {
        jobs[1].learns = pow(1e8, try) * 1e12 * JOB_FLOP;
        ck_assert_int_eq(submitted(pool, &jobs[1].job, clock_ns() + 60 * CLOCK_SECOND), ERROR_NONE);
        await_count(&done, 2 + try);
        await_rest(pool);
    }
    ck_assert(!jobs[1].learned);
    pool_free(pool);
    free(jobs);
}
END_TEST

/* Jobs that were slow for their size make all look slow. When such work comes again and again and nothing else is done,
 * the pool finds out. */
START_TEST(work_that_seems_too_much_is_tried)
{
    struct pool *pool = known_pool();
    _Atomic unsigned done = 0;
    struct sleeper *job = sleepers(1, &done);
    const struct timespec pause = {.tv_nsec = 10 * (long)CLOCK_MILLISECOND};
    bool tried = false;
    job->job.flop = 1e6 * JOB_FLOP; /* hours, it seems */
    ck_assert_int_eq(submitted(pool, &job->job, clock_ns() + HOUR), ERROR_DEADLINE);
    for (uint64_t until = clock_ns() + 60 * CLOCK_SECOND; !tried && clock_ns() < until; nanosleep(&pause, NULL))
        tried = submitted(pool, &job->job, clock_ns() + HOUR) == ERROR_NONE;
    ck_assert(tried);
    await_count(&done, 1);
    await_rest(pool);
    /* It was done in no time: now all of its kind is taken. */
    for (unsigned i = 2; i < 10; i++) {
        ck_assert_int_eq(submitted(pool, &job->job, clock_ns() + HOUR), ERROR_NONE);
        await_count(&done, i);
        await_rest(pool);
    }
    pool_free(pool);
    free(job);
}
END_TEST

/* One that has failed is not followed by the next. */
START_TEST(trials_are_rare)
{
    struct pool *pool = known_pool();
    _Atomic unsigned done = 0;
    struct sleeper *job = sleepers(1, &done);
    const struct timespec pause = {.tv_nsec = 10 * (long)CLOCK_MILLISECOND};
    job->job.flop = 1e6 * JOB_FLOP;
    job->forgone = true;
    while (submitted(pool, &job->job, clock_ns() + HOUR) != ERROR_NONE)
        nanosleep(&pause, NULL);
    await_count(&done, 1);
    await_rest(pool);
    for (uint64_t until = clock_ns() + CLOCK_SECOND + CLOCK_SECOND / 2; clock_ns() < until; nanosleep(&pause, NULL))
        ck_assert_int_eq(submitted(pool, &job->job, clock_ns() + HOUR), ERROR_DEADLINE);
    pool_free(pool);
    free(job);
}
END_TEST

/* What is over in no time because it was not done would make the workers look fast. */
START_TEST(what_was_given_up_is_no_speed)
{
    enum { JOBS = 200 };
    struct pool *pool = known_pool();
    struct gate gate;
    _Atomic unsigned done = 0;
    struct sleeper *jobs = sleepers(JOBS + 10, &done);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i].forgone = true;
        submit(pool, &jobs[i].job);
        await_count(&done, (unsigned)i + 1);
    }
    await_rest(pool);
    enter_gate(pool, &gate, HEAVY);
    for (size_t i = JOBS; i < JOBS + 10; i++)
        submit(pool, &jobs[i].job);
    ck_assert_uint_ge(pool_backlog_ns(pool), 10 * SLEEP_NS);
    sem_post(&gate.leave);
    await_count(&done, JOBS + 10);
    pool_free(pool);
    free(jobs);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("runtime/outlook");
    TCase *t = tcase_create("outlook");
    tcase_add_test(t, an_unknown_pool_refuses_nobody);
    tcase_add_test(t, what_waits_makes_others_too_late);
    tcase_add_test(t, what_is_withdrawn_does_not_wait);
    tcase_add_test(t, some_work_is_too_much_by_itself);
    tcase_add_test(t, work_that_seems_too_much_is_tried);
    tcase_add_test(t, trials_are_rare);
    tcase_add_test(t, what_was_given_up_is_no_speed);
    suite_add_tcase(s, t);
    return s;
}
