/* Made by the starting thread; stores are found by any. */
#include "server/live_sets.h"

#include "base/clock.h"
#include "base/size.h"
#include "telemetry/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct live_sets {
    const struct server_parts *parts;
    struct live_store **stores; /* [registry->count] */
    struct budget_share share;
    char instance[33];
    uint64_t epoch_ms, epoch_at; /* the same moment by both clocks */
};

static void no_store(const struct weight_set *set, const char *reason, const char *remedy)
{
    log_event(LOG_WARNING, "live", LOG_STRING("weights", set->name), LOG_STRING("message", reason),
              LOG_STRING("remedy", remedy));
}

static struct live_store *create_store(struct live_sets *sets, const struct weight_set *set)
{
    const struct server_parts *parts = sets->parts;
    const struct live_store_options options = {.num_layers = set->num_layers,
                                               .num_heads = set->shape.num_heads,
                                               .shards = pool_state(parts->pool).workers,
                                               .slice_s = parts->config->live.window_s / LIVE_SLICES,
                                               .now = sets->epoch_at};
    struct error error;
    size_t bytes;
    if (set->shape.num_heads > (size_t)parts->config->live.max_heads) {
        no_store(set, "no live statistics: it has more heads than live.max_heads", "raise live.max_heads");
        return NULL;
    }
    if (!live_store_bytes(&options, &bytes))
        bytes = SIZE_MAX;
    if (!budget_take(parts->budget, &sets->share, bytes, &error)) {
        no_store(set, "no live statistics: they do not fit into limits.memory_budget_bytes",
                 "raise limits.memory_budget_bytes, or lower live.max_heads");
        return NULL;
    }
    struct live_store *store = live_store_create(&options, &error);
    if (!store) {
        budget_give(parts->budget, &sets->share, bytes);
        no_store(set, "no live statistics: memory ran out", "give the server more memory, or lower live.max_heads");
    }
    return store;
}

struct live_sets *live_sets_create(const struct server_parts *parts)
{
    struct live_sets *sets = calloc(1, sizeof *sets);
    struct live_store **stores = calloc(parts->registry->count + 1, sizeof *stores);
    unsigned char seed[16];
    struct timespec now;
    if (!sets || !stores) {
        free(sets);
        free(stores);
        return NULL;
    }
    *sets = (struct live_sets){.parts = parts, .stores = stores, .epoch_at = clock_ns()};
    clock_gettime(CLOCK_REALTIME, &now);
    sets->epoch_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        memcpy(seed, &sets->epoch_at, sizeof sets->epoch_at); /* never, for so few bytes */
    for (size_t i = 0; i < sizeof seed; i++)
        snprintf(sets->instance + 2 * i, 3, "%02x", seed[i]);
    for (size_t i = 0; i < parts->registry->count; i++)
        if (parts->registry->sets[i]->ready && parts->config->live.sample_rate > 0)
            stores[i] = create_store(sets, parts->registry->sets[i]);
    return sets;
}

void live_sets_free(struct live_sets *sets)
{
    if (!sets)
        return;
    for (size_t i = 0; i < sets->parts->registry->count; i++)
        live_store_release(sets->stores[i]);
    budget_give_all(sets->parts->budget, &sets->share);
    free(sets->stores);
    free(sets);
}

struct live_store *live_sets_find(struct live_sets *sets, const struct weight_set *set)
{
    const struct weights_registry *registry = sets->parts->registry;
    for (size_t i = 0; i < registry->count; i++)
        if (registry->sets[i] == set)
            return live_store_hold(sets->stores[i]);
    return NULL;
}

const char *live_sets_instance(const struct live_sets *sets)
{
    return sets->instance;
}

uint64_t live_sets_epoch_ms(const struct live_sets *sets, uint64_t when)
{
    return when >= sets->epoch_at ? sets->epoch_ms + (when - sets->epoch_at) / CLOCK_MILLISECOND : sets->epoch_ms;
}
