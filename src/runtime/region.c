/* Owner and helpers of a parallel region: see region.h. Entered by workers only. */
#include "runtime/region.h"

#include "base/clock.h"

void region_init(struct region *region)
{
    region->opening = (struct region_opening){0};
    pthread_mutex_init(&region->mutex, NULL);
    pthread_cond_init(&region->all_returned, NULL);
    atomic_init(&region->position, 0);
    atomic_init(&region->returned, 0);
    atomic_init(&region->sleeping, false);
}

void region_destroy(struct region *region)
{
    pthread_cond_destroy(&region->all_returned);
    pthread_mutex_destroy(&region->mutex);
}

void region_open(struct region *region, uint32_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                 void *argument)
{
    /* The generation comes round after 2^32 openings, a quarter of an hour of nothing but empty regions: a helper would
     * have to be without the CPU for exactly that many. */
    uint32_t generation = region->opening.generation + 1;
    region->opening = (struct region_opening){tile, argument, n_tiles, generation};
    atomic_store_explicit(&region->returned, 0, memory_order_relaxed);
    atomic_store_explicit(&region->position, (uint64_t)generation << 32, memory_order_relaxed);
}

bool region_has_tiles(const struct region *region)
{
    uint64_t position = atomic_load_explicit(&region->position, memory_order_relaxed);
    return (uint32_t)position < region->opening.n_tiles;
}

bool region_enter(struct region *region, struct region_opening *opening)
{
    if (!region_has_tiles(region))
        return false;
    *opening = region->opening;
    return true;
}

/* Not fetch_add: a late helper would take a tile from the next opening. Relaxed: what a tile reads was published under
 * the lock of region_open and region_enter. */
static bool take(struct region *region, const struct region_opening *opening, uint32_t *index)
{
    uint64_t position = atomic_load_explicit(&region->position, memory_order_relaxed);
    do {
        if (position >> 32 != opening->generation || (uint32_t)position >= opening->n_tiles)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&region->position, &position, position + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    *index = (uint32_t)position;
    return true;
}

bool region_run_tile(struct region *region, const struct region_opening *opening, unsigned lane)
{
    uint32_t index;
    if (!take(region, opening, &index))
        return false;
    opening->tile(opening->argument, index, lane);
    /* Sequentially consistent, as in region_wait: either the owner sees this tile before it sleeps, or this thread sees
     * that it sleeps. By then the region may be in its next opening; the owner wakes for nothing and looks again. */
    uint32_t returned = atomic_fetch_add(&region->returned, 1) + 1;
    if (returned == opening->n_tiles && atomic_load(&region->sleeping)) {
        pthread_mutex_lock(&region->mutex);
        pthread_cond_signal(&region->all_returned);
        pthread_mutex_unlock(&region->mutex);
    }
    return true;
}

static bool all_returned(struct region *region)
{
    return atomic_load(&region->returned) == region->opening.n_tiles;
}

void region_wait(struct region *region)
{
    if (all_returned(region))
        return;
    for (uint64_t end = clock_ns() + REGION_SPIN_NS; clock_ns() < end; region_pause())
        if (all_returned(region))
            return;
    pthread_mutex_lock(&region->mutex);
    atomic_store(&region->sleeping, true);
    while (!all_returned(region))
        pthread_cond_wait(&region->all_returned, &region->mutex);
    atomic_store(&region->sleeping, false);
    pthread_mutex_unlock(&region->mutex);
}
