/* The struct parallel of a program without threads. */

#include "engine/parallel.h"

static void run_here(void *context, size_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                     void *argument)
{
    (void)context;
    for (size_t i = 0; i < n_tiles; i++)
        tile(argument, i, 0);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

const struct parallel parallel_serial = {.run = run_here, .cancelled = never, .lanes = 1};
