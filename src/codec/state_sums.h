/* Where the numbers of a statistic stand in live sums, as a state document lists them: for who writes one and who reads
 * one. Pure: any thread. */
#ifndef ATTND_CODEC_STATE_SUMS_H
#define ATTND_CODEC_STATE_SUMS_H

#include "analysis/live_sums.h"

enum { STATE_OFFSET, STATE_Z, STATE_ZZ, STATE_ZN, STATE_VALUES };

struct state_sums {
    const char *name;             /* of the statistic */
    double *sequences, *n, *nn;   /* of the first part; the next one's is `stride` doubles further */
    double *values[STATE_VALUES]; /* [count] of the first part; the next one's are `values_stride` doubles further */
    size_t parts, stride, values_stride;
    size_t count; /* the heads of a part; 1: all heads have it in common */
};

extern const char *const state_value_names[STATE_VALUES];

/* Of live_statistics and of live_baselines, by their index. */
struct state_sums state_sums_of_statistic(const struct live_sums *sums, size_t statistic);
struct state_sums state_sums_of_baseline(const struct live_sums *sums, size_t baseline);

/* The doubles from one part's keys to the next one's. */
#define STATE_KEYS_STRIDE (sizeof(struct live_keys) / sizeof(double))

#endif
