/* Runs a job that a worker took, together with those that wait for the same weight set. */
#ifndef ATTND_SERVER_FORWARD_BATCH_H
#define ATTND_SERVER_FORWARD_BATCH_H

#include "runtime/pool.h"

/* Where more rows make no product faster (a block of rows of the kernels, docs/MODEL.md), a batch ends: from there on
 * it would only keep those waiting that are ready. */
#define FORWARD_BATCH_ROWS ((size_t)192)
/* A job has at least one row. */
#define FORWARD_BATCH_JOBS FORWARD_BATCH_ROWS

/* struct job's run, for jobs of forward_job_begin. */
void forward_batch_run(struct job *taken, enum job_end end);

#endif
