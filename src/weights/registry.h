/* The weight sets in memory, in the configuration's order. Built before threads start, then read by any thread. A set
 * can be replaced by one that was loaded again: those who use the old one go on with it, and it is freed when the last
 * of them has left. */
#ifndef ATTND_WEIGHTS_REGISTRY_H
#define ATTND_WEIGHTS_REGISTRY_H

#include "config/config.h"
#include "weights/weight_set.h"

#include <pthread.h>
#include <stdatomic.h>

struct retired_set;

struct weights_registry {
    struct weight_set *_Atomic *sets; /* [count], owned */
    size_t count;
    const struct weight_set *_Atomic fallback; /* the default set, or NULL */
    /* Users by the turn in which they came: turns alternate, so that one of them empties while others come. */
    _Atomic size_t users[2];
    _Atomic unsigned turn;
    pthread_mutex_t lock; /* of the rest */
    struct retired_set *_Atomic retired;
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

/* Between these, whoever has found a set may use it. Returns what registry_leave is to be given. */
unsigned registry_enter(struct weights_registry *registry);
void registry_leave(struct weights_registry *registry, unsigned turn);

/* Puts `set`, which is the registry's then, into the place of sets[index], which is freed when nobody uses it any more.
 * ERROR_OUT_OF_MEMORY: nothing has changed. */
bool registry_replace(struct weights_registry *registry, size_t index, struct weight_set *set, struct error *error);

void registry_free(struct weights_registry *registry);

#endif
