/* What the engine needs to run in parallel; whoever has threads provides it (runtime/pool.h), and without any,
 * parallel_serial. */
#ifndef ATTND_ENGINE_PARALLEL_H
#define ATTND_ENGINE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

struct parallel {
    /* Calls tile(argument, index, lane) once for every index in [0, n_tiles), on up to `lanes` threads at a time, and
     * returns when all have returned. `lane` (< lanes) is not used by two threads at once: scratch memory may be kept
     * by lane. Tiles are handed out in ascending order. */
    void (*run)(void *context, size_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                void *argument);
    /* True once the work is no longer wanted (deadline, client gone): the engine looks between tiles, skips the rest
     * and returns false. */
    bool (*cancelled)(void *context);
    void *context;
    unsigned lanes;
};

/* One lane: the calling thread; never cancelled. */
extern const struct parallel parallel_serial;

#endif
