/* The live sums of the weight sets: one store for each set in memory. */
#ifndef ATTND_SERVER_LIVE_SETS_H
#define ATTND_SERVER_LIVE_SETS_H

#include "runtime/live_store.h"
#include "server/server.h"

struct live_sets;

/* Without stores. NULL when memory ran out. */
struct live_sets *live_sets_create(const struct server_parts *parts);
void live_sets_free(struct live_sets *sets);

/* Stores for the sets of `registry` as `config` wants them, charged to the budget for as long as they are there. Sets
 * that had a store keep it while their weights (by their digest) and live.window_s are the same; other weights begin
 * with nothing. A set for which there is no room, or with more heads than live.max_heads, gets none, which is logged.
 * False when memory ran out: nothing has changed. One thread at a time. */
bool live_sets_update(struct live_sets *sets, const struct config *config, const struct weights_registry *registry);

/* Of the set's live sums. */
struct live_shape live_sets_shape(const struct weight_set *set);

/* The store of a set, held for the caller (live_store_release); NULL: it has none, or (*replaced, which may be NULL)
 * the set of that name has other weights by now. */
struct live_store *live_sets_find(struct live_sets *sets, const struct weight_set *set, bool *replaced);

/* "1b3c..": of this run of this server. */
const char *live_sets_instance(const struct live_sets *sets);

/* Milliseconds since the epoch of a time of clock_ns(), the same whenever it is asked. */
uint64_t live_sets_epoch_ms(const struct live_sets *sets, uint64_t when);

#endif
