/* Forward traffic on its way into the live sums: which requests are counted, and when. */
#ifndef ATTND_SERVER_LIVE_FEED_H
#define ATTND_SERVER_LIVE_FEED_H

#include "analysis/live_observer.h"

struct forward_job;

/* What a job holds of it; zero-initialise. */
struct live_feed {
    struct live_store *store; /* held; NULL: the request is no traffic, or not of the sample */
    struct live_sums sums;    /* in the job's memory, or in `memory` */
    struct arena memory;      /* charged with so many bytes; 0: there is none */
    size_t charged;
    bool summed; /* else it is counted as skipped */
};

/* A forward is to be computed: chooses those of the jobs that are to be observed (job->input.observed), and takes
 * memory for their sums. False when there are none. */
bool live_feed_choose(struct forward_job *const *jobs, size_t count);
/* There is no memory to observe them. */
void live_feed_give_up(struct forward_job *const *jobs, size_t count);
/* It was computed, and the observer has seen it. */
void live_feed_take(struct forward_job *const *jobs, size_t count, struct live_observer *observer);
/* The job is over: what it adds is added where it succeeded, and its memory is given back. */
void live_feed_end(struct forward_job *job, bool succeeded);

#endif
