/* The bounds. Read by any thread. */
#include "telemetry/histogram.h"

#define BOUND(bound, text) UINT64_C(bound),
#define TEXT(bound, text)  text,

static const uint64_t duration_bounds[] = {DURATION_BOUNDS(BOUND)};
static const uint64_t count_bounds[] = {COUNT_BOUNDS(BOUND)};
static const char *const duration_texts[] = {DURATION_BOUNDS(TEXT)};
static const char *const count_texts[] = {COUNT_BOUNDS(TEXT)};

const struct histogram_scale duration_scale = {DURATION_BOUND_COUNT, duration_bounds, duration_texts, 1e9};
const struct histogram_scale count_scale = {COUNT_BOUND_COUNT, count_bounds, count_texts, 1};
