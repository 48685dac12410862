/* The live statistics of the weight sets as metrics: totals of each head, and how redundant it is. */
#ifndef ATTND_SERVER_METRICS_LIVE_H
#define ATTND_SERVER_METRICS_LIVE_H

#include "analysis/live_totals.h"
#include "server/request.h"
#include "telemetry/exposition.h"

/* Of one set. */
struct metrics_live_set {
    const char *name;
    struct live_totals totals;
    double *redundancy; /* [num_layers, num_heads]; NaN: there is none */
};

struct metrics_live {
    struct metrics_live_set *sets; /* [count]: those whose heads are shown */
    size_t count, charged;
    struct arena memory;
};

/* Reads what metrics.heads wants to be shown. Where memory is short for that, nothing is: the rest is worth more. By
 * whoever has the request. */
void metrics_live_read(struct request *request, struct metrics_live *live);
void metrics_live_write(const struct metrics_live *live, struct exposition *exposition);
void metrics_live_free(struct request *request, struct metrics_live *live);

#endif
