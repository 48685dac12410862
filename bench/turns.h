/* What a program does that is timed beside others: it stays alive and runs its pass when it is told to.
 *
 * Each line of stdin is "REPEATS [FILE]": one pass that is not timed, then REPEATS that are. The answer is a line
 * "WALL CPU": seconds of all repeats by the clock, and the same of this process on all processors. With FILE, the
 * results are written there as float32. All passes write to the same memory. The line "peak" is answered by the
 * multiply-adds per second of one core, times two, with nothing but registers. */
#ifndef ATTND_BENCH_TURNS_H
#define ATTND_BENCH_TURNS_H

#include "base/arena.h"
#include "base/error.h"
#include "engine/parallel.h"

#include <stdio.h>

struct turns_pass {
    void *context;
    double flop;
    /* False on overflow. */
    bool (*scratch_bytes)(const void *context, unsigned lanes, size_t *bytes);
    bool (*run)(void *context, const struct parallel *parallel, struct arena *scratch, struct error *error);
    /* False when not all was written. */
    bool (*save)(const void *context, FILE *file);
};

/* Answers lines until stdin ends. */
bool turns_serve(const struct turns_pass *pass, unsigned lanes, struct error *error);

/* The number of lanes in a program's argument; 0: it is none. */
unsigned turns_lanes(const char *text);

#endif
