/* Jobs that wait, oldest first. The caller locks.
 *
 * A job may be taken from its `ripe_at` on; 0: at once. Jobs are pushed in ascending order of it, but for the zeros. */
#ifndef ATTND_RUNTIME_JOB_QUEUE_H
#define ATTND_RUNTIME_JOB_QUEUE_H

#include "runtime/pool.h"

struct job_queue {
    struct job *first, **last;
    size_t count, n_ripe; /* jobs; those whose `ripe_at` is 0 */
    double cost;          /* of all of them */
};

void job_queue_init(struct job_queue *queue);

void job_queue_push(struct job_queue *queue, struct job *job);

/* When job_queue_take finds something: 0 at once, CLOCK_NEVER in an empty queue. */
uint64_t job_queue_ripe(const struct job_queue *queue);
/* The oldest job that may be taken at `now`, or NULL. */
struct job *job_queue_take(struct job_queue *queue, uint64_t now);

/* Takes out this job, which is only compared: it need not exist. False when it is not here; *key is its batch_key. */
bool job_queue_remove(struct job_queue *queue, const struct job *job, const void **key);
/* All jobs, as a chain through `next`. */
struct job *job_queue_take_all(struct job_queue *queue);

/* Whether a job of this key is queued. */
bool job_queue_holds(const struct job_queue *queue, const void *key);

/* Jobs of this key (not NULL), oldest first and ripe or not, that have at most *rows together, as a chain; one that
 * would be too much stays. *rows is what is left, *count how many they are. */
struct job *job_queue_take_batch(struct job_queue *queue, const void *key, size_t *rows, size_t *count);
/* Lets the oldest job of this key (not NULL) be taken at once where those that wait have `rows` rows together. */
void job_queue_ripen(struct job_queue *queue, const void *key, size_t rows);

#endif
