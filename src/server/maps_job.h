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
    struct maps_extent extent;    /* maps of a sequence, of the layers to be measured: all heads that were posted, or
                                     those that the forward computes, which are the ones to be measured */
    struct head_maps maps;        /* of the layer that is looked at */
    struct attention_rules rules; /* of the forward, where dropout is left out of them */
    /* Of a model: the input as that layer sees it. */
    struct attention_rules layer_rules;
    struct forward_input layer_input;
};

/* At the end of the route's `decode`, with the request it filled. */
bool maps_job_decoded(struct maps_job *job, struct analysis_request *asked, struct error *error);

/* In `within_limits`: the extent is known from here on. */
void maps_job_begin(struct maps_job *job);
/* Layers to be measured, at least 1: include_layers, or all. What comes of them lies in the order of that list: a
 * layer's `place` is its index there. */
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

/* In `reserve`: the forward's maps, and these buffers, from job->forward.results. `at_once`: of all layers, for
 * maps_job_run; else of one, for maps_job_each. */
bool maps_job_reserve(struct maps_job *job, bool at_once, const struct arena_piece *buffers, size_t count,
                      struct error *error);

/* In `compute`: runs the forward or checks what was posted, all layers to be measured. job->maps is that of the first
 * of them then, not prepared yet. */
bool maps_job_run(struct maps_job *job, const struct parallel *parallel, struct error *error);
/* Then: makes job->maps those of a layer, not prepared yet. */
void maps_job_look_at(struct maps_job *job, size_t place);

/* In `compute`: the same layer by layer, and after each `visit`, with job->maps those of this layer, not prepared yet.
 * Of a model the maps of one layer are in memory at a time, and layers come in its order, whatever their places. */
typedef bool maps_visitor(struct maps_job *job, size_t place, const struct parallel *parallel, struct error *error);
bool maps_job_each(struct maps_job *job, maps_visitor *visit, const struct parallel *parallel, struct error *error);

#endif
