/* Stores are made by the starting thread and by the one that reloads; they are found by any. */
#include "server/live_sets.h"

#include "analysis/live_observer.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/size.h"
#include "telemetry/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Of one weight set. */
struct live_entry {
    char *name;
    char digest[WEIGHT_SET_DIGEST_BYTES]; /* of the weights that its traffic had */
    struct live_store *store;             /* NULL: it has none */
    double window_s;
    size_t charged;
};

/* Of all sets of one name. */
struct live_past {
    char *name;
    struct live_history *history;
    struct live_past *next;
};

struct live_sets {
    const struct server_parts *parts;
    pthread_mutex_t lock; /* of the entries */
    struct live_entry *entries;
    size_t count;
    struct budget_share share; /* of whoever updates */
    struct live_past *pasts;   /* the same */
    char instance[33];
    uint64_t epoch_ms, epoch_at; /* the same moment by both clocks */
};

struct live_shape live_sets_shape(const struct weight_set *set)
{
    const struct rules_defaults *defaults = &set->rules.defaults;
    const struct forward_input own = {.rules = defaults->rules, .causal = defaults->causal};
    struct live_shape shape = live_observer_shape(weight_set_model(set), set->shape.num_heads, &own);
    shape.num_layers = set->num_layers; /* of none, where it could not be loaded */
    return shape;
}

static void no_store(const struct weight_set *set, const char *reason, const char *remedy)
{
    log_event(LOG_WARNING, "live", LOG_STRING("weights", set->name), LOG_STRING("message", reason),
              LOG_STRING("remedy", remedy));
}

/* Where the totals of the set's name are kept, whatever its weights are; NULL when memory ran out. */
static struct live_history *history_of(struct live_sets *sets, const struct weight_set *set)
{
    struct live_past *past = sets->pasts;
    while (past && strcmp(past->name, set->name) != 0)
        past = past->next;
    if (past)
        return live_history_grow(past->history, set->num_layers, set->shape.num_heads) ? past->history : NULL;
    past = calloc(1, sizeof *past);
    if (past && (past->name = strdup(set->name)) &&
        (past->history = live_history_create(set->num_layers, set->shape.num_heads))) {
        past->next = sets->pasts;
        sets->pasts = past;
        return past->history;
    }
    if (past)
        free(past->name);
    free(past);
    return NULL;
}

static void free_pasts(struct live_past *past)
{
    while (past) {
        struct live_past *next = past->next;
        live_history_release(past->history);
        free(past->name);
        free(past);
        past = next;
    }
}

/* An empty store for the set, if it may have one. False when memory ran out. */
static bool make_store(struct live_sets *sets, const struct config *config, const struct weight_set *set,
                       struct live_entry *entry)
{
    const struct server_parts *parts = sets->parts;
    struct live_store_options options = {.shape = live_sets_shape(set),
                                         .shards = pool_state(parts->pool).workers,
                                         .slice_s = config->live.window_s / LIVE_SLICES,
                                         .now = clock_ns()};
    struct error error;
    size_t bytes;
    if (set->shape.num_heads > (size_t)config->live.max_heads) {
        no_store(set, "no live statistics: it has more heads than live.max_heads", "raise live.max_heads");
        return true;
    }
    if (!live_store_bytes(&options, &bytes))
        bytes = SIZE_MAX;
    if (!budget_take(parts->budget, &sets->share, bytes, &error)) {
        no_store(set, "no live statistics: they do not fit into limits.memory_budget_bytes",
                 "raise limits.memory_budget_bytes, or lower live.max_heads");
        return true;
    }
    options.history = history_of(sets, set);
    entry->store = options.history ? live_store_create(&options, &error) : NULL;
    if (!entry->store) {
        budget_give(parts->budget, &sets->share, bytes);
        return false;
    }
    entry->charged = bytes;
    return true;
}

static struct live_entry *find_entry(const struct live_sets *sets, const char *name, const char *digest)
{
    for (size_t i = 0; i < sets->count; i++)
        if (strcmp(sets->entries[i].digest, digest) == 0 && strcmp(sets->entries[i].name, name) == 0)
            return &sets->entries[i];
    return NULL;
}

/* What the set has already, held once more, or what it begins with. */
static bool fill_entry(struct live_sets *sets, const struct config *config, const struct weight_set *set,
                       struct live_entry *entry)
{
    const bool wanted = set->ready && config->live.sample_rate > 0;
    const struct live_entry *before = find_entry(sets, set->name, set->digest);
    *entry = (struct live_entry){.name = strdup(set->name), .window_s = config->live.window_s};
    if (!entry->name)
        return false;
    strcpy(entry->digest, set->digest);
    if (wanted && before && before->store && before->window_s == entry->window_s &&
        set->shape.num_heads <= (size_t)config->live.max_heads) {
        entry->store = live_store_hold(before->store);
        entry->charged = before->charged;
    } else if (wanted && !make_store(sets, config, set, entry)) {
        free(entry->name);
        return false;
    }
    return true;
}

/* Stores that `kept` has too go on, with what they are charged. */
static void free_entries(struct live_sets *sets, struct live_entry *entries, size_t count,
                         const struct live_entry *kept, size_t n_kept)
{
    for (size_t i = 0; i < count; i++) {
        bool goes_on = false;
        for (size_t k = 0; k < n_kept && entries[i].store; k++)
            goes_on |= kept[k].store == entries[i].store;
        if (entries[i].store && !goes_on)
            budget_give(sets->parts->budget, &sets->share, entries[i].charged);
        live_store_release(entries[i].store);
        free(entries[i].name);
    }
    free(entries);
}

bool live_sets_update(struct live_sets *sets, const struct config *config, const struct weights_registry *registry)
{
    struct live_entry *entries = calloc(registry->count + 1, sizeof *entries), *before = sets->entries;
    const size_t count_before = sets->count;
    if (!entries)
        return false;
    for (size_t i = 0; i < registry->count; i++)
        if (!fill_entry(sets, config, registry->sets[i], &entries[i])) {
            free_entries(sets, entries, i, before, count_before);
            return false;
        }
    pthread_mutex_lock(&sets->lock);
    sets->entries = entries;
    sets->count = registry->count;
    pthread_mutex_unlock(&sets->lock);
    free_entries(sets, before, count_before, entries, registry->count);
    return true;
}

struct live_sets *live_sets_create(const struct server_parts *parts)
{
    struct live_sets *sets = calloc(1, sizeof *sets);
    uint64_t seed[2] = {0};
    if (!sets)
        return NULL;
    *sets = (struct live_sets){.parts = parts, .epoch_at = clock_ns()};
    pthread_mutex_init(&sets->lock, NULL);
    sets->epoch_ms = clock_wall_ns() / CLOCK_MILLISECOND;
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed[0] = sets->epoch_at; /* never, for so few bytes */
    hex_write(sets->instance, seed[0]);
    hex_write(sets->instance + 16, seed[1]);
    return sets;
}

void live_sets_free(struct live_sets *sets)
{
    if (!sets)
        return;
    free_entries(sets, sets->entries, sets->count, NULL, 0);
    free_pasts(sets->pasts);
    pthread_mutex_destroy(&sets->lock);
    free(sets);
}

struct live_store *live_sets_find(struct live_sets *sets, const struct weight_set *set, bool *replaced)
{
    pthread_mutex_lock(&sets->lock);
    const struct live_entry *entry = find_entry(sets, set->name, set->digest);
    struct live_store *store = entry ? live_store_hold(entry->store) : NULL;
    if (replaced)
        *replaced = !entry;
    pthread_mutex_unlock(&sets->lock);
    return store;
}

const char *live_sets_instance(const struct live_sets *sets)
{
    return sets->instance;
}

uint64_t live_sets_epoch_ms(const struct live_sets *sets, uint64_t when)
{
    return when >= sets->epoch_at ? sets->epoch_ms + (when - sets->epoch_at) / CLOCK_MILLISECOND : sets->epoch_ms;
}
