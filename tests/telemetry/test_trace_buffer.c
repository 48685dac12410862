#include "base/clock.h"
#include "suite.h"
#include "telemetry/trace_buffer.h"

#include <stdatomic.h>
#include <string.h>

static void put(struct trace_buffer *buffer, unsigned number, bool fits)
{
    struct trace_record record;
    memset(&record, 0, sizeof record);
    record.status = number;
    trace_record_take(&record, TRACE_TEXT_PATH, "/path", 5);
    ck_assert_int_eq(trace_buffer_put(buffer, &record), fits);
}

START_TEST(records_come_in_their_order)
{
    struct trace_buffer buffer;
    const struct trace_record *records;
    unsigned in = 0, out = 0;
    ck_assert(trace_buffer_init(&buffer));
    /* Around the ring's end more than once. */
    while (out < 3 * TRACE_BUFFER_RECORDS) {
        for (unsigned i = 0; i < 300; i++)
            put(&buffer, in++, true);
        while (out < in) {
            const size_t count = trace_buffer_wait(&buffer, 0, &records);
            ck_assert_uint_ge(count, 1);
            ck_assert_uint_le(count, TRACE_BATCH_RECORDS);
            for (size_t i = 0; i < count; i++) {
                ck_assert_uint_eq(records[i].status, out++);
                ck_assert_mem_eq(records[i].text + records[i].texts[TRACE_TEXT_PATH].at, "/path", 5);
            }
            trace_buffer_drop(&buffer, count);
        }
    }
    trace_buffer_destroy(&buffer);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    struct trace_buffer buffer;
    const struct trace_record *records;
    ck_assert(trace_buffer_init(&buffer));
    for (unsigned i = 0; i < TRACE_BUFFER_RECORDS; i++)
        put(&buffer, i, true);
    put(&buffer, 0, false);
    const size_t count = trace_buffer_wait(&buffer, 0, &records);
    put(&buffer, 0, false); /* they are still being read */
    trace_buffer_drop(&buffer, count);
    put(&buffer, 0, true);
    trace_buffer_destroy(&buffer);
}
END_TEST

START_TEST(stopping_ends_all_waiting)
{
    struct trace_buffer buffer;
    const struct trace_record *records;
    ck_assert(trace_buffer_init(&buffer));
    put(&buffer, 1, true);
    trace_buffer_stop(&buffer);
    /* An hour, were it not for the stop. */
    ck_assert_uint_eq(trace_buffer_wait(&buffer, 3600 * CLOCK_SECOND, &records), 1);
    trace_buffer_drop(&buffer, 1);
    ck_assert(!trace_buffer_sleep(&buffer, clock_ns() + 3600 * CLOCK_SECOND));
    ck_assert_uint_eq(trace_buffer_wait(&buffer, 3600 * CLOCK_SECOND, &records), 0);
    trace_buffer_destroy(&buffer);
}
END_TEST

enum { THREADS = 4, EACH = 5000 };

static void *put_many(void *context)
{
    struct trace_buffer *buffer = context;
    struct trace_record record;
    memset(&record, 0, sizeof record);
    for (unsigned i = 0; i < EACH;) {
        record.status = i;
        i += trace_buffer_put(buffer, &record);
    }
    return NULL;
}

START_TEST(threads_lose_nothing)
{
    struct trace_buffer buffer;
    const struct trace_record *records;
    pthread_t threads[THREADS];
    size_t seen = 0, sum = 0;
    ck_assert(trace_buffer_init(&buffer));
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, put_many, &buffer), 0);
    while (seen < THREADS * EACH) {
        const size_t count = trace_buffer_wait(&buffer, CLOCK_MILLISECOND, &records);
        for (size_t i = 0; i < count; i++)
            sum += records[i].status;
        seen += count;
        trace_buffer_drop(&buffer, count);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(seen, THREADS * EACH);
    ck_assert_uint_eq(sum, (size_t)THREADS * EACH * (EACH - 1) / 2);
    trace_buffer_destroy(&buffer);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("telemetry/trace_buffer");
    TCase *t = tcase_create("trace_buffer");
    tcase_add_test(t, records_come_in_their_order);
    tcase_add_test(t, what_does_not_fit_is_refused);
    tcase_add_test(t, stopping_ends_all_waiting);
    tcase_add_test(t, threads_lose_nothing);
    suite_add_tcase(s, t);
    return s;
}
