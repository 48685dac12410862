/* What every benchmark does with time: the thread's clock, and the middle of what it measured. */
#ifndef ATTND_BENCH_SAMPLES_H
#define ATTND_BENCH_SAMPLES_H

#include <stddef.h>

/* Seconds that this thread has computed, not the wall's: other programs may run. */
double thread_seconds(void);

/* Of samples: the quartiles and the median. */
struct spread {
    double low, median, high;
};

/* Sorts samples [count], at least one. */
struct spread spread_of(double *samples, size_t count);

#endif
