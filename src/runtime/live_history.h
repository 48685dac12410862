/* Totals of the live statistics of one weight set since the process started, whatever was emptied in between: stores
 * give it what they are about to forget, at a reset and at their end. Read, it never falls. Any thread. */
#ifndef ATTND_RUNTIME_LIVE_HISTORY_H
#define ATTND_RUNTIME_LIVE_HISTORY_H

#include "analysis/live_totals.h"

#include <stdint.h>

struct live_history;
struct live_store;

/* Of so many layers and heads, with one holder. NULL when memory ran out. */
struct live_history *live_history_create(size_t num_layers, size_t num_heads);
/* At least so many layers and heads from now on. False when memory ran out. */
bool live_history_grow(struct live_history *history, size_t num_layers, size_t num_heads);

/* One more holder, and one less; the last one frees it. NULL is fine. */
struct live_history *live_history_hold(struct live_history *history);
void live_history_release(struct live_history *history);

/* A store forgets these. */
void live_history_add(struct live_history *history, const struct live_sums *sums);

/* What there was, with what `store`, one of this history's, has now: into zero *totals of the store's shape. *sums, of
 * that shape and empty, is what the store has. */
void live_history_read(struct live_history *history, struct live_store *store, uint64_t now, struct live_sums *sums,
                       struct live_totals *totals);

#endif
