/* A struct parallel that really runs tiles on threads, in random order, and can be told to cancel. */
#ifndef ATTND_TESTS_ENGINE_LANES_H
#define ATTND_TESTS_ENGINE_LANES_H

#include "engine/parallel.h"

#include <stdatomic.h>
#include <stdint.h>

enum { LANES_MOST = 8 };

struct lanes {
    struct parallel parallel;
    uint64_t seed;             /* of the order of tiles */
    atomic_size_t n_asked;     /* calls of `cancelled` */
    size_t cancel_after;       /* `cancelled` is true from this call on; SIZE_MAX: never */
    size_t n_regions, n_tiles; /* run so far */
    size_t largest_region;     /* tiles */
};

/* The address of `lanes` must stay. */
void lanes_init(struct lanes *lanes, unsigned n_lanes, uint64_t seed);

#endif
