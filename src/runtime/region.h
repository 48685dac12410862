/* A parallel region: tiles handed out from one counter to the thread that opened it and to helpers.
 *
 * A region lives in its worker, is opened again for every parallel loop, and outlives every helper. What makes that
 * safe is the generation: a helper carries a copy of what it entered, and takes a tile only while the region is still
 * in the same opening. So the owner waits for tiles that were taken, never for a helper that has not got the CPU, and a
 * helper that comes late finds nothing to take. */
#ifndef ATTND_RUNTIME_REGION_H
#define ATTND_RUNTIME_REGION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The position holds generation and index in 32 bits each. */
#define REGION_TILES_MAX UINT32_MAX

/* One opening of a region. */
struct region_opening {
    void (*tile)(void *argument, size_t index, unsigned lane);
    void *argument;
    uint32_t n_tiles, generation;
};

struct region {
    struct region_opening opening; /* written by region_open, read by region_enter: under the caller's lock */
    pthread_mutex_t mutex;         /* for sleeping on `all_returned` */
    pthread_cond_t all_returned;
    _Alignas(64) _Atomic uint64_t position; /* generation << 32 | the next tile */
    _Alignas(64) _Atomic uint32_t returned; /* tiles of this opening whose call has returned */
    _Atomic bool sleeping;                  /* the owner sleeps, or is about to */
};

void region_init(struct region *region);
void region_destroy(struct region *region);

/* Owner only, and only after the last opening's region_wait; n_tiles at most REGION_TILES_MAX. The caller holds the
 * lock under which helpers enter. */
void region_open(struct region *region, uint32_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                 void *argument);

/* Under that lock: whether there are tiles left to take. */
bool region_has_tiles(const struct region *region);

/* For a helper, under that lock: false when there are none. */
bool region_enter(struct region *region, struct region_opening *opening);

/* Takes and runs the next tile; false when none is left in this opening. */
bool region_run_tile(struct region *region, const struct region_opening *opening, unsigned lane);

/* Owner only, when no tile is left to take: returns when every tile has returned. */
void region_wait(struct region *region);

/* How long a thread that expects news at once looks for it before it sleeps: about what a sleep and a wake cost. */
#define REGION_SPIN_NS UINT64_C(50000)

/* Tells the processor that this is a waiting loop. */
static inline void region_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
