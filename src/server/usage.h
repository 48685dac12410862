/* What was asked of each weight set, by name, since it was there: counts and times, summed up as requests end. Weights
 * that are loaded again go on with the counts. */
#ifndef ATTND_SERVER_USAGE_H
#define ATTND_SERVER_USAGE_H

#include "server/request.h"
#include "weights/weight_set.h"

#include <stdatomic.h>
#include <stdint.h>

/* Sums of one set, each added to by itself: a reader may see a request in some and not yet in others. Sets do not share
 * a cache line. */
struct usage {
    _Alignas(64) _Atomic uint64_t succeeded;
    _Atomic uint64_t succeeded_ns, failed, failed_ns;           /* from the request line to the end of the answer */
    _Atomic uint64_t queue_ns, parse_ns, compute_ns, encode_ns; /* of those that succeeded */
    _Atomic uint64_t sequences;                                 /* of those that succeeded */
    _Atomic uint64_t executions; /* forwards that were computed; requests in one batch share one */
    _Atomic uint64_t reloads, reload_failures;
    _Atomic unsigned holders;
    _Atomic uint64_t last_ms; /* when the last request ended, since the epoch; 0: none */
};

/* Held once; NULL when memory ran out. */
struct usage *usage_create(void);
struct usage *usage_hold(struct usage *usage);
/* usage_release(NULL) is fine. */
void usage_release(struct usage *usage);

/* The request works with `set`, one of its generation's. */
void usage_begin(struct request *request, const struct weight_set *set);

/* The request is over, at `ended` (clock_ns): counts it for its set, if it has one. */
void usage_end(const struct request *request, uint64_t ended);

#endif
