/* The weight sets in memory, in the configuration's order. Built once, then read by any thread. A reload builds another
 * registry, which shares with this one the sets that stay. */
#ifndef ATTND_WEIGHTS_REGISTRY_H
#define ATTND_WEIGHTS_REGISTRY_H

#include "config/config.h"
#include "weights/weight_set.h"

struct weights_registry {
    struct weight_set **sets; /* [count], each held */
    size_t count;
    const struct weight_set *fallback; /* the default set, or NULL */
};

/* Loads every set. Faults go to *faults with the entry's line and pointer (/weights/2/tensors/W_K); a set with required
 * false that fails becomes a failed set instead, and its fault a warning. True when no required set failed. *registry
 * is valid for registry_free either way. */
bool registry_load(const struct config *config, struct weights_registry *registry, struct faults *faults,
                   struct faults *warnings);

/* How sets are loaded while others are in memory. */
struct registry_reload {
    const char *only; /* the set of this name is loaded again, the others stay; NULL: all of them */
    /* Memory for a set, before it is loaded; and back what it needs no more: all of it for a set that replaces none. */
    bool (*take)(void *context, size_t bytes, struct error *error);
    void (*give)(void *context, size_t bytes);
    /* Told of each set that was loaded, or could not be. */
    void (*tried)(void *context, const char *name, bool succeeded);
    void *context;
    struct error error; /* of the last set that failed, as answers may show it: without the file's path */
};

/* As registry_load, beside the sets of `running`: those that come out the same (digest and source) are shared with it,
 * but for `only`. A set that is ready in `running` is not given up for one that fails: that is a fault, whether it is
 * required or not. */
bool registry_reload(const struct config *config, const struct weights_registry *running,
                     struct registry_reload *options, struct weights_registry *registry, struct faults *faults,
                     struct faults *warnings);

/* Whether one token of each set that is loaded can be computed at all: its working memory on `lanes` lanes is at most
 * `budget_bytes` (limits.memory_budget_bytes). Where not, a fault, or for a set with required false a warning; false
 * for a fault. */
bool registry_check_memory(const struct weights_registry *registry, const struct config *config, unsigned lanes,
                           size_t budget_bytes, struct faults *faults, struct faults *warnings);

/* The set of that name (NULL: the default). NULL with ERROR_UNKNOWN_WEIGHTS (pointer /weights, naming the known sets),
 * ERROR_INVALID when no name and no default, or ERROR_NOT_READY for one that failed to load. */
const struct weight_set *registry_find(const struct weights_registry *registry, const char *name, struct error *error);

/* The set of that name, ready or not; NULL: there is none. */
struct weight_set *registry_named(const struct weights_registry *registry, const char *name);

/* Another registry of the same sets. False when memory ran out. */
bool registry_copy(const struct weights_registry *registry, struct weights_registry *copy);

void registry_free(struct weights_registry *registry);

#endif
