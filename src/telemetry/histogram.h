/* Counts of values by fixed bounds, and their sum. Plain numbers: whoever shares one guards it. */
#ifndef ATTND_TELEMETRY_HISTOGRAM_H
#define ATTND_TELEMETRY_HISTOGRAM_H

#include <stdint.h>

/* X(nanoseconds, seconds): from 50 us to 60 s. As text, the shortest that a reader of floating point writes: whole
 * numbers with a point, in both formats alike, so that a series goes on when a scraper takes to the other one. */
#define DURATION_BOUNDS(X)                                                                                    \
    X(50000, "5e-05")                                                                                         \
    X(100000, "0.0001")                                                                                       \
    X(250000, "0.00025")                                                                                      \
    X(500000, "0.0005") X(1000000, "0.001") X(2500000, "0.0025") X(5000000, "0.005") X(10000000, "0.01")      \
        X(25000000, "0.025") X(50000000, "0.05") X(100000000, "0.1") X(250000000, "0.25") X(500000000, "0.5") \
            X(1000000000, "1.0") X(2500000000, "2.5") X(5000000000, "5.0") X(10000000000, "10.0")             \
                X(30000000000, "30.0") X(60000000000, "60.0")
/* Of numbers of requests. */
#define COUNT_BOUNDS(X) X(1, "1.0") X(2, "2.0") X(4, "4.0") X(8, "8.0") X(16, "16.0") X(32, "32.0") X(64, "64.0")

#define HISTOGRAM_BOUND(bound, text) +1
enum {
    DURATION_BOUND_COUNT = 0 DURATION_BOUNDS(HISTOGRAM_BOUND),
    COUNT_BOUND_COUNT = 0 COUNT_BOUNDS(HISTOGRAM_BOUND),
    HISTOGRAM_BUCKETS = DURATION_BOUND_COUNT + 1 /* the last has no bound */
};
#undef HISTOGRAM_BOUND

/* What is summed up, and in which unit it is shown. */
struct histogram_scale {
    unsigned count;          /* of bounds */
    const uint64_t *bounds;  /* [count], ascending; a value at a bound is below it */
    const char *const *text; /* [count] */
    double per_unit;         /* values in one of what is shown: 1e9 nanoseconds in a second */
};

extern const struct histogram_scale duration_scale; /* nanoseconds, shown in seconds */
extern const struct histogram_scale count_scale;

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS]; /* each by itself; up to the scale's count */
    uint64_t sum;
};

/* The bucket of a duration in nanoseconds. */
static inline unsigned duration_bucket(uint64_t ns)
{
    unsigned bucket = 0;
    while (bucket < DURATION_BOUND_COUNT && ns > duration_scale.bounds[bucket])
        bucket++;
    return bucket;
}

/* Returns the bucket. */
static inline unsigned histogram_add_duration(struct histogram *histogram, uint64_t ns)
{
    const unsigned bucket = duration_bucket(ns);
    histogram->buckets[bucket]++;
    histogram->sum += ns;
    return bucket;
}

static inline void histogram_add_count(struct histogram *histogram, uint64_t count)
{
    unsigned bucket = 0;
    while (bucket < COUNT_BOUND_COUNT && count > count_scale.bounds[bucket])
        bucket++;
    histogram->buckets[bucket]++;
    histogram->sum += count;
}

static inline uint64_t histogram_total(const struct histogram *histogram)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += histogram->buckets[i];
    return total;
}

#endif
