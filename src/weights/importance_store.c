/* A pointer under a lock, to states that are counted: a state is freed by whoever lets go of it last. */
#include "weights/importance_store.h"

#include "base/size.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct importance_store {
    pthread_mutex_t lock; /* of the next two */
    struct head_importance *now;
    bool posted;
    struct attention_rules rules;
};

struct importance_store *importance_store_create(const struct attention_rules *rules)
{
    struct importance_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->lock, NULL);
    if (rules)
        store->rules = *rules;
    return store;
}

void importance_store_free(struct importance_store *store)
{
    if (!store)
        return;
    head_importance_release(store->now);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static struct head_importance *create_state(const struct attention_rules *rules, const double *values, size_t count)
{
    size_t bytes;
    if (!size_multiply(count, sizeof *values, &bytes) || !size_add(bytes, sizeof(struct head_importance), &bytes))
        return NULL;
    struct head_importance *made = malloc(bytes);
    if (!made)
        return NULL;
    atomic_init(&made->holders, 1);
    made->rules = *rules;
    made->rules.keep_heads.importance = made->values;
    made->count = count;
    memcpy(made->values, values, count * sizeof *values);
    return made;
}

bool importance_store_put(struct importance_store *store, const double *values, size_t count, bool posted)
{
    struct head_importance *next = create_state(&store->rules, values, count), *before;
    if (!next)
        return false;
    pthread_mutex_lock(&store->lock);
    before = store->now;
    store->now = next;
    store->posted = posted;
    pthread_mutex_unlock(&store->lock);
    head_importance_release(before);
    return true;
}

struct head_importance *importance_store_hold(struct importance_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct head_importance *now = store->now;
    if (now)
        atomic_fetch_add(&now->holders, 1);
    pthread_mutex_unlock(&store->lock);
    return now;
}

void head_importance_release(struct head_importance *importance)
{
    if (importance && atomic_fetch_sub(&importance->holders, 1) == 1)
        free(importance);
}

bool importance_store_is_posted(struct importance_store *store)
{
    pthread_mutex_lock(&store->lock);
    const bool posted = store->posted;
    pthread_mutex_unlock(&store->lock);
    return posted;
}
