/* Against what the test knows of its own process. */
#include "telemetry/process_facts.h"

#include "suite.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MORE ((size_t)64 << 20)

START_TEST(facts)
{
    struct process_facts before, after;
    struct rlimit limit;
    struct rusage usage;
    process_facts_read(&before);
    char *memory = malloc(MORE);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 1, MORE);
    int opened[5];
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_ge(opened[i] = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    process_facts_read(&after);
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_uint_eq(after.open_descriptors, before.open_descriptors + 5);
    ck_assert_uint_eq(after.max_descriptors, limit.rlim_cur);
    ck_assert(after.resident_bytes >= before.resident_bytes + MORE / 10 * 9);
    ck_assert(after.virtual_bytes >= after.resident_bytes);
    ck_assert(after.cpu_s >= before.cpu_s);
    ck_assert(after.cpu_s <= (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 2) +
                                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    for (size_t i = 0; i < 5; i++)
        close(opened[i]);
    free(memory);
}
END_TEST

/* This process is a child of a test program that was started just now. */
START_TEST(start)
{
    const double started = process_started_s(), now = (double)time(NULL);
    ck_assert_msg(started > now - 3600 && started < now + 2, "%f, now %f", started, now);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/process_facts");
    TCase *c = tcase_create("self");
    tcase_add_test(c, facts);
    tcase_add_test(c, start);
    suite_add_tcase(s, c);
    return s;
}
