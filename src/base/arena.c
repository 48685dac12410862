#include "base/arena.h"

#include "base/size.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL_PAGE ((size_t)4 << 10)
#define HUGE_PAGE  ((size_t)2 << 20)

static bool round_up(size_t bytes, size_t to, size_t *rounded)
{
    size_t padded;
    if (!size_add(bytes, to - 1, &padded))
        return false;
    *rounded = padded & ~(to - 1);
    return true;
}

bool arena_need(size_t *total, size_t bytes)
{
    size_t rounded;
    return round_up(bytes, ARENA_ALIGNMENT, &rounded) && size_add(*total, rounded, total);
}

bool arena_reserve(struct arena *arena, size_t bytes)
{
    if (bytes <= arena->capacity)
        return true;
    size_t alignment = bytes < HUGE_PAGE ? ARENA_ALIGNMENT : HUGE_PAGE, capacity;
    void *base;
    if (!round_up(bytes, ARENA_ALIGNMENT, &capacity) || posix_memalign(&base, alignment, capacity) != 0)
        return false;
    /* A first touch of 4 KiB pages costs more than the arithmetic done on them. But a huge page that is used in part
     * takes all of its memory: what is behind the last whole one stays in small ones. */
    if (alignment == HUGE_PAGE)
        madvise(base, capacity & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    arena_free(arena);
    *arena = (struct arena){.base = base, .capacity = capacity};
    return true;
}

/* The kernel does it in one call from version 5.14 on. */
static void touch(char *base, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (size_t)(-(uintptr_t)base & (page - 1));
    if (bytes > before && madvise(base + before, bytes - before, MADV_POPULATE_WRITE) == 0)
        bytes = before;
#endif
    for (size_t i = 0; i < bytes; i += SMALL_PAGE)
        ((volatile char *)base)[i] = 0;
    if (bytes)
        ((volatile char *)base)[bytes - 1] = 0;
}

bool arena_reserve_touched(struct arena *arena, size_t bytes, size_t touched)
{
    bool fresh = bytes > arena->capacity;
    if (!arena_reserve(arena, bytes))
        return false;
    if (fresh)
        touch(arena->base, size_min(touched, arena->capacity));
    return true;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    size_t rounded;
    if (!round_up(bytes, ARENA_ALIGNMENT, &rounded) || rounded > arena_left(arena))
        return NULL;
    void *piece = arena->base + arena->used;
    arena->used += rounded;
    return piece;
}

void *arena_take_rest(struct arena *arena, size_t *bytes)
{
    *bytes = arena_left(arena);
    return *bytes ? arena_take(arena, *bytes) : NULL;
}

void arena_shorten(struct arena *arena, const void *piece, size_t bytes)
{
    size_t begin = (size_t)((const char *)piece - arena->base), rounded;
    if (round_up(bytes, ARENA_ALIGNMENT, &rounded) && rounded <= arena->used - begin)
        arena->used = begin + rounded;
}

void arena_rewind(struct arena *arena, size_t used)
{
    arena->used = used;
}

void arena_reset(struct arena *arena)
{
    arena->used = 0;
}

void arena_free(struct arena *arena)
{
    free(arena->base);
    *arena = (struct arena){0};
}
