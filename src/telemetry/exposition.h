/* Writes metrics as scrapers read them: Prometheus text 0.0.4, and OpenMetrics 1.0. One thread at a time.
 *
 * Families come in the order of METRICS, each once, all their samples together. */
#ifndef ATTND_TELEMETRY_EXPOSITION_H
#define ATTND_TELEMETRY_EXPOSITION_H

#include "base/text.h"
#include "telemetry/histogram.h"
#include "telemetry/metric_list.h"

#include <stddef.h>
#include <stdint.h>

enum exposition_format { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS };

struct exposition {
    struct text *text;
    enum exposition_format format;
    enum metric metric; /* whose samples come now */
};

/* The type of the whole: "text/plain; version=0.0.4; charset=utf-8". */
const char *exposition_media_type(enum exposition_format format);

/* "attnd_requests" for METRIC_REQUESTS. */
const char *metric_family(enum metric metric);

/* What stands before the samples of a family. */
void exposition_family(struct exposition *exposition, enum metric metric);

/* A sample of it. `values` are those of its labels, in the order of METRICS, as many as it has; NULL where it has none.
 */
void exposition_integer(struct exposition *exposition, const char *const *values, uint64_t value);
void exposition_number(struct exposition *exposition, const char *const *values, double value);

/* A request that stands for its bucket. */
struct exemplar {
    char trace_id[33]; /* "": none */
    uint64_t value;    /* of the histogram's values */
    uint64_t at;       /* nanoseconds since the epoch */
};

/* All samples of a histogram. `exemplars` [HISTOGRAM_BUCKETS], or NULL; Prometheus text has none. */
void exposition_histogram(struct exposition *exposition, const char *const *values, const struct histogram_scale *scale,
                          const struct histogram *histogram, const struct exemplar *exemplars);

/* The end of the whole. */
void exposition_end(struct exposition *exposition);

#endif
