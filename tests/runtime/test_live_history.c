/* Totals through resets, ends of stores and other shapes, and while threads add, reset and read. */
#include "runtime/live_history.h"

#include "runtime/live_store.h"
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

/* One sequence of `rows` rows: head h, statistic i has the value (i + 1) * (h + 1) in each. */
static struct live_sums traffic(size_t heads, double rows)
{
    struct live_sums sums;
    size_t bytes;
    ck_assert(live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = heads}, &bytes));
    live_sums_init(&sums, (struct live_shape){.num_layers = 1, .num_heads = heads}, malloc(bytes));
    double *y = calloc(LIVE_STATISTIC_COUNT * sums.columns, sizeof *y), even[LIVE_BASELINE_COUNT], sets[ROW_SET_COUNT];
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++)
            y[i * sums.columns + h] = rows * (double)((i + 1) * (h + 1));
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        even[i] = rows / 2;
    for (size_t i = 0; i < ROW_SET_COUNT; i++)
        sets[i] = rows;
    live_sums_add_sequence(&sums, 0, y, even, sets);
    free(y);
    sums.counts = (struct live_counts){.sequences = 1, .rows = rows, .excluded = 2, .skipped = 1};
    return sums;
}

static struct live_store *new_store(struct live_history *history, size_t heads, uint64_t now)
{
    const struct live_store_options options = {
        .shape = {.num_layers = 1, .num_heads = heads}, .shards = 2, .slice_s = 1, .now = now, .history = history};
    struct error error;
    struct live_store *store = live_store_create(&options, &error);
    ck_assert_ptr_nonnull(store);
    return store;
}

static void add(struct live_store *store, double rows, uint64_t now)
{
    struct live_sums sums = traffic(live_store_shape(store).num_heads, rows);
    live_store_add(store, &sums, now);
    free(sums.values);
}

static struct live_totals read_totals(struct live_history *history, struct live_store *store, uint64_t now)
{
    const size_t heads = live_store_shape(store).num_heads;
    struct live_sums sums;
    struct live_totals totals;
    size_t bytes;
    ck_assert(live_sums_bytes((struct live_shape){.num_layers = 1, .num_heads = heads}, &bytes));
    live_sums_init(&sums, (struct live_shape){.num_layers = 1, .num_heads = heads}, malloc(bytes));
    ck_assert(live_totals_bytes(1, heads, &bytes));
    live_totals_init(&totals, 1, heads, malloc(bytes));
    live_history_read(history, store, now, &sums, &totals);
    free(sums.values);
    return totals;
}

/* What so many rows of so many sequences add up to, all of it. */
static void expect(struct live_history *history, struct live_store *store, uint64_t now, double rows, double sequences)
{
    struct live_totals totals = read_totals(history, store, now);
    ck_assert_msg(totals.counts[LIVE_TOTAL_SEQUENCES] == sequences, "%g sequences, not %g",
                  totals.counts[LIVE_TOTAL_SEQUENCES], sequences);
    ck_assert(totals.counts[LIVE_TOTAL_EXCLUDED] == 2 * sequences && totals.counts[LIVE_TOTAL_SKIPPED] == sequences);
    for (size_t set = 0; set < ROW_SET_COUNT; set++)
        ck_assert(totals.rows[set] == rows);
    for (size_t i = 0; i < LIVE_BASELINE_COUNT; i++)
        ck_assert(totals.even[i] == rows / 2);
    for (size_t h = 0; h < totals.num_heads; h++)
        for (size_t i = 0; i < LIVE_STATISTIC_COUNT; i++) {
            const bool falls = live_statistics[i] == STATISTIC_SIGNED_DISTANCE;
            ck_assert(totals.heads[h * LIVE_STATISTIC_COUNT + i] == (falls ? 0 : rows * (double)((i + 1) * (h + 1))));
        }
    free(totals.values);
}

START_TEST(nothing_is_forgotten)
{
    struct live_history *history = live_history_create(1, 3);
    uint64_t now = 1000 * SECOND;
    struct live_store *store = new_store(history, 3, now);
    double rows = 0, sequences = 0;
    for (int i = 0; i < 40; i++) { /* through slices, the ring and the baseline */
        add(store, i + 1, now);
        rows += i + 1;
        expect(history, store, now, rows, ++sequences);
        now += SECOND / 2;
        if (i % 13 == 12) {
            live_store_reset(store, now);
            expect(history, store, now, rows, sequences);
        }
    }
    struct live_store *other = new_store(history, 3, now); /* other weights; the old ones are still in use */
    expect(history, other, now, rows, sequences);          /* what was shown stays */
    add(store, 5, now);
    live_store_release(store);
    expect(history, other, now, rows + 5, sequences + 1);
    add(other, 7, now);
    expect(history, other, now, rows + 12, sequences + 2);
    live_store_release(other);
    live_history_release(history);
}
END_TEST

/* Weights of another number of heads: those that both have go on. */
START_TEST(other_shapes)
{
    struct live_history *history = live_history_create(1, 2);
    const uint64_t now = SECOND;
    struct live_store *store = new_store(history, 2, now);
    add(store, 4, now);
    expect(history, store, now, 4, 1);
    ck_assert(live_history_grow(history, 1, 5) && live_history_grow(history, 1, 1));
    live_store_release(store);
    store = new_store(history, 5, now);
    add(store, 3, now);
    struct live_totals totals = read_totals(history, store, now);
    for (size_t h = 0; h < 5; h++)
        ck_assert(totals.heads[h * LIVE_STATISTIC_COUNT] == (h < 2 ? 7 : 3) * (double)(h + 1));
    ck_assert(totals.rows[ROWS_SCORED] == 7);
    free(totals.values);
    live_store_release(store);
    live_history_release(history);
}
END_TEST

struct run {
    struct live_history *history;
    struct live_store *store;
    atomic_bool over;
};

enum { ADDS = 3000, ADDERS = 2 };

static void *adder(void *argument)
{
    struct run *run = argument;
    for (int i = 0; i < ADDS; i++)
        add(run->store, 2, SECOND + (uint64_t)i * SECOND / 100);
    return NULL;
}

static void *resetter(void *argument)
{
    struct run *run = argument;
    while (!atomic_load(&run->over))
        live_store_reset(run->store, SECOND);
    return NULL;
}

static void *reader(void *argument)
{
    struct run *run = argument;
    struct live_totals last = read_totals(run->history, run->store, SECOND);
    while (!atomic_load(&run->over)) {
        struct live_totals now = read_totals(run->history, run->store, SECOND);
        for (size_t i = 0; i < LIVE_TOTAL_COUNTS + ROW_SET_COUNT + LIVE_BASELINE_COUNT + 3 * LIVE_STATISTIC_COUNT; i++)
            ck_assert_msg(now.values[i] >= last.values[i], "%zu fell from %.17g to %.17g", i, last.values[i],
                          now.values[i]);
        ck_assert(now.rows[ROWS_SCORED] == 2 * now.counts[LIVE_TOTAL_SEQUENCES]);
        free(last.values);
        last = now;
    }
    free(last.values);
    return NULL;
}

START_TEST(all_at_once)
{
    struct run run = {.history = live_history_create(1, 3)};
    pthread_t adders[ADDERS], others[3];
    run.store = new_store(run.history, 3, SECOND);
    for (size_t i = 0; i < ADDERS; i++)
        pthread_create(&adders[i], NULL, adder, &run);
    pthread_create(&others[0], NULL, resetter, &run);
    pthread_create(&others[1], NULL, reader, &run);
    pthread_create(&others[2], NULL, reader, &run);
    for (size_t i = 0; i < ADDERS; i++)
        pthread_join(adders[i], NULL);
    atomic_store(&run.over, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    expect(run.history, run.store, SECOND, 2.0 * ADDS * ADDERS, (double)ADDS * ADDERS);
    live_store_release(run.store);
    live_history_release(run.history);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("runtime/live_history");
    TCase *c = tcase_create("totals");
    tcase_add_test(c, nothing_is_forgotten);
    tcase_add_test(c, other_shapes);
    tcase_add_test(c, all_at_once);
    suite_add_tcase(s, c);
    return s;
}
