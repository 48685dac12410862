/* The live sums of one weight set: since the start, and within a sliding window of ten slices of time.
 *
 * Whoever has computed traffic adds its sums to a shard, one of as many as there are workers; shards hold the current
 * slice only. A slice that is over goes into a ring, and what leaves the ring into the baseline: all that came before
 * the window. Readers merge what they want when they want it, and hold one place at a time, so that whoever adds always
 * finds another: a forward never waits for a reader. */
#ifndef ATTND_RUNTIME_LIVE_STORE_H
#define ATTND_RUNTIME_LIVE_STORE_H

#include "analysis/live_sums.h"
#include "base/error.h"
#include "runtime/live_history.h"

#include <stdint.h>

#define LIVE_SLICES 10

struct live_store;

struct live_store_options {
    struct live_shape shape;
    unsigned shards; /* at least 1 */
    double slice_s;
    uint64_t now;                 /* clock_ns() */
    struct live_history *history; /* where what is emptied goes; held by the store; NULL: nowhere */
};

/* All the memory it will ever hold: shards + 11 sums, and 1 KiB. False on overflow. */
bool live_store_bytes(const struct live_store_options *options, size_t *bytes);
/* With one holder. NULL when memory ran out. */
struct live_store *live_store_create(const struct live_store_options *options, struct error *error);
/* One more holder, and one less; the last one frees it. live_store_release(NULL) is fine. */
struct live_store *live_store_hold(struct live_store *store);
void live_store_release(struct live_store *store);

/* Of its options. */
struct live_history *live_store_history(const struct live_store *store);
struct live_shape live_store_shape(const struct live_store *store);

/* Adds sums of the store's shape. */
void live_store_add(struct live_store *store, const struct live_sums *sums, uint64_t now);
/* Adds sequences that were not summed up. */
void live_store_skip(struct live_store *store, size_t n_sequences, uint64_t now);
/* Whether the next request is one of the share that is to be counted: `rate` of all of them, evenly. */
bool live_store_sample(struct live_store *store, double rate);

/* Which part of it. */
struct live_part {
    enum { LIVE_ALL, LIVE_WINDOW, LIVE_BASELINE } kind;
    unsigned slices; /* of the window: the current one and those before it, 1 to LIVE_SLICES */
};

/* What a reading is of. Two of one store and part with the same stamp have the same sums. */
struct live_stamp {
    uint64_t added, slice, resets;
};

/* Merges the part into empty *sums of the store's shape. *since: clock_ns() from which on it counts. */
void live_store_read(struct live_store *store, const struct live_part *part, uint64_t now, struct live_sums *sums,
                     struct live_stamp *stamp, uint64_t *since);
/* The stamp that a reading would have now. */
struct live_stamp live_store_stamp(struct live_store *store, uint64_t now);

/* Empties it. */
void live_store_reset(struct live_store *store, uint64_t now);

#endif
