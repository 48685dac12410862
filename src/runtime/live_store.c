/* Shards, ring and baseline: see live_store.h. Any thread.
 *
 * Two kinds of lock. `reading` is held by readers and by whoever retires a slice, and never waited for by those who
 * add. A place's own lock is held while it is added to or merged from, by a reader never more than one; those who add
 * only try it, and go to the next place. Of the ring, the current slice alone is such a place: the others are
 * `reading`'s. */
#include "runtime/live_store.h"

#include "base/clock.h"
#include "base/size.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Where sums are added. */
struct place {
    _Alignas(64) pthread_mutex_t lock;
    struct live_sums sums;
    uint64_t added; /* times */
};

struct live_store {
    struct live_store_options options;
    uint64_t slice_ns, origin; /* clock_ns() at which slice 0 began */
    atomic_uint holders;
    _Atomic uint64_t sampled;
    _Atomic uint64_t slice_ends; /* clock_ns() */
    pthread_mutex_t reading;
    /* Under `reading`. */
    uint64_t slice, since, resets;
    struct live_sums baseline;
    struct live_sums ring[LIVE_SLICES]; /* slice n at n % LIVE_SLICES; the current one is in places[0] */
    /* [shards + 1]: what is added to the ring directly, then the shards. */
    struct place *places;
    unsigned n_places;
    char *memory;
};

static bool sums_bytes(const struct live_store_options *options, size_t *bytes)
{
    size_t need = 0;
    if (!live_sums_bytes(options->shape, bytes) || !size_add(*bytes, 63, &need))
        return false;
    *bytes = need / 64 * 64;
    return true;
}

bool live_store_bytes(const struct live_store_options *options, size_t *bytes)
{
    size_t one, all, places;
    if (!sums_bytes(options, &one) || !size_multiply(one, (size_t)options->shards + LIVE_SLICES + 1, &all) ||
        !size_multiply((size_t)options->shards + 1, sizeof(struct place), &places) || !size_add(all, places, &all))
        return false;
    return size_add(all, sizeof(struct live_store), bytes);
}

struct live_store *live_store_create(const struct live_store_options *options, struct error *error)
{
    const unsigned n_places = options->shards + 1;
    size_t one, bytes;
    struct live_store *store = calloc(1, sizeof *store);
    struct place *places = NULL;
    char *memory = NULL;
    if (!store || !sums_bytes(options, &one) ||
        !size_multiply(one, (size_t)options->shards + LIVE_SLICES + 1, &bytes) ||
        posix_memalign((void **)&places, 64, n_places * sizeof *places) != 0)
        goto fail;
    if (posix_memalign((void **)&memory, 64, bytes) != 0) {
        memory = NULL;
        goto fail;
    }
    store->options = *options;
    live_history_hold(options->history);
    store->slice_ns = (uint64_t)(options->slice_s * 1e9);
    store->slice_ns = store->slice_ns ? store->slice_ns : 1;
    store->origin = store->since = options->now;
    store->places = places;
    store->n_places = n_places;
    store->memory = memory;
    atomic_init(&store->holders, 1);
    atomic_init(&store->sampled, 0);
    atomic_init(&store->slice_ends, options->now + store->slice_ns);
    pthread_mutex_init(&store->reading, NULL);
    live_sums_init(&store->baseline, options->shape, memory);
    for (size_t i = 0; i < LIVE_SLICES; i++)
        live_sums_init(&store->ring[i], options->shape, memory += one);
    for (size_t i = 0; i < n_places; i++) {
        struct place *place = &places[i];
        place->added = 0;
        pthread_mutex_init(&place->lock, NULL);
        if (i == 0)
            place->sums = store->ring[0];
        else
            live_sums_init(&place->sums, options->shape, memory += one);
    }
    return store;
fail:
    error_out_of_memory(error);
    free(places);
    free(store);
    return NULL;
}

/* What is about to be forgotten stays in the totals. */
static void keep(const struct live_store *store, const struct live_sums *sums)
{
    if (store->options.history && !live_sums_are_empty(sums))
        live_history_add(store->options.history, sums);
}

static void empty(const struct live_store *store, struct live_sums *sums)
{
    keep(store, sums);
    live_sums_clear(sums);
}

struct live_store *live_store_hold(struct live_store *store)
{
    if (store)
        atomic_fetch_add(&store->holders, 1);
    return store;
}

void live_store_release(struct live_store *store)
{
    if (!store || atomic_fetch_sub(&store->holders, 1) > 1)
        return;
    keep(store, &store->baseline);
    for (size_t i = 0; i < LIVE_SLICES; i++)
        if (i != store->slice % LIVE_SLICES) /* that one is a place */
            keep(store, &store->ring[i]);
    for (size_t i = 0; i < store->n_places; i++) {
        keep(store, &store->places[i].sums);
        pthread_mutex_destroy(&store->places[i].lock);
    }
    live_history_release(store->options.history);
    pthread_mutex_destroy(&store->reading);
    free(store->places);
    free(store->memory);
    free(store);
}

struct live_history *live_store_history(const struct live_store *store)
{
    return store->options.history;
}

struct live_shape live_store_shape(const struct live_store *store)
{
    return store->options.shape;
}

/* ---- time; with `reading` held */

/* The next slice begins: its place in the ring is that of the one that leaves the window. */
static void begin_slice(struct live_store *store, uint64_t slice)
{
    struct live_sums *now = &store->ring[slice % LIVE_SLICES], *before = &store->ring[store->slice % LIVE_SLICES];
    struct place *direct = &store->places[0];
    if (!live_sums_are_empty(now)) {
        live_sums_merge(&store->baseline, now);
        live_sums_clear(now);
    }
    pthread_mutex_lock(&direct->lock);
    before->counts = direct->sums.counts; /* the arrays are the ring's own */
    direct->sums = *now;
    pthread_mutex_unlock(&direct->lock);
    for (size_t i = 1; i < store->n_places; i++) {
        struct place *shard = &store->places[i];
        pthread_mutex_lock(&shard->lock);
        if (!live_sums_are_empty(&shard->sums)) {
            live_sums_merge(before, &shard->sums);
            live_sums_clear(&shard->sums);
        }
        pthread_mutex_unlock(&shard->lock);
    }
    store->slice = slice;
}

static void advance(struct live_store *store, uint64_t now)
{
    if (now < atomic_load(&store->slice_ends))
        return;
    uint64_t slice = (now - store->origin) / store->slice_ns;
    /* After a long silence ten slices are enough to empty the window: those before are as if they had never been. */
    if (slice - store->slice > LIVE_SLICES) {
        store->origin += (slice - store->slice - LIVE_SLICES) * store->slice_ns;
        slice = store->slice + LIVE_SLICES;
    }
    while (store->slice < slice)
        begin_slice(store, store->slice + 1);
    atomic_store(&store->slice_ends, store->origin + (slice + 1) * store->slice_ns);
}

/* By whoever adds, where nobody else is at it. */
static void advance_if_free(struct live_store *store, uint64_t now)
{
    if (now < atomic_load_explicit(&store->slice_ends, memory_order_relaxed) ||
        pthread_mutex_trylock(&store->reading) != 0)
        return;
    advance(store, now);
    pthread_mutex_unlock(&store->reading);
}

/* ---- those who add */

/* A place that nobody is at. Threads begin at different ones. */
static struct place *take_place(struct live_store *store)
{
    const size_t shards = store->n_places - 1;
    size_t at = (size_t)((uintptr_t)pthread_self() >> 12) % shards;
    for (size_t tried = 0;; tried++) {
        struct place *place = &store->places[tried % store->n_places == shards ? 0 : 1 + at];
        if (pthread_mutex_trylock(&place->lock) == 0)
            return place;
        at = (at + 1) % shards;
    }
}

void live_store_add(struct live_store *store, const struct live_sums *sums, uint64_t now)
{
    advance_if_free(store, now);
    struct place *place = take_place(store);
    live_sums_merge(&place->sums, sums);
    place->added++;
    pthread_mutex_unlock(&place->lock);
}

void live_store_skip(struct live_store *store, size_t n_sequences, uint64_t now)
{
    advance_if_free(store, now);
    struct place *place = take_place(store);
    place->sums.counts.skipped += (double)n_sequences;
    place->added++;
    pthread_mutex_unlock(&place->lock);
}

bool live_store_sample(struct live_store *store, double rate)
{
    if (rate >= 1)
        return true;
    const double n = (double)atomic_fetch_add_explicit(&store->sampled, 1, memory_order_relaxed);
    return (uint64_t)((n + 1) * rate) > (uint64_t)(n * rate);
}

/* ---- readers */

static void merge_places(struct live_store *store, struct live_sums *sums, uint64_t *added)
{
    for (size_t i = 0; i < store->n_places; i++) {
        struct place *place = &store->places[i];
        pthread_mutex_lock(&place->lock);
        *added += place->added;
        if (sums && !live_sums_are_empty(&place->sums))
            live_sums_merge(sums, &place->sums);
        pthread_mutex_unlock(&place->lock);
    }
}

static struct live_stamp stamp_of(const struct live_store *store, uint64_t added)
{
    return (struct live_stamp){added, store->slice, store->resets};
}

void live_store_read(struct live_store *store, const struct live_part *part, uint64_t now, struct live_sums *sums,
                     struct live_stamp *stamp, uint64_t *since)
{
    uint64_t added = 0;
    pthread_mutex_lock(&store->reading);
    advance(store, now);
    const uint64_t slices = part->kind == LIVE_WINDOW ? part->slices : LIVE_SLICES;
    const uint64_t oldest = store->slice + 1 > slices ? store->slice + 1 - slices : 0;
    merge_places(store, part->kind == LIVE_BASELINE ? NULL : sums, &added);
    for (uint64_t i = oldest; i < store->slice && part->kind != LIVE_BASELINE; i++)
        if (!live_sums_are_empty(&store->ring[i % LIVE_SLICES]))
            live_sums_merge(sums, &store->ring[i % LIVE_SLICES]);
    if (part->kind != LIVE_WINDOW)
        live_sums_merge(sums, &store->baseline);
    *stamp = stamp_of(store, added);
    *since = store->since;
    if (part->kind == LIVE_WINDOW && store->origin + oldest * store->slice_ns > store->since)
        *since = store->origin + oldest * store->slice_ns;
    pthread_mutex_unlock(&store->reading);
}

struct live_stamp live_store_stamp(struct live_store *store, uint64_t now)
{
    uint64_t added = 0;
    pthread_mutex_lock(&store->reading);
    advance(store, now);
    merge_places(store, NULL, &added);
    const struct live_stamp stamp = stamp_of(store, added);
    pthread_mutex_unlock(&store->reading);
    return stamp;
}

void live_store_reset(struct live_store *store, uint64_t now)
{
    pthread_mutex_lock(&store->reading);
    advance(store, now);
    for (size_t i = 0; i < store->n_places; i++) {
        pthread_mutex_lock(&store->places[i].lock);
        empty(store, &store->places[i].sums);
        pthread_mutex_unlock(&store->places[i].lock);
    }
    for (size_t i = 0; i < LIVE_SLICES; i++)
        if (i != store->slice % LIVE_SLICES)
            empty(store, &store->ring[i]);
    empty(store, &store->baseline);
    store->since = now;
    store->resets++;
    pthread_mutex_unlock(&store->reading);
}
