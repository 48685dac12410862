/* Jobs that analyse attention maps: those that were posted, or those of a forward that runs first. Entered by the
 * threads that enter a forward job, as its route's functions. */
#ifndef ATTND_SERVER_MAPS_JOB_H
#define ATTND_SERVER_MAPS_JOB_H

#include "codec/analysis_request.h"
#include "server/forward_job.h"

/* The first member of its route's own structure. */
struct maps_job {
    struct forward_job forward;
    const struct analysis_request *asked; /* in the route's structure */
    struct maps_extent extent;            /* maps that there are of a sequence: all that were posted, or those that the
                                             forward computes, which are the ones to be measured */
    struct head_maps maps;                /* from maps_job_run on, of layer 0 */
    struct attention_rules rules;         /* of the forward, where dropout is left out of them */
};

/* At the end of the route's `decode`, with the request it filled. */
bool maps_job_decoded(struct maps_job *job, struct analysis_request *asked, struct error *error);

/* In `within_limits`: the extent is known from here on. */
void maps_job_begin(struct maps_job *job);
/* Layers to be measured, at least 1. */
size_t maps_job_layers(const struct maps_job *job);
/* Heads of each to be measured: include_heads, or all. */
size_t maps_job_heads(const struct maps_job *job);
/* Of posted maps which of them, NULL for all: computed ones are those that are measured. */
const uint32_t *maps_job_selection(const struct maps_job *job);
/* Of the forward, where one runs. */
double maps_job_flop(const struct maps_job *job);
/* NULL where maps were posted. */
const char *maps_job_weights(const struct maps_job *job);
const char *maps_job_digest(const struct maps_job *job);

/* In `reserve`: the forward's maps, and these buffers, from job->forward.results. */
bool maps_job_reserve(struct maps_job *job, const struct arena_piece *buffers, size_t count, struct error *error);

/* In `compute`: runs the forward or checks what was posted, all layers of it, and fills job->maps, which are not
 * prepared yet. */
bool maps_job_run(struct maps_job *job, const struct parallel *parallel, struct error *error);

#endif
