/* Windows by a clock of the test's own, any number of threads that add, readers beside them. */
#include "runtime/live_store.h"

#include "analysis/live_kernels/live_kernels.h"
#include "engine/random.h"
#include "suite.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

enum { HEADS = 3 };

static struct live_sums new_sums(void)
{
    struct live_sums sums;
    size_t bytes;
    ck_assert(live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = HEADS}, &bytes));
    live_sums_init(&sums, (struct live_shape){.num_layers = 1, .num_heads = HEADS}, malloc(bytes));
    return sums;
}

static void free_sums(struct live_sums *sums)
{
    free(sums->values);
}

/* One sequence of `rows` rows, by which it is known again. */
static struct live_sums traffic(double rows)
{
    struct live_sums sums = new_sums();
    sums.counts = (struct live_counts){.sequences = 1, .rows = rows};
    *sums.keys = (struct live_keys){.allowed = 2 * rows, .even = rows / 2};
    double y[LIVE_STATISTIC_COUNT * LIVE_MEANS_PADDING] = {0}, sets[ROW_SET_COUNT];
    const double baselines[LIVE_BASELINE_COUNT] = {0};
    ck_assert_uint_eq(sums.columns, LIVE_MEANS_PADDING);
    for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
        for (size_t head = 0; head < HEADS; head++)
            y[i * sums.columns + head] = rows * (double)(HEADS * i + head + 1);
    for (size_t i = 0; i < ROW_SET_COUNT; i++)
        sets[i] = rows;
    live_sums_add_sequence(&sums, 0, y, baselines, sets);
    for (size_t i = 0; i < live_sums_pairs(HEADS); i++)
        sums.products[i] = rows;
    return sums;
}

static struct live_store *new_store(unsigned shards, uint64_t now)
{
    const struct live_store_options options = {
        .shape = {.num_layers = 1, .num_heads = HEADS}, .shards = shards, .slice_s = 30, .now = now};
    struct error error;
    struct live_store *store = live_store_create(&options, &error);
    ck_assert_ptr_nonnull(store);
    return store;
}

static void add(struct live_store *store, double rows, uint64_t now)
{
    struct live_sums sums = traffic(rows);
    live_store_add(store, &sums, now);
    free_sums(&sums);
}

static const struct live_part all = {.kind = LIVE_ALL}, window = {LIVE_WINDOW, LIVE_SLICES},
                              baseline = {.kind = LIVE_BASELINE};

/* The rows of a part; everything else in it fits them. */
static double rows_of(struct live_store *store, struct live_part part, uint64_t now, uint64_t *since)
{
    struct live_sums sums = new_sums();
    struct live_stamp stamp;
    uint64_t from;
    live_store_read(store, &part, now, &sums, &stamp, since ? since : &from);
    const double rows = sums.counts.rows;
    ck_assert(sums.keys->allowed == 2 * rows && sums.products[1] == rows);
    const struct ratio_sums one = live_sums_of(&sums, 0, 1, live_statistics[1]);
    ck_assert(one.n == rows && one.sequences == sums.counts.sequences);
    if (rows > 0)
        ck_assert(fabs(ratio_sums_mean(&one) - 5) < 1e-12);
    free_sums(&sums);
    return rows;
}

START_TEST(slices_leave_the_window_for_the_baseline)
{
    const uint64_t start = 1000 * SECOND;
    struct live_store *store = new_store((unsigned)_i + 1, start);
    uint64_t since;
    add(store, 1, start);                /* slice 0 */
    add(store, 2, start + 29 * SECOND);  /* 0 */
    add(store, 4, start + 31 * SECOND);  /* 1 */
    add(store, 8, start + 299 * SECOND); /* 9 */
    ck_assert(rows_of(store, window, start + 299 * SECOND, &since) == 15 && since == start);
    ck_assert(rows_of(store, baseline, start + 299 * SECOND, NULL) == 0);
    ck_assert(rows_of(store, (struct live_part){LIVE_WINDOW, 1}, start + 299 * SECOND, &since) == 8);
    ck_assert(since == start + 270 * SECOND);
    ck_assert(rows_of(store, (struct live_part){LIVE_WINDOW, 9}, start + 299 * SECOND, NULL) == 12);
    /* Slice 10 begins: slice 0 is before the window. */
    ck_assert(rows_of(store, window, start + 301 * SECOND, &since) == 12 && since == start + 30 * SECOND);
    ck_assert(rows_of(store, baseline, start + 301 * SECOND, &since) == 3 && since == start);
    ck_assert(rows_of(store, all, start + 301 * SECOND, &since) == 15 && since == start);
    add(store, 16, start + 301 * SECOND);
    ck_assert(rows_of(store, window, start + 340 * SECOND, NULL) == 24); /* slice 11: without 0 and 1 */
    ck_assert(rows_of(store, baseline, start + 340 * SECOND, NULL) == 7);
    ck_assert(rows_of(store, window, start + 600 * SECOND, NULL) == 0);
    ck_assert(rows_of(store, baseline, start + 600 * SECOND, NULL) == 31);
    /* A silence of years. */
    add(store, 32, start + 600 * SECOND);
    ck_assert(rows_of(store, window, start + 100000000 * SECOND, &since) == 0);
    ck_assert(since > start + 99999600 * SECOND && since < start + 99999800 * SECOND);
    ck_assert(rows_of(store, baseline, start + 100000000 * SECOND, NULL) == 63);
    add(store, 64, start + 100000001 * SECOND);
    ck_assert(rows_of(store, window, start + 100000001 * SECOND, NULL) == 64);
    ck_assert(rows_of(store, all, start + 100000001 * SECOND, NULL) == 127);
    live_store_release(store);
}
END_TEST

START_TEST(stamps_change_with_what_is_read)
{
    const uint64_t start = SECOND;
    struct live_store *store = new_store(2, start);
    const struct live_stamp first = live_store_stamp(store, start), same = live_store_stamp(store, start + SECOND);
    ck_assert(first.added == same.added && first.slice == same.slice && first.resets == same.resets);
    add(store, 1, start + 2 * SECOND);
    const struct live_stamp added = live_store_stamp(store, start + 3 * SECOND);
    ck_assert(added.added != first.added);
    live_store_skip(store, 2, start + 4 * SECOND);
    ck_assert(live_store_stamp(store, start + 4 * SECOND).added != added.added);
    ck_assert(live_store_stamp(store, start + 31 * SECOND).slice != added.slice);
    live_store_reset(store, start + 32 * SECOND);
    ck_assert(live_store_stamp(store, start + 32 * SECOND).resets != added.resets);
    live_store_release(store);
}
END_TEST

START_TEST(a_reset_empties_all_of_it)
{
    const uint64_t start = SECOND;
    struct live_store *store = new_store(2, start);
    uint64_t since;
    for (unsigned i = 0; i < 20; i++)
        add(store, 1, start + i * 30 * SECOND);
    const uint64_t now = start + 600 * SECOND;
    ck_assert(rows_of(store, all, now, NULL) == 20);
    live_store_reset(store, now);
    ck_assert(rows_of(store, all, now, &since) == 0 && since == now);
    ck_assert(rows_of(store, window, now, &since) == 0 && since == now);
    ck_assert(rows_of(store, baseline, now, NULL) == 0);
    add(store, 3, now + SECOND);
    ck_assert(rows_of(store, all, now + SECOND, NULL) == 3);
    live_store_release(store);
}
END_TEST

/* What was not summed up counts in the slice in which it came, and by itself changes nothing else. */
START_TEST(skipped_sequences_count_where_they_came)
{
    const uint64_t start = SECOND;
    struct live_store *store = new_store((unsigned)_i + 1, start);
    live_store_skip(store, 3, start);
    add(store, 1, start + 100 * SECOND);
    live_store_skip(store, 4, start + 100 * SECOND);
    static const struct {
        const struct live_part *part;
        uint64_t second;
        double skipped, rows;
    } cases[] = {{&all, 101, 7, 1},      {&window, 101, 7, 1}, {&baseline, 101, 0, 0}, {&window, 301, 4, 1},
                 {&baseline, 301, 3, 0}, {&window, 501, 0, 0}, {&baseline, 501, 7, 1}, {&all, 501, 7, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct live_sums sums = new_sums();
        struct live_stamp stamp;
        uint64_t since;
        live_store_read(store, cases[i].part, start + cases[i].second * SECOND, &sums, &stamp, &since);
        ck_assert(sums.counts.skipped == cases[i].skipped && sums.counts.rows == cases[i].rows);
        free_sums(&sums);
    }
    live_store_release(store);
}
END_TEST

/* Every part of the window ends now, and the window and the baseline are all there is. */
START_TEST(parts_of_random_traffic_add_up)
{
    struct random random = {(uint64_t)_i + 1};
    struct live_store *store = new_store(3, 0);
    double by_slice[200] = {0}, all_rows = 0;
    uint64_t now = 0;
    for (size_t i = 0; i < 300; i++) {
        now += random_size(&random, 0, 40) * (SECOND / 2);
        const double rows = (double)random_size(&random, 1, 9);
        add(store, rows, now);
        by_slice[now / (30 * SECOND)] += rows;
        all_rows += rows;
        if (i % 7)
            continue;
        const uint64_t slice = now / (30 * SECOND);
        double within = 0;
        for (unsigned slices = 1; slices <= LIVE_SLICES; slices++) {
            uint64_t since;
            within += slices <= slice + 1 ? by_slice[slice + 1 - slices] : 0;
            ck_assert(rows_of(store, (struct live_part){LIVE_WINDOW, slices}, now, &since) == within);
            ck_assert(since == (slices <= slice + 1 ? (slice + 1 - slices) * 30 * SECOND : 0));
        }
        ck_assert(rows_of(store, baseline, now, NULL) == all_rows - within);
        ck_assert(rows_of(store, all, now, NULL) == all_rows);
    }
    live_store_release(store);
}
END_TEST

/* A store is there for whoever holds it, though others have let it go. */
START_TEST(the_last_holder_frees_it)
{
    struct live_store *store = new_store(2, 0), *mine = live_store_hold(store);
    ck_assert_ptr_eq(mine, store);
    ck_assert(live_store_shape(store).num_heads == HEADS && live_store_shape(store).num_layers == 1);
    live_store_release(store);
    add(mine, 2, SECOND);
    ck_assert(rows_of(mine, all, SECOND, NULL) == 2);
    live_store_release(mine);
    ck_assert_ptr_null(live_store_hold(NULL));
    live_store_release(NULL);
}
END_TEST

START_TEST(samples_are_spread_evenly)
{
    struct live_store *store = new_store(1, 0);
    size_t taken = 0;
    for (size_t i = 0; i < 1000; i++)
        taken += live_store_sample(store, 0.25);
    ck_assert_uint_eq(taken, 250);
    ck_assert(live_store_sample(store, 1));
    ck_assert(!live_store_sample(store, 0));
    live_store_release(store);
}
END_TEST

struct race {
    struct live_store *store;
    atomic_bool stop;
    atomic_uint_least64_t now;
};

enum { ADDERS = 4, TIMES = 3000 };

static void *add_many(void *argument)
{
    struct race *race = argument;
    struct live_sums sums = traffic(1);
    for (size_t i = 0; i < TIMES; i++)
        live_store_add(race->store, &sums, atomic_fetch_add(&race->now, SECOND / 10));
    free_sums(&sums);
    return NULL;
}

static void *read_many(void *argument)
{
    struct race *race = argument;
    double last = 0;
    while (!atomic_load(&race->stop)) {
        const double rows = rows_of(race->store, all, atomic_load(&race->now), NULL);
        ck_assert(rows >= last && rows <= ADDERS * TIMES);
        last = rows;
    }
    return NULL;
}

/* More threads than shards; nothing is lost between shards, ring and baseline. */
START_TEST(nothing_is_lost_while_others_read)
{
    struct race race = {.store = new_store(2, 0)};
    pthread_t adders[ADDERS], reader;
    atomic_init(&race.now, 1);
    ck_assert(pthread_create(&reader, NULL, read_many, &race) == 0);
    for (size_t i = 0; i < ADDERS; i++)
        ck_assert(pthread_create(&adders[i], NULL, add_many, &race) == 0);
    for (size_t i = 0; i < ADDERS; i++)
        pthread_join(adders[i], NULL);
    atomic_store(&race.stop, true);
    pthread_join(reader, NULL);
    const uint64_t now = atomic_load(&race.now);
    ck_assert(now > 30 * 10 * SECOND);
    ck_assert(rows_of(race.store, all, now, NULL) == ADDERS * TIMES);
    ck_assert(rows_of(race.store, window, now, NULL) + rows_of(race.store, baseline, now, NULL) == ADDERS * TIMES);
    live_store_release(race.store);
}
END_TEST

/* The formula of docs/OPERATIONS.md. */
START_TEST(memory_is_shards_and_eleven)
{
    static const size_t head_counts[] = {1, 2, 12, 144, 1024, 65536};
    static const unsigned shard_counts[] = {1, 2, 7, 64};
    size_t bytes;
    for (size_t i = 0; i < sizeof head_counts / sizeof *head_counts; i++)
        for (size_t j = 0; j < sizeof shard_counts / sizeof *shard_counts; j++) {
            const size_t heads = head_counts[i], accumulators = shard_counts[j] + 11;
            const struct live_store_options options = {
                .shape = {.num_layers = 1, .num_heads = heads}, .shards = shard_counts[j], .slice_s = 30};
            const size_t one = 352 * ((heads + 7) / 8 * 8) + 4 * heads * (heads + 1);
            ck_assert(live_store_bytes(&options, &bytes));
            ck_assert_uint_ge(bytes, accumulators * one);
            ck_assert_uint_lt(bytes, accumulators * (one + 1024));
            ck_assert_uint_le(bytes, accumulators * (8192 + 1024 * heads + 4 * heads * heads));
        }
    const struct live_store_options huge = {
        .shape = {.num_layers = 1, .num_heads = SIZE_MAX / 4}, .shards = 4, .slice_s = 30};
    ck_assert(!live_store_bytes(&huge, &bytes));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("runtime/live_store");
    TCase *t = tcase_create("live_store");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, slices_leave_the_window_for_the_baseline, 0, 3);
    tcase_add_test(t, stamps_change_with_what_is_read);
    tcase_add_test(t, a_reset_empties_all_of_it);
    tcase_add_loop_test(t, skipped_sequences_count_where_they_came, 0, 3);
    tcase_add_loop_test(t, parts_of_random_traffic_add_up, 0, 5);
    tcase_add_test(t, the_last_holder_frees_it);
    tcase_add_test(t, samples_are_spread_evenly);
    tcase_add_test(t, nothing_is_lost_while_others_read);
    tcase_add_test(t, memory_is_shards_and_eleven);
    suite_add_tcase(s, t);
    return s;
}
