/* src/runtime/processors.c: affinity and quota. */
#include "suite.h"

#include "runtime/processors.h"

#include <pthread.h>
#include <sched.h>

START_TEST(quota_rounds_up_and_only_ever_lowers)
{
    static const struct {
        unsigned allowed;
        double quota;
        unsigned usable;
        bool in_force;
    } cases[] = {
        {8, 8, 8, false},   {8, 16, 8, false}, {8, 7.5, 8, true}, {8, 2, 2, true},
        {8, 2.01, 3, true}, {8, 0.1, 1, true}, {1, 1, 1, false},  {1, 0.5, 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct processors processors = processors_with_quota(cases[i].allowed, cases[i].quota);
        ck_assert_uint_eq(processors.allowed, cases[i].allowed);
        ck_assert_uint_eq(processors.usable, cases[i].usable);
        ck_assert_int_eq(processors.quota, cases[i].in_force);
    }
}
END_TEST

START_TEST(counts_the_affinity_mask)
{
    cpu_set_t mask;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    struct processors before = processors_count();
    ck_assert_uint_eq(before.allowed, (unsigned)CPU_COUNT(&mask));
    ck_assert_uint_ge(before.usable, 1);
    ck_assert_uint_le(before.usable, before.allowed);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &mask))
        last--;
    CPU_ZERO(&mask);
    CPU_SET(last, &mask);
    ck_assert_int_eq(sched_setaffinity(0, sizeof mask, &mask), 0);
    struct processors after = processors_count();
    ck_assert_uint_eq(after.allowed, 1);
    ck_assert_uint_eq(after.usable, 1);
}
END_TEST

struct pinning {
    unsigned n;
    bool pinned;
    int count, cpu; /* of the thread's mask afterwards */
};

static void *pin_thread(void *argument)
{
    struct pinning *pinning = argument;
    cpu_set_t mask;
    processors_pin(0); /* what counts is the process's mask, not the thread's */
    pinning->pinned = processors_pin(pinning->n);
    pthread_getaffinity_np(pthread_self(), sizeof mask, &mask);
    pinning->count = CPU_COUNT(&mask);
    while (pinning->cpu < CPU_SETSIZE && !CPU_ISSET(pinning->cpu, &mask))
        pinning->cpu++;
    return NULL;
}

START_TEST(pins_to_the_nth_allowed_cpu)
{
    cpu_set_t mask;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    unsigned n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask))
            continue;
        struct pinning pinning = {.n = n++};
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, pin_thread, &pinning), 0);
        pthread_join(thread, NULL);
        ck_assert(pinning.pinned);
        ck_assert_int_eq(pinning.count, 1);
        ck_assert_int_eq(pinning.cpu, cpu);
    }
    ck_assert(!processors_pin(n)); /* one beyond the last */
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("processors");
    TCase *t = tcase_create("processors");
    tcase_add_test(t, quota_rounds_up_and_only_ever_lowers);
    tcase_add_test(t, counts_the_affinity_mask);
    tcase_add_test(t, pins_to_the_nth_allowed_cpu);
    suite_add_tcase(s, t);
    return s;
}
