/* The live sums of all weight sets: one store each, in the registry's order, made when the server starts. */
#ifndef ATTND_SERVER_LIVE_SETS_H
#define ATTND_SERVER_LIVE_SETS_H

#include "runtime/live_store.h"
#include "server/server.h"

struct live_sets;

/* Charges the stores to the budget for as long as the server runs. A set for which there is no room, or with more heads
 * than live.max_heads, gets none, which is logged. NULL when memory ran out. */
struct live_sets *live_sets_create(const struct server_parts *parts);
void live_sets_free(struct live_sets *sets);

/* The store of a set of the registry, held for the caller (live_store_release); NULL: it has none. */
struct live_store *live_sets_find(struct live_sets *sets, const struct weight_set *set);

/* The set of that place in the registry is to be replaced by this one: other weights begin with nothing. */
void live_sets_reload(struct live_sets *sets, size_t index, const struct weight_set *set);

/* "1b3c..": of this run of this server. */
const char *live_sets_instance(const struct live_sets *sets);

/* Milliseconds since the epoch of a time of clock_ns(), the same whenever it is asked. */
uint64_t live_sets_epoch_ms(const struct live_sets *sets, uint64_t when);

#endif
