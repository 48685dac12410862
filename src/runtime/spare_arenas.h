/* The arenas that no job is using, the one used last on top.
 *
 * Jobs take the top, so that there are never more arenas than jobs have run at once: one large request after the other
 * touches the same memory, on whichever worker it runs. The caller locks. */
#ifndef ATTND_RUNTIME_SPARE_ARENAS_H
#define ATTND_RUNTIME_SPARE_ARENAS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A larger arena goes back to the system when it has been spare for SPARE_ARENA_NS. */
#define SPARE_ARENA_BYTES ((size_t)8 << 20)
#define SPARE_ARENA_NS    (60 * UINT64_C(1000000000))

struct spare_arena {
    struct arena arena; /* empty */
    uint64_t since;     /* clock_ns() when its job ended */
};

struct spare_arenas {
    struct spare_arena *items; /* [capacity], the first `count` in the order in which they became spare */
    size_t count, capacity;
};

/* Room for `capacity` arenas: as many as jobs can run at once. */
bool spare_arenas_init(struct spare_arenas *spare, size_t capacity);
void spare_arenas_free(struct spare_arenas *spare);

/* The arena used last, or an empty one. */
struct arena spare_arenas_take(struct spare_arenas *spare);
/* Resets it and puts it on top. */
void spare_arenas_put(struct spare_arenas *spare, struct arena arena, uint64_t now);

/* When the next large arena is due to go; CLOCK_NEVER when there is none. */
uint64_t spare_arenas_due(const struct spare_arenas *spare);
/* Takes out one that is due, for the caller to free once it has unlocked. */
bool spare_arenas_expire(struct spare_arenas *spare, uint64_t now, struct arena *arena);

#endif
