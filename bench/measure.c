/* The loop, the medians. */

#include "measure.h"

#include <stdlib.h>
#include <time.h>

/* A sample is long enough for the clock and the first misses not to count. */
#define SAMPLE_SECONDS 0.001
#define ROUNDS_LEAST   5

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double sample(struct contender *c)
{
    const double start = now();
    for (size_t i = 0; i < c->repeats; i++)
        c->run(c->context);
    return (now() - start) / (double)c->repeats;
}

size_t measure(struct contender *contenders, size_t count, double seconds)
{
    const double end = now() + seconds;
    for (size_t i = 0; i < count; i++) {
        struct contender *c = &contenders[i];
        c->repeats = 1;
        sample(c); /* touches its memory */
        const double once = sample(c);
        c->repeats = once < SAMPLE_SECONDS ? 1 + (size_t)(SAMPLE_SECONDS / (once + 1e-8)) : 1;
    }
    size_t round = 0;
    for (; round < MEASURE_ROUNDS_MOST && (round < ROUNDS_LEAST || now() < end); round++)
        for (size_t i = 0; i < count; i++)
            contenders[i].seconds[round] = sample(&contenders[i]);
    return round;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct spread spread_of(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return (struct spread){samples[count / 4], samples[count / 2], samples[count - 1 - count / 4]};
}

struct spread measured_seconds(const struct contender *c, size_t rounds)
{
    double samples[MEASURE_ROUNDS_MOST];
    for (size_t i = 0; i < rounds; i++)
        samples[i] = c->seconds[i];
    return spread_of(samples, rounds);
}

struct spread measured_ratio(const struct contender *a, const struct contender *b, size_t rounds)
{
    double samples[MEASURE_ROUNDS_MOST];
    for (size_t i = 0; i < rounds; i++)
        samples[i] = a->seconds[i] / b->seconds[i];
    return spread_of(samples, rounds);
}

struct spread measured_share(const struct contender *a, const struct contender *b, size_t rounds)
{
    double samples[MEASURE_ROUNDS_MOST];
    for (size_t i = 0; i < rounds; i++)
        samples[i] = a->flop / a->seconds[i] / (b->flop / b->seconds[i]);
    return spread_of(samples, rounds);
}
