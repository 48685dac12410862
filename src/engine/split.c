/* Groups the tiles of one loop, runs the groups on the caller's lanes, and stops at the first sign of cancellation.
 * Entered by the thread that runs the job; groups run on any thread that struct parallel brings. */

#include "engine/split.h"

struct loop {
    struct work *work;
    size_t n_tiles, per_group;
    void (*tile)(const void *argument, size_t index, unsigned lane);
    const void *argument;
};

static void run_group(void *argument, size_t group, unsigned lane)
{
    const struct loop *loop = argument;
    struct work *work = loop->work;
    if (atomic_load_explicit(&work->cancelled, memory_order_relaxed))
        return;
    if (work->parallel->cancelled(work->parallel->context)) {
        atomic_store_explicit(&work->cancelled, true, memory_order_relaxed);
        return;
    }
    const size_t first = group * loop->per_group;
    const size_t end = loop->n_tiles - first < loop->per_group ? loop->n_tiles : first + loop->per_group;
    for (size_t i = first; i < end; i++)
        loop->tile(loop->argument, i, lane);
}

bool work_split(struct work *work, size_t n_tiles, double flop,
                void (*tile)(const void *argument, size_t index, unsigned lane), const void *argument)
{
    if (n_tiles > 0) {
        const double worth = flop < SPLIT_FLOP_LEAST ? 1 : flop / (SPLIT_FLOP_LEAST / 2);
        const size_t groups = worth < (double)n_tiles ? (size_t)worth : n_tiles;
        struct loop loop = {work, n_tiles, (n_tiles + groups - 1) / groups, tile, argument};
        const size_t used = (n_tiles + loop.per_group - 1) / loop.per_group;
        work->parallel->run(work->parallel->context, used, run_group, &loop);
    }
    return !atomic_load_explicit(&work->cancelled, memory_order_relaxed);
}
