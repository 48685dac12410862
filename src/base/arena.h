/* Bump allocation for the working memory of one job: taken piece by piece, given back whole. One thread at a time. */
#ifndef ATTND_BASE_ARENA_H
#define ATTND_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* What arena_take aligns to: the widest vector, and a cache line. */
#define ARENA_ALIGNMENT 64

struct arena {
    char *base;            /* NULL while capacity is 0 */
    size_t capacity, used; /* multiples of ARENA_ALIGNMENT */
};

/* Makes room for at least `bytes` in all. The arena must be empty (used == 0). Memory that is already there is kept;
 * false when there is none to be had (the arena is then as it was). */
bool arena_reserve(struct arena *arena, size_t bytes);

/* The same, and of what is new the first `touched` bytes are touched at once, by this thread. In pages of 4 KiB that takes 1.1 us a page where a
 * first touch takes 2; in pages of 2 MiB it saves nothing. So it is for memory that will be used whole, and not for a
 * generous upper bound. */
bool arena_reserve_touched(struct arena *arena, size_t bytes, size_t touched);

/* `bytes` of uninitialised memory, aligned to ARENA_ALIGNMENT, or NULL when the reservation does not hold it. */
void *arena_take(struct arena *arena, size_t bytes);

/* Bytes that the next piece may have. */
static inline size_t arena_left(const struct arena *arena)
{
    return arena->capacity - arena->used;
}

/* For what is as long as its making shows: all that is left as one piece, NULL when nothing is; *bytes: how much. Until
 * arena_shorten gives back what it does not need, there is nothing else to take. */
void *arena_take_rest(struct arena *arena, size_t *bytes);

/* The piece that was taken last keeps its first `bytes`. */
void arena_shorten(struct arena *arena, const void *piece, size_t bytes);

/* Gives back all pieces that were taken since arena->used was `used`. */
void arena_rewind(struct arena *arena, size_t used);

/* Gives all pieces back; the memory stays for the next job. */
void arena_reset(struct arena *arena);

/* Returns the memory to the system. */
void arena_free(struct arena *arena);

/* `bytes` rounded up as arena_take rounds them: add these up for arena_reserve. False when that overflows. */
bool arena_need(size_t *total, size_t bytes);

#endif
