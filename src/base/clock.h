/* Monotonic time in nanoseconds, for durations and deadlines, never for dates; and the wall's clock, for dates alone.
 */
#ifndef ATTND_BASE_CLOCK_H
#define ATTND_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND      UINT64_C(1000000000)
#define CLOCK_MILLISECOND UINT64_C(1000000)

/* A deadline that never comes. */
#define CLOCK_NEVER UINT64_MAX

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* The same to some milliseconds, for a fraction of its price; never ahead of it. */
static inline uint64_t clock_coarse_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* The wall's clock, since 1970; it may be set back. */
static inline uint64_t clock_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* `seconds` (not negative) after `start`; CLOCK_NEVER when that is beyond the clock. */
static inline uint64_t clock_after(uint64_t start, double seconds)
{
    double ns = seconds * 1e9;
    return ns < (double)(CLOCK_NEVER - start) / 2 ? start + (uint64_t)ns : CLOCK_NEVER;
}

#endif
