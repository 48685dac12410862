/* Runs a job that a worker took, together with those that wait for the same weight set. */
#ifndef ATTND_SERVER_FORWARD_BATCH_H
#define ATTND_SERVER_FORWARD_BATCH_H

#include "runtime/pool.h"

/* Here a batch ends. From 16 rows on a product runs at full speed (docs/SPEED.md): a longer batch would only keep those
 * waiting that are ready, and let them all come back at the same moment. */
#define FORWARD_BATCH_ROWS ((size_t)24)
/* A job has at least one row. */
#define FORWARD_BATCH_JOBS FORWARD_BATCH_ROWS

/* struct job's run, for jobs of forward_job_begin. */
void forward_batch_run(struct job *taken, enum job_end end);

#endif
