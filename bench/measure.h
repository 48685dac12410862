/* Timing of things that are compared: they run in turn within one loop, so that what the machine does beside (clock,
 * caches, neighbours) meets all of them alike. One thread; its CPU time, not the wall's. */
#ifndef ATTND_BENCH_MEASURE_H
#define ATTND_BENCH_MEASURE_H

#include "samples.h"

#include <stddef.h>

#define MEASURE_ROUNDS_MOST 400

struct contender {
    void (*run)(void *context);
    void *context;
    double flop;                         /* of one run */
    size_t repeats;                      /* runs in a sample; measure sets it */
    double seconds[MEASURE_ROUNDS_MOST]; /* of one run, by round */
};

/* Runs the contenders in turn for about `seconds`, at least five rounds. Returns the rounds. */
size_t measure(struct contender *contenders, size_t count, double seconds);

/* Seconds of one run. */
struct spread measured_seconds(const struct contender *c, size_t rounds);
/* Seconds of `a` over those of `b`, round by round. */
struct spread measured_ratio(const struct contender *a, const struct contender *b, size_t rounds);
/* Flop per second of `a` over those of `b`, round by round. */
struct spread measured_share(const struct contender *a, const struct contender *b, size_t rounds);

#endif
