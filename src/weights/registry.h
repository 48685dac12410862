/* The weight sets in memory, in the configuration's order. Built before threads start, then only read, by any thread.
 */
#ifndef ATTND_WEIGHTS_REGISTRY_H
#define ATTND_WEIGHTS_REGISTRY_H

#include "config/config.h"
#include "weights/weight_set.h"

struct weights_registry {
    struct weight_set **sets; /* [count], owned */
    size_t count;
    const struct weight_set *fallback; /* the default set, or NULL */
};

/* Loads every set. Faults go to *faults with the entry's line and pointer (/weights/2/tensors/W_K); a set with required
 * false that fails becomes a failed set instead, and its fault a warning. True when no required set failed. *registry
 * is valid for registry_free either way. */
bool registry_load(const struct config *config, struct weights_registry *registry, struct faults *faults,
                   struct faults *warnings);

/* Whether one token of each set that is loaded can be computed at all: its working memory on `lanes` lanes is at most
 * `budget_bytes` (limits.memory_budget_bytes). Where not, a fault, or for a set with required false a warning; false
 * for a fault. */
bool registry_check_memory(const struct weights_registry *registry, const struct config *config, unsigned lanes,
                           size_t budget_bytes, struct faults *faults, struct faults *warnings);

/* The set of that name (NULL: the default). NULL with ERROR_UNKNOWN_WEIGHTS (pointer /weights, naming the known sets),
 * ERROR_INVALID when no name and no default, or ERROR_NOT_READY for one that failed to load. */
const struct weight_set *registry_find(const struct weights_registry *registry, const char *name, struct error *error);

void registry_free(struct weights_registry *registry);

#endif
