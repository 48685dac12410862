/* The server's worker pool for a program's main thread: it computes as a job of the server does, pinned and helped in
 * the same way, and waits for the end. */
#ifndef ATTND_BENCH_LANES_H
#define ATTND_BENCH_LANES_H

#include "base/error.h"
#include "engine/parallel.h"

struct lanes;

/* One lane is the calling thread itself, without a pool. With more, worker n is pinned to CPU n when `count` is the
 * number of usable processors, as the server does it. */
struct lanes *lanes_create(unsigned count, struct error *error);

/* Calls function(parallel, argument) once, on a worker, and returns when it has returned. One thread at a time. By
 * `flop` the pool takes the job for a light or a heavy one, as a request's. */
bool lanes_run(struct lanes *lanes, double flop, void (*function)(const struct parallel *parallel, void *argument),
               void *argument, struct error *error);

/* lanes_free(NULL) is fine. */
void lanes_free(struct lanes *lanes);

#endif
