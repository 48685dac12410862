/* Arenas between requests: see arena_store.h. Any thread; one mutex guards the list and is never held while memory is
 * taken from the system or given back. */
#include "runtime/arena_store.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>

/* Lies at the start of the arena that it describes. */
struct spare {
    struct arena arena; /* empty */
    uint64_t since;     /* clock_ns() when it was put */
    struct spare *next;
};
_Static_assert(sizeof(struct spare) <= ARENA_ALIGNMENT, "the smallest arena holds it");

struct arena_store {
    pthread_mutex_t mutex;
    struct spare *newest; /* in the order in which they became spare */
    size_t bytes;         /* of all spare ones */
};

struct arena_store *arena_store_create(struct error *error)
{
    struct arena_store *store = calloc(1, sizeof *store);
    if (!store) {
        error_out_of_memory(error);
        return NULL;
    }
    pthread_mutex_init(&store->mutex, NULL);
    return store;
}

static void free_list(struct spare *spare)
{
    while (spare) {
        struct arena arena = spare->arena;
        spare = spare->next;
        arena_free(&arena);
    }
}

void arena_store_free(struct arena_store *store)
{
    if (!store)
        return;
    free_list(store->newest);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

/* The smallest one of at least `bytes`, or the largest one. Of equal ones the newest: its pages are the likeliest to be
 * in the caches, and the oldest may go. */
static struct spare **best_fit(struct arena_store *store, size_t bytes)
{
    struct spare **best = &store->newest;
    for (struct spare **at = best; *at; at = &(*at)->next) {
        size_t have = (*best)->arena.capacity, here = (*at)->arena.capacity;
        if (have < bytes ? here > have : here >= bytes && here < have)
            best = at;
    }
    return best;
}

static void push(struct arena_store *store, struct arena arena)
{
    struct spare *spare = (struct spare *)arena.base;
    *spare = (struct spare){.arena = arena};
    pthread_mutex_lock(&store->mutex);
    spare->since = clock_ns(); /* under the lock: the list is in the order of `since` */
    spare->next = store->newest;
    store->newest = spare;
    store->bytes += arena.capacity;
    pthread_mutex_unlock(&store->mutex);
}

bool arena_store_take(struct arena_store *store, size_t bytes, struct arena *arena)
{
    struct arena taken = {0};
    if (bytes > 0) {
        pthread_mutex_lock(&store->mutex);
        struct spare **best = best_fit(store, bytes);
        if (*best) {
            taken = (*best)->arena;
            store->bytes -= taken.capacity;
            *best = (*best)->next;
        }
        pthread_mutex_unlock(&store->mutex);
        if (!arena_reserve(&taken, bytes)) {
            arena_store_put(store, &taken);
            return false;
        }
    }
    *arena = taken;
    return true;
}

void arena_store_put(struct arena_store *store, struct arena *arena)
{
    arena_reset(arena);
    if (arena->capacity)
        push(store, *arena);
    *arena = (struct arena){0};
}

/* Takes the oldest one that is to go one day, and is due at `now`, out of the list; else NULL, and *due when. */
static struct spare *take_due(struct arena_store *store, uint64_t now, uint64_t *due)
{
    struct spare **oldest = NULL;
    *due = CLOCK_NEVER;
    for (struct spare **at = &store->newest; *at; at = &(*at)->next)
        if ((*at)->arena.capacity > ARENA_STORE_LARGE_BYTES || store->bytes > ARENA_STORE_KEPT_BYTES)
            oldest = at;
    if (!oldest)
        return NULL;
    struct spare *spare = *oldest;
    *due = spare->since + ARENA_STORE_NS;
    if (now < *due)
        return NULL;
    store->bytes -= spare->arena.capacity;
    *oldest = spare->next;
    return spare;
}

uint64_t arena_store_expire(struct arena_store *store, uint64_t now)
{
    struct spare *expired = NULL, *spare;
    uint64_t due;
    pthread_mutex_lock(&store->mutex);
    while ((spare = take_due(store, now, &due))) {
        spare->next = expired;
        expired = spare;
    }
    pthread_mutex_unlock(&store->mutex);
    free_list(expired);
    return due;
}
