/* Arenas between jobs: see spare_arenas.h. Entered under the pool's mutex. */
#include "runtime/spare_arenas.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

bool spare_arenas_init(struct spare_arenas *spare, size_t capacity)
{
    struct spare_arena *items = calloc(capacity, sizeof *items);
    if (!items)
        return false;
    *spare = (struct spare_arenas){.items = items, .capacity = capacity};
    return true;
}

void spare_arenas_free(struct spare_arenas *spare)
{
    for (size_t i = 0; i < spare->count; i++)
        arena_free(&spare->items[i].arena);
    free(spare->items);
    *spare = (struct spare_arenas){0};
}

struct arena spare_arenas_take(struct spare_arenas *spare)
{
    return spare->count ? spare->items[--spare->count].arena : (struct arena){0};
}

void spare_arenas_put(struct spare_arenas *spare, struct arena arena, uint64_t now)
{
    arena_reset(&arena);
    spare->items[spare->count++] = (struct spare_arena){arena, now};
}

/* The index of the large arena that has been spare the longest, or `count`. */
static size_t oldest_large(const struct spare_arenas *spare)
{
    size_t i = 0;
    while (i < spare->count && spare->items[i].arena.capacity <= SPARE_ARENA_BYTES)
        i++;
    return i;
}

uint64_t spare_arenas_due(const struct spare_arenas *spare)
{
    size_t i = oldest_large(spare);
    return i < spare->count ? spare->items[i].since + SPARE_ARENA_NS : CLOCK_NEVER;
}

bool spare_arenas_expire(struct spare_arenas *spare, uint64_t now, struct arena *arena)
{
    size_t i = oldest_large(spare);
    if (i == spare->count || now < spare->items[i].since + SPARE_ARENA_NS)
        return false;
    *arena = spare->items[i].arena;
    spare->count--;
    memmove(&spare->items[i], &spare->items[i + 1], (spare->count - i) * sizeof spare->items[0]);
    return true;
}
