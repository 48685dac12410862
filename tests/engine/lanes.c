#include "lanes.h"

#include "random.h"
#include "require.h"

#include <pthread.h>
#include <stdlib.h>

struct loop {
    const size_t *order; /* [n_tiles] */
    size_t n_tiles;
    atomic_size_t next;
    void (*tile)(void *argument, size_t index, unsigned lane);
    void *argument;
};

struct thread {
    pthread_t id;
    struct loop *loop;
    unsigned lane;
};

static void *thread_main(void *argument)
{
    const struct thread *thread = argument;
    struct loop *loop = thread->loop;
    for (size_t i = thread->lane; i < loop->n_tiles; i = atomic_fetch_add(&loop->next, 1))
        loop->tile(loop->argument, loop->order[i], thread->lane);
    return NULL;
}

static void run(void *context, size_t n_tiles, void (*tile)(void *argument, size_t index, unsigned lane),
                void *argument)
{
    struct lanes *lanes = context;
    struct random random = {lanes->seed++};
    lanes->n_regions++;
    lanes->n_tiles += n_tiles;
    if (n_tiles > lanes->largest_region)
        lanes->largest_region = n_tiles;
    size_t *order = malloc(n_tiles * sizeof *order);
    require(order, "no memory for %zu tiles", n_tiles);
    random_order(&random, order, n_tiles);
    /* Each lane has one tile of its own, so that all of them take part however late they start. */
    struct loop loop = {
        .order = order, .n_tiles = n_tiles, .next = lanes->parallel.lanes, .tile = tile, .argument = argument};
    struct thread threads[LANES_MOST];
    for (unsigned lane = 0; lane < lanes->parallel.lanes; lane++) {
        threads[lane].loop = &loop;
        threads[lane].lane = lane;
        require(pthread_create(&threads[lane].id, NULL, thread_main, &threads[lane]) == 0, "no thread");
    }
    for (unsigned lane = 0; lane < lanes->parallel.lanes; lane++)
        pthread_join(threads[lane].id, NULL);
    free(order);
}

static bool cancelled(void *context)
{
    struct lanes *lanes = context;
    return atomic_fetch_add(&lanes->n_asked, 1) >= lanes->cancel_after;
}

void lanes_init(struct lanes *lanes, unsigned n_lanes, uint64_t seed)
{
    require(n_lanes <= LANES_MOST, "%u lanes", n_lanes);
    *lanes = (struct lanes){
        .parallel = {.run = run, .cancelled = cancelled, .context = lanes, .lanes = n_lanes},
        .seed = seed,
        .cancel_after = SIZE_MAX,
    };
}
