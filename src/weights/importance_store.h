/* The stored importance of a set's heads, which may be replaced while requests are computed by it. Any thread. */
#ifndef ATTND_WEIGHTS_IMPORTANCE_STORE_H
#define ATTND_WEIGHTS_IMPORTANCE_STORE_H

#include "engine/rules.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* One state of it, constant: what a request began with holds until it ends. */
struct head_importance {
    _Atomic unsigned holders;
    struct attention_rules rules; /* what the set does by default, going by these numbers */
    size_t count;
    double values[]; /* [count]: [num_layers, num_heads] */
};

struct importance_store;

/* Empty. `rules`: the set's; NULL: none. NULL when memory ran out. */
struct importance_store *importance_store_create(const struct attention_rules *rules);
void importance_store_free(struct importance_store *store);

/* What requests that begin from now on go by: a copy of values [count]. `posted`: it is not the configuration's. False
 * when memory ran out. */
bool importance_store_put(struct importance_store *store, const double *values, size_t count, bool posted);

/* The state now, held until head_importance_release; NULL: nothing is stored. */
struct head_importance *importance_store_hold(struct importance_store *store);
/* NULL is fine. */
void head_importance_release(struct head_importance *importance);

/* Whether what is stored differs from the configuration's. */
bool importance_store_is_posted(struct importance_store *store);

#endif
