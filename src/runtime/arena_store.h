/* Arenas that no request is using, kept for the next one. Any thread.
 *
 * A take makes a new arena only when none is spare: so there are never more arenas than were in use at once. What is
 * spare is not charged to any budget: so it is bounded, the largest ones going first, and goes back to the system
 * (arena_store_expire) when it has been spare for ARENA_STORE_NS and is large, or one of so many that the spare ones
 * together are over ARENA_STORE_KEPT_BYTES: a burst of small requests does not hold its memory for ever. In a steady
 * state nothing is allocated: the list lies in the arenas' own memory. */
#ifndef ATTND_RUNTIME_ARENA_STORE_H
#define ATTND_RUNTIME_ARENA_STORE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_STORE_LARGE_BYTES ((size_t)8 << 20)
#define ARENA_STORE_KEPT_BYTES  ((size_t)64 << 20)
#define ARENA_STORE_NS          (60 * UINT64_C(1000000000))

struct arena_store;

/* Spare ones together are at most `most` bytes. Must outlive every arena that was taken. arena_store_free(NULL) is
 * fine. */
struct arena_store *arena_store_create(size_t most, struct error *error);
void arena_store_free(struct arena_store *store);

/* An empty arena of at least `bytes`: the smallest spare one that is large enough (but not one that is more than 64 KiB
 * and about twice what is asked), else, where all spare ones are smaller, the largest of them regrown, else a new one,
 * up to an eighth larger than asked; among spare ones that differ by less than an eighth the one used last. False when
 * there is no memory to be had; *arena is then untouched. `bytes` 0: no memory at all. */
bool arena_store_take(struct arena_store *store, size_t bytes, struct arena *arena);
/* The same for what will be written whole: of memory that is new the first 64 MiB are touched at once, which in small
 * pages costs half of what faults one by one do. */
bool arena_store_take_touched(struct arena_store *store, size_t bytes, struct arena *arena);

/* Resets the arena and takes it over; *arena is zero afterwards. It may have been regrown, and may be without memory.
 */
void arena_store_put(struct arena_store *store, struct arena *arena);

/* Frees what is due to go at `now` (clock_ns()), and says when to call again; CLOCK_NEVER when nothing will be due. */
uint64_t arena_store_expire(struct arena_store *store, uint64_t now);

#endif
