/* Made by the starting thread; stores are found by any. */
#include "server/live_sets.h"

#include "base/clock.h"
#include "base/size.h"
#include "telemetry/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Of one set of the registry. */
struct live_entry {
    struct live_store *store;
    size_t charged;
    char digest[WEIGHT_SET_DIGEST_BYTES]; /* of the weights that its traffic had */
};

struct live_sets {
    const struct server_parts *parts;
    pthread_mutex_t lock;       /* of the entries and the share */
    struct live_entry *entries; /* [registry->count] */
    struct budget_share share;
    char instance[33];
    uint64_t epoch_ms, epoch_at; /* the same moment by both clocks */
};

static void no_store(const struct weight_set *set, const char *reason, const char *remedy)
{
    log_event(LOG_WARNING, "live", LOG_STRING("weights", set->name), LOG_STRING("message", reason),
              LOG_STRING("remedy", remedy));
}

/* An empty store for the set, or none. */
static struct live_entry make_entry(struct live_sets *sets, const struct weight_set *set)
{
    const struct server_parts *parts = sets->parts;
    const struct live_store_options options = {.num_layers = set->num_layers,
                                               .num_heads = set->shape.num_heads,
                                               .shards = pool_state(parts->pool).workers,
                                               .slice_s = parts->config->live.window_s / LIVE_SLICES,
                                               .now = clock_ns()};
    struct live_entry entry = {0};
    struct error error;
    strcpy(entry.digest, set->digest);
    if (!set->ready || parts->config->live.sample_rate <= 0)
        return entry;
    if (set->shape.num_heads > (size_t)parts->config->live.max_heads) {
        no_store(set, "no live statistics: it has more heads than live.max_heads", "raise live.max_heads");
        return entry;
    }
    if (!live_store_bytes(&options, &entry.charged))
        entry.charged = SIZE_MAX;
    if (!budget_take(parts->budget, &sets->share, entry.charged, &error)) {
        no_store(set, "no live statistics: they do not fit into limits.memory_budget_bytes",
                 "raise limits.memory_budget_bytes, or lower live.max_heads");
        entry.charged = 0;
        return entry;
    }
    entry.store = live_store_create(&options, &error);
    if (!entry.store) {
        budget_give(parts->budget, &sets->share, entry.charged);
        no_store(set, "no live statistics: memory ran out", "give the server more memory, or lower live.max_heads");
        entry.charged = 0;
    }
    return entry;
}

struct live_sets *live_sets_create(const struct server_parts *parts)
{
    struct live_sets *sets = calloc(1, sizeof *sets);
    struct live_entry *entries = calloc(parts->registry->count + 1, sizeof *entries);
    unsigned char seed[16];
    struct timespec now;
    if (!sets || !entries) {
        free(sets);
        free(entries);
        return NULL;
    }
    *sets = (struct live_sets){.parts = parts, .entries = entries, .epoch_at = clock_ns()};
    pthread_mutex_init(&sets->lock, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    sets->epoch_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        memcpy(seed, &sets->epoch_at, sizeof sets->epoch_at); /* never, for so few bytes */
    for (size_t i = 0; i < sizeof seed; i++)
        snprintf(sets->instance + 2 * i, 3, "%02x", seed[i]);
    for (size_t i = 0; i < parts->registry->count; i++)
        entries[i] = make_entry(sets, parts->registry->sets[i]);
    return sets;
}

void live_sets_free(struct live_sets *sets)
{
    if (!sets)
        return;
    for (size_t i = 0; i < sets->parts->registry->count; i++)
        live_store_release(sets->entries[i].store);
    budget_give_all(sets->parts->budget, &sets->share);
    pthread_mutex_destroy(&sets->lock);
    free(sets->entries);
    free(sets);
}

struct live_store *live_sets_find(struct live_sets *sets, const struct weight_set *set)
{
    const struct weights_registry *registry = sets->parts->registry;
    struct live_store *store = NULL;
    pthread_mutex_lock(&sets->lock);
    for (size_t i = 0; i < registry->count && !store; i++)
        if (registry->sets[i] == set && strcmp(sets->entries[i].digest, set->digest) == 0)
            store = live_store_hold(sets->entries[i].store);
    pthread_mutex_unlock(&sets->lock);
    return store;
}

void live_sets_reload(struct live_sets *sets, size_t index, const struct weight_set *set)
{
    struct live_entry *entry = &sets->entries[index];
    pthread_mutex_lock(&sets->lock);
    if (strcmp(entry->digest, set->digest) != 0) {
        live_store_release(entry->store);
        budget_give(sets->parts->budget, &sets->share, entry->charged);
        *entry = make_entry(sets, set);
    }
    pthread_mutex_unlock(&sets->lock);
}

const char *live_sets_instance(const struct live_sets *sets)
{
    return sets->instance;
}

uint64_t live_sets_epoch_ms(const struct live_sets *sets, uint64_t when)
{
    return when >= sets->epoch_at ? sets->epoch_ms + (when - sets->epoch_at) / CLOCK_MILLISECOND : sets->epoch_ms;
}
