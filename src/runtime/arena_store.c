/* Arenas between requests: see arena_store.h. Any thread; one mutex guards the lists and is never held while memory is
 * taken from the system or given back.
 *
 * Every request takes some arenas, and after a burst thousands are spare: so there is a list for each class of sizes,
 * eight to an octave, and a new arena has the size of its class. Then the first one of a list is as good as any. */
#include "runtime/arena_store.h"

#include "base/clock.h"
#include "base/size.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

/* Lies at the start of the arena that it describes. */
struct spare {
    struct arena arena; /* empty */
    uint64_t since;     /* clock_coarse_ns() when it was put */
    struct spare *next;
};
_Static_assert(sizeof(struct spare) <= ARENA_ALIGNMENT, "the smallest arena holds it");
_Static_assert(ARENA_ALIGNMENT == 64, "the first class");

/* A spare arena of up to this size goes to any smaller request; a larger one to those that want at least about half of
 * it. A small request pays for its own size and may last: a slow upload must not hold the memory of a large answer. */
#define FREELY_BYTES ((size_t)64 << 10)

/* More than that is not touched at once: it takes a while, in which nobody asks whether the job is still wanted, and
 * the lanes that will use it can do so together. */
#define TOUCHED_BYTES ((size_t)64 << 20)

/* Sizes from 2^6 to the end of size_t. */
#define FIRST_OCTAVE 6
#define SIZE_BITS    ((unsigned)(8 * sizeof(size_t)))
#define CLASSES      ((SIZE_BITS - FIRST_OCTAVE) * 8)
#define WORDS        ((CLASSES + 63) / 64)

struct arena_store {
    pthread_mutex_t mutex;
    struct spare *lists[CLASSES]; /* those that are at least as large as the class, the newest first */
    uint64_t filled[WORDS];       /* a bit for each list that is not empty */
    size_t bytes, most;           /* of all spare ones, and what they may be */
};

/* The last class that is not larger than `bytes` (at least 2^FIRST_OCTAVE). */
static unsigned class_of(size_t bytes)
{
    unsigned octave = SIZE_BITS - 1 - (unsigned)__builtin_clzl(bytes);
    return (octave - FIRST_OCTAVE) * 8 + ((unsigned)(bytes >> (octave - 3)) & 7);
}

static size_t class_bytes(unsigned class)
{
    return (size_t)(8 + class % 8) << (class / 8 + FIRST_OCTAVE - 3);
}

struct arena_store *arena_store_create(size_t most, struct error *error)
{
    struct arena_store *store = calloc(1, sizeof *store);
    if (!store) {
        error_out_of_memory(error);
        return NULL;
    }
    pthread_mutex_init(&store->mutex, NULL);
    store->most = most;
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
    for (unsigned class = 0; class < CLASSES; class ++)
        free_list(store->lists[class]);
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

/* Takes the spare one at `at` out of the list of its class. */
static struct spare *unlink_spare(struct arena_store *store, unsigned class, struct spare **at)
{
    struct spare *spare = *at;
    *at = spare->next;
    store->bytes -= spare->arena.capacity;
    if (!store->lists[class])
        store->filled[class / 64] &= ~(UINT64_C(1) << class % 64);
    return spare;
}

/* The first class from `class` on that is not empty, else the last one before; CLASSES when nothing is spare. */
static unsigned best_class(const struct arena_store *store, unsigned class)
{
    unsigned word = class / 64;
    uint64_t bits = store->filled[word] & ~UINT64_C(0) << class % 64;
    while (!bits && ++word < WORDS)
        bits = store->filled[word];
    if (bits)
        return word * 64 + (unsigned)__builtin_ctzll(bits);
    for (word = class / 64 + 1; word-- > 0;)
        if (store->filled[word])
            return word * 64 + 63 - (unsigned)__builtin_clzll(store->filled[word]);
    return CLASSES;
}

/* The last class whose arenas may be taken for `wanted`. */
static unsigned largest_class(unsigned wanted)
{
    unsigned freely = class_of(FREELY_BYTES), twice = wanted + 8;
    return twice > freely ? twice : freely;
}

static bool take(struct arena_store *store, size_t bytes, bool touched, struct arena *arena)
{
    struct arena taken = {0};
    if (bytes > SIZE_MAX / 2)
        return false;
    if (bytes > 0) {
        unsigned wanted = class_of(size_max(bytes, ARENA_ALIGNMENT));
        wanted += class_bytes(wanted) < bytes;
        pthread_mutex_lock(&store->mutex);
        unsigned class = best_class(store, wanted);
        if (class <= largest_class(wanted) && class < CLASSES)
            taken = unlink_spare(store, class, &store->lists[class])->arena;
        pthread_mutex_unlock(&store->mutex);
        const size_t reserved = class_bytes(wanted);
        if (!(touched ? arena_reserve_touched(&taken, reserved, size_min(bytes, TOUCHED_BYTES))
                      : arena_reserve(&taken, reserved))) {
            arena_store_put(store, &taken);
            return false;
        }
    }
    *arena = taken;
    return true;
}

bool arena_store_take(struct arena_store *store, size_t bytes, struct arena *arena)
{
    return take(store, bytes, false, arena);
}

bool arena_store_take_touched(struct arena_store *store, size_t bytes, struct arena *arena)
{
    return take(store, bytes, true, arena);
}

void arena_store_put(struct arena_store *store, struct arena *arena)
{
    if (arena->capacity) {
        arena_reset(arena);
        unsigned class = class_of(arena->capacity);
        struct spare *spare = (struct spare *)arena->base;
        *spare = (struct spare){.arena = *arena, .since = clock_coarse_ns()};
        pthread_mutex_lock(&store->mutex);
        spare->next = store->lists[class];
        store->lists[class] = spare;
        store->filled[class / 64] |= UINT64_C(1) << class % 64;
        store->bytes += spare->arena.capacity;
        struct spare *over = NULL;
        while (store->bytes > store->most) {
            class = best_class(store, CLASSES - 1);
            spare = unlink_spare(store, class, &store->lists[class]);
            spare->next = over;
            over = spare;
        }
        pthread_mutex_unlock(&store->mutex);
        free_list(over);
    }
    *arena = (struct arena){0};
}

/* Moves what is due at `now` from the list to *expired; *due becomes the time when the next one is, if that is sooner.
 */
static void expire_class(struct arena_store *store, unsigned class, uint64_t now, struct spare **expired, uint64_t *due)
{
    struct spare **at = &store->lists[class];
    while (*at && ((*at)->arena.capacity > ARENA_STORE_LARGE_BYTES || store->bytes > ARENA_STORE_KEPT_BYTES)) {
        uint64_t end = (*at)->since + ARENA_STORE_NS;
        if (end > now) {
            *due = end < *due ? end : *due;
            at = &(*at)->next;
        } else {
            struct spare *spare = unlink_spare(store, class, at);
            spare->next = *expired;
            *expired = spare;
        }
    }
}

uint64_t arena_store_expire(struct arena_store *store, uint64_t now)
{
    struct spare *expired = NULL;
    uint64_t due = CLOCK_NEVER;
    pthread_mutex_lock(&store->mutex);
    for (unsigned class = CLASSES; class -- > 0;) /* the largest first */
        expire_class(store, class, now, &expired, &due);
    pthread_mutex_unlock(&store->mutex);
    if (expired) {
        free_list(expired);
#ifdef __GLIBC__
        malloc_trim(0); /* by itself it keeps what is freed below what is in use */
#endif
    }
    return due;
}
