/* Whether a statistic of recent traffic is another than before. Pure: any thread. */
#ifndef ATTND_ANALYSIS_LIVE_DRIFT_H
#define ATTND_ANALYSIS_LIVE_DRIFT_H

#include "analysis/ratio_sums.h"

#include <stdbool.h>

struct drift_limits {
    double threshold;     /* |z| from which on it has drifted, in standard errors */
    double min_effect;    /* |effect| below which it has not, in standard deviations between sequences */
    double min_sequences; /* on each side, for there to be z and effect */
};

#define DRIFT_LIMITS_DEFAULT \
    {                        \
        4, 0.2, 30           \
    }

/* NaN for what is undefined. */
struct drift {
    double baseline, window; /* means */
    double z;                /* (window - baseline) / sqrt(stderr_window^2 + stderr_baseline^2) */
    double effect;           /* (window - baseline) / (stderr_baseline sqrt(sequences of the baseline)) */
    bool drifted;
};

/* `baseline`: all that came before the window, and none of it. */
struct drift live_drift(const struct ratio_sums *baseline, const struct ratio_sums *window,
                        const struct drift_limits *limits);

#endif
