/* The loop, and what is made of its rounds. */

#include "measure.h"

/* A sample is long enough for the clock and the first misses not to count. */
#define SAMPLE_SECONDS 0.001
#define ROUNDS_LEAST   5

static double sample(struct contender *c)
{
    const double start = thread_seconds();
    for (size_t i = 0; i < c->repeats; i++)
        c->run(c->context);
    return (thread_seconds() - start) / (double)c->repeats;
}

size_t measure(struct contender *contenders, size_t count, double seconds)
{
    const double end = thread_seconds() + seconds;
    for (size_t i = 0; i < count; i++) {
        struct contender *c = &contenders[i];
        c->repeats = 1;
        sample(c); /* touches its memory */
        const double once = sample(c);
        c->repeats = once < SAMPLE_SECONDS ? 1 + (size_t)(SAMPLE_SECONDS / (once + 1e-8)) : 1;
    }
    size_t round = 0;
    for (; round < MEASURE_ROUNDS_MOST && (round < ROUNDS_LEAST || thread_seconds() < end); round++)
        for (size_t i = 0; i < count; i++)
            contenders[i].seconds[round] = sample(&contenders[i]);
    return round;
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
