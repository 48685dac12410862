/* Parallel loops of the engine: tiles of one job run through the caller's struct parallel, with cancellation and
 * without splitting small work. */
#ifndef ATTND_ENGINE_SPLIT_H
#define ATTND_ENGINE_SPLIT_H

#include "engine/parallel.h"

#include <stdatomic.h>

struct work {
    const struct parallel *parallel;
    atomic_bool cancelled; /* parallel->cancelled said so once: nothing more is started */
};

/* Calls tile(argument, index, lane) for every index below n_tiles. `flop` is what all of them cost together; memory
 * traffic counts as SPLIT_FLOP_PER_FLOAT. Neighbouring tiles are handed out together until they are worth another
 * thread. False when cancelled. */
bool work_split(struct work *work, size_t n_tiles, double flop,
                void (*tile)(const void *argument, size_t index, unsigned lane), const void *argument);

/* Work below this stays on one lane, and no lane is handed less than half of it: waking another thread takes some 10
 * us, in which one core does about this much. */
#define SPLIT_FLOP_LEAST 5e5

/* A float copied costs about as much as this many flop. */
#define SPLIT_FLOP_PER_FLOAT 16.0

/* A tile is no more than this, about a millisecond of one core, where it can be cut at all: cancellation is noticed
 * soon, and so is other work that waits. */
#define TILE_FLOP_MOST 1e8

#endif
