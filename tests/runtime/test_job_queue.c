/* src/runtime/job_queue.c: oldest first, from when they are ripe; batches by key. */
#include "suite.h"

#include "base/clock.h"
#include "runtime/job_queue.h"

#define JOBS 8

static struct job jobs[JOBS];
static const int key_a, key_b;

static void fill(struct job_queue *queue, size_t count)
{
    job_queue_init(queue);
    for (size_t i = 0; i < count; i++)
        job_queue_push(queue, &jobs[i]);
}

static void set(size_t i, const void *key, size_t rows, uint64_t ripe_at)
{
    jobs[i] = (struct job){.batch_key = key, .batch_rows = rows, .ripe_at = ripe_at};
}

START_TEST(oldest_first)
{
    struct job_queue queue;
    for (size_t i = 0; i < 3; i++)
        set(i, NULL, 0, 0);
    fill(&queue, 3);
    ck_assert_uint_eq(queue.count, 3);
    ck_assert_uint_eq(job_queue_ripe(&queue), 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(job_queue_take(&queue, 1), &jobs[i]);
    ck_assert_ptr_null(job_queue_take(&queue, 1));
    ck_assert_uint_eq(queue.count, 0);
    ck_assert_uint_eq(job_queue_ripe(&queue), CLOCK_NEVER);
    job_queue_push(&queue, &jobs[2]);
    ck_assert_ptr_eq(job_queue_take(&queue, 1), &jobs[2]);
}
END_TEST

START_TEST(removed_from_anywhere)
{
    for (size_t removed = 0; removed < 3; removed++) {
        struct job_queue queue;
        const void *key = NULL;
        for (size_t i = 0; i < 4; i++)
            set(i, i == removed ? &key_a : &key_b, 1, 0);
        fill(&queue, 3);
        ck_assert(!job_queue_remove(&queue, &jobs[3], &key));
        ck_assert(job_queue_remove(&queue, &jobs[removed], &key));
        ck_assert_ptr_eq(key, &key_a);
        ck_assert(!job_queue_remove(&queue, &jobs[removed], &key));
        job_queue_push(&queue, &jobs[3]); /* the end is where it should be */
        ck_assert_uint_eq(queue.count, 3);
        for (size_t i = 0; i < 4; i++)
            if (i != removed)
                ck_assert_ptr_eq(job_queue_take(&queue, 1), &jobs[i]);
        ck_assert_uint_eq(job_queue_ripe(&queue), CLOCK_NEVER);
    }
}
END_TEST

START_TEST(taken_when_ripe)
{
    struct job_queue queue;
    set(0, &key_a, 1, 100);
    set(1, &key_a, 1, 200);
    set(2, NULL, 1, 0);
    set(3, &key_a, 1, 300);
    fill(&queue, 4);
    ck_assert_uint_eq(job_queue_ripe(&queue), 0);
    ck_assert_ptr_eq(job_queue_take(&queue, 99), &jobs[2]);
    ck_assert_uint_eq(job_queue_ripe(&queue), 100);
    ck_assert_ptr_null(job_queue_take(&queue, 99));
    ck_assert_ptr_eq(job_queue_take(&queue, 250), &jobs[0]);
    ck_assert_ptr_eq(job_queue_take(&queue, 250), &jobs[1]);
    ck_assert_ptr_null(job_queue_take(&queue, 250));
    ck_assert_uint_eq(job_queue_ripe(&queue), 300);
}
END_TEST

START_TEST(ripe_by_company)
{
    struct job_queue queue;
    const void *key;
    set(0, &key_b, 100, 100);
    set(1, &key_a, 3, 200);
    set(2, &key_a, 3, 300);
    set(3, &key_a, 2, 400);
    fill(&queue, 3);
    job_queue_ripen(&queue, &key_a, 8);
    ck_assert_uint_eq(job_queue_ripe(&queue), 100); /* 6 rows are too few, and those of another key do not count */
    job_queue_push(&queue, &jobs[3]);
    job_queue_ripen(&queue, &key_a, 8);
    job_queue_ripen(&queue, &key_a, 8); /* which changes nothing more */
    ck_assert_uint_eq(job_queue_ripe(&queue), 0);
    ck_assert_ptr_eq(job_queue_take(&queue, 1), &jobs[1]);
    ck_assert_ptr_null(job_queue_take(&queue, 1));
    ck_assert_uint_eq(job_queue_ripe(&queue), 100);
    ck_assert(job_queue_remove(&queue, &jobs[0], &key));
    ck_assert_uint_eq(job_queue_ripe(&queue), 300);
}
END_TEST

START_TEST(batch_is_what_fits_of_one_key)
{
    struct job_queue queue;
    size_t rows = 10, count;
    set(0, NULL, 1, 0);
    set(1, &key_a, 4, 0);
    set(2, &key_b, 1, 0);
    set(3, &key_a, 7, 50); /* too large beside the first */
    set(4, &key_a, 6, 60);
    set(5, &key_a, 1, 70); /* nothing is left */
    set(6, &key_a, 0, 80);
    fill(&queue, 7);
    struct job *batch = job_queue_take_batch(&queue, &key_a, &rows, &count);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(rows, 0);
    ck_assert_ptr_eq(batch, &jobs[1]);
    ck_assert_ptr_eq(batch->next, &jobs[4]);
    ck_assert_ptr_eq(batch->next->next, &jobs[6]);
    ck_assert_ptr_null(batch->next->next->next);
    ck_assert_uint_eq(queue.count, 4);
    job_queue_push(&queue, &jobs[7]);
    static const size_t left[] = {0, 2, 3, 5, 7};
    for (size_t i = 0; i < 5; i++)
        ck_assert_ptr_eq(job_queue_take(&queue, 1000), &jobs[left[i]]);
    ck_assert_ptr_null(job_queue_take_batch(&queue, &key_a, &rows, &count));
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(all_at_once)
{
    struct job_queue queue;
    for (size_t i = 0; i < 3; i++)
        set(i, NULL, 0, i ? 500 : 0);
    fill(&queue, 3);
    struct job *chain = job_queue_take_all(&queue);
    for (size_t i = 0; i < 3; i++, chain = chain->next)
        ck_assert_ptr_eq(chain, &jobs[i]);
    ck_assert_ptr_null(chain);
    ck_assert_uint_eq(queue.count, 0);
    ck_assert_uint_eq(job_queue_ripe(&queue), CLOCK_NEVER);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("job_queue");
    TCase *t = tcase_create("job_queue");
    tcase_add_test(t, oldest_first);
    tcase_add_test(t, removed_from_anywhere);
    tcase_add_test(t, taken_when_ripe);
    tcase_add_test(t, ripe_by_company);
    tcase_add_test(t, batch_is_what_fits_of_one_key);
    tcase_add_test(t, all_at_once);
    suite_add_tcase(s, t);
    return s;
}
