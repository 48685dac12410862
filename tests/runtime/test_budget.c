/* src/runtime/budget.c: never above the total, and messages that say what to change. */
#include "suite.h"

#include "runtime/budget.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

START_TEST(takes_and_gives)
{
    struct memory_budget budget;
    struct budget_share a = {0}, b = {0};
    struct error error;
    budget_init(&budget, 1000);
    ck_assert_uint_eq(budget.total, 1000);
    ck_assert(budget_take(&budget, &a, 400, &error));
    ck_assert(budget_take(&budget, &a, 200, &error));
    ck_assert(budget_take(&budget, &b, 400, &error));
    ck_assert_uint_eq(a.bytes, 600);
    ck_assert_uint_eq(budget.used, 1000);
    budget_give(&budget, &a, 100);
    ck_assert_uint_eq(a.bytes, 500);
    ck_assert_uint_eq(budget.used, 900);
    budget_give_all(&budget, &a);
    budget_give_all(&budget, &b);
    ck_assert_uint_eq(a.bytes, 0);
    ck_assert_uint_eq(budget.used, 0);
}
END_TEST

START_TEST(full_for_now)
{
    struct memory_budget budget;
    struct budget_share a = {0}, b = {0};
    struct error error;
    budget_init(&budget, 1000);
    ck_assert(budget_take(&budget, &a, 600, &error));
    ck_assert(!budget_take(&budget, &b, 401, &error));
    ck_assert_int_eq(error.code, ERROR_BUDGET_FULL);
    ck_assert_ptr_nonnull(strstr(error.message, "limits.memory_budget_bytes"));
    ck_assert_ptr_nonnull(strstr(error.message, "401"));
    ck_assert_ptr_nonnull(strstr(error.message, "600"));
    ck_assert_ptr_nonnull(strstr(error.message, "1000"));
    ck_assert_uint_eq(b.bytes, 0);
    ck_assert_uint_eq(budget.used, 600);
    ck_assert(budget_take(&budget, &b, 400, &error));
}
END_TEST

START_TEST(can_never_fit)
{
    struct memory_budget budget;
    struct budget_share share = {0};
    struct error error;
    budget_init(&budget, 1000);
    ck_assert(!budget_take(&budget, &share, 1001, &error));
    ck_assert_int_eq(error.code, ERROR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(error.message, "limits.memory_budget_bytes (1000)"));
    ck_assert_ptr_nonnull(strstr(error.message, "1001"));
    /* With what it holds already; and where the sum is beyond a size. */
    ck_assert(budget_take(&budget, &share, 700, &error));
    ck_assert(!budget_take(&budget, &share, 600, &error));
    ck_assert_int_eq(error.code, ERROR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(error.message, "1300"));
    ck_assert(!budget_take(&budget, &share, SIZE_MAX, &error));
    ck_assert_int_eq(error.code, ERROR_TOO_LARGE);
    ck_assert_uint_eq(share.bytes, 700);
    ck_assert_uint_eq(budget.used, 700);
}
END_TEST

struct taker {
    struct memory_budget *budget;
    _Atomic size_t
        *held; /* counted independently, a little late on taking and early on giving: never more than is held */
    unsigned seed, over, refused;
};

static void *take_and_give(void *argument)
{
    struct taker *taker = argument;
    for (int i = 0; i < 20000; i++) {
        struct budget_share share = {0};
        struct error error;
        taker->seed = taker->seed * 1664525 + 1013904223;
        size_t bytes = 1 + taker->seed / 65536 % 700;
        if (!budget_take(taker->budget, &share, bytes, &error)) {
            taker->refused += error.code == ERROR_BUDGET_FULL;
            continue;
        }
        taker->over += atomic_fetch_add(taker->held, bytes) + bytes > 1000;
        taker->over += atomic_load(&taker->budget->used) > 1000;
        atomic_fetch_sub(taker->held, bytes);
        budget_give_all(taker->budget, &share);
    }
    return NULL;
}

START_TEST(threads_never_hold_more_than_the_total)
{
    struct memory_budget budget;
    _Atomic size_t held = 0;
    struct taker takers[4];
    pthread_t threads[4];
    budget_init(&budget, 1000);
    for (unsigned i = 0; i < 4; i++) {
        takers[i] = (struct taker){.budget = &budget, .held = &held, .seed = i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, &takers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_eq(takers[i].over, 0);
    }
    ck_assert_uint_eq(budget.used, 0);
}
END_TEST

static size_t mem_total(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long long kib = 0;
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "MemTotal: %llu kB", &kib), 1);
    fclose(file);
    return (size_t)kib * 1024;
}

START_TEST(default_is_at_most_half_of_the_machine)
{
    struct memory_budget budget;
    budget_init(&budget, 0);
    ck_assert_uint_gt(budget.total, 0);
    ck_assert_uint_le(budget.total, mem_total() / 2);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they reserve more address space than that */
START_TEST(default_is_half_of_the_address_space_limit)
{
    struct memory_budget budget;
    const size_t limit = (size_t)192 << 20;
    struct rlimit space;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &space), 0);
    space.rlim_cur = limit;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
    budget_init(&budget, 0);
    ck_assert_uint_eq(budget.total, limit / 2);
}
END_TEST
#endif

Suite *suite(void)
{
    Suite *s = suite_create("budget");
    TCase *t = tcase_create("budget");
    tcase_add_test(t, takes_and_gives);
    tcase_add_test(t, full_for_now);
    tcase_add_test(t, can_never_fit);
    tcase_add_test(t, threads_never_hold_more_than_the_total);
    tcase_add_test(t, default_is_at_most_half_of_the_machine);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(t, default_is_half_of_the_address_space_limit);
#endif
    suite_add_tcase(s, t);
    return s;
}
