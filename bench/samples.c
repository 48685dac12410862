#include "samples.h"

#include <stdlib.h>
#include <time.h>

double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return (struct spread){samples[count / 4], samples[count / 2], samples[count - 1 - count / 4]};
}
