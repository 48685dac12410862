/* The queue of one class of jobs: see job_queue.h. Entered under the pool's mutex. */
#include "runtime/job_queue.h"

#include "base/clock.h"

void job_queue_init(struct job_queue *queue)
{
    *queue = (struct job_queue){.last = &queue->first};
}

void job_queue_push(struct job_queue *queue, struct job *job)
{
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
    queue->count++;
    queue->n_ripe += job->ripe_at == 0;
    queue->cost += job->cost;
}

static struct job *unlink_job(struct job_queue *queue, struct job **at)
{
    struct job *job = *at;
    *at = job->next;
    if (!*at)
        queue->last = at;
    queue->count--;
    queue->n_ripe -= job->ripe_at == 0;
    queue->cost = queue->count ? queue->cost - job->cost : 0; /* rounding does not add up for ever */
    job->next = NULL;
    return job;
}

uint64_t job_queue_ripe(const struct job_queue *queue)
{
    if (queue->n_ripe)
        return 0;
    return queue->first ? queue->first->ripe_at : CLOCK_NEVER;
}

struct job *job_queue_take(struct job_queue *queue, uint64_t now)
{
    struct job **at = &queue->first;
    if (job_queue_ripe(queue) > now)
        return NULL;
    while ((*at)->ripe_at > now)
        at = &(*at)->next;
    return unlink_job(queue, at);
}

bool job_queue_remove(struct job_queue *queue, const struct job *job, const void **key)
{
    /* A scan: the queue is bounded by some thousands, and nothing of a job that is no longer in it is read. */
    struct job **at = &queue->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (!*at)
        return false;
    *key = unlink_job(queue, at)->batch_key;
    return true;
}

struct job *job_queue_take_all(struct job_queue *queue)
{
    struct job *first = queue->first;
    job_queue_init(queue);
    return first;
}

bool job_queue_holds(const struct job_queue *queue, const void *key)
{
    const struct job *job = queue->first;
    while (job && job->batch_key != key)
        job = job->next;
    return job != NULL;
}

struct job *job_queue_take_batch(struct job_queue *queue, const void *key, size_t *rows, size_t *count)
{
    struct job *chain = NULL, **end = &chain, **at = &queue->first;
    *count = 0;
    while (*at) {
        struct job *job = *at;
        if (job->batch_key != key || job->batch_rows > *rows) {
            at = &job->next;
            continue;
        }
        *rows -= job->batch_rows;
        *end = unlink_job(queue, at);
        end = &job->next;
        ++*count;
    }
    return chain;
}

void job_queue_ripen(struct job_queue *queue, const void *key, size_t rows)
{
    struct job *oldest = NULL;
    for (struct job *job = queue->first; job; job = job->next) {
        if (job->batch_key != key)
            continue;
        if (!oldest)
            oldest = job;
        if (oldest->ripe_at == 0)
            return;
        if (job->batch_rows >= rows) {
            oldest->ripe_at = 0;
            queue->n_ripe++;
            return;
        }
        rows -= job->batch_rows;
    }
}
