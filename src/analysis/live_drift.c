/* Drift of a mean between two lots of sequences: see live_drift.h. */
#include "analysis/live_drift.h"

#include <math.h>

/* A denominator that is no more than this share of the mean is rounding. */
#define SHARE_LEAST 1e-9

struct drift live_drift(const struct ratio_sums *baseline, const struct ratio_sums *window,
                        const struct drift_limits *limits)
{
    struct drift drift = {.baseline = ratio_sums_mean(baseline),
                          .window = ratio_sums_mean(window),
                          .z = (double)NAN,
                          .effect = (double)NAN};
    if (baseline->sequences < limits->min_sequences || window->sequences < limits->min_sequences)
        return drift;
    const double before = ratio_sums_stderr(baseline), within = ratio_sums_stderr(window);
    const double difference = drift.window - drift.baseline, least = SHARE_LEAST * fabs(drift.baseline);
    const double error = sqrt(within * within + before * before), deviation = before * sqrt(baseline->sequences);
    /* Not what is 0 either, where the mean is. */
    if (!(error > least && deviation > least && isfinite(difference)))
        return drift;
    drift.z = difference / error;
    drift.effect = difference / deviation;
    drift.drifted = fabs(drift.z) >= limits->threshold && fabs(drift.effect) >= limits->min_effect;
    return drift;
}
