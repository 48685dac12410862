#include "telemetry/trace_buffer.h"

#include "base/clock.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

bool trace_buffer_init(struct trace_buffer *buffer)
{
    pthread_condattr_t monotonic;
    memset(buffer, 0, sizeof *buffer);
    buffer->records = malloc(TRACE_BUFFER_RECORDS * sizeof *buffer->records); /* 3 MiB, touched as it fills */
    if (!buffer->records)
        return false;
    pthread_mutex_init(&buffer->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&buffer->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return true;
}

void trace_buffer_destroy(struct trace_buffer *buffer)
{
    pthread_cond_destroy(&buffer->news);
    pthread_mutex_destroy(&buffer->lock);
    free(buffer->records);
}

bool trace_buffer_put(struct trace_buffer *buffer, const struct trace_record *record)
{
    pthread_mutex_lock(&buffer->lock);
    const size_t count = buffer->head - buffer->tail;
    const bool fits = count < TRACE_BUFFER_RECORDS;
    if (fits)
        memcpy(&buffer->records[buffer->head++ % TRACE_BUFFER_RECORDS], record,
               offsetof(struct trace_record, text) + record->used);
    pthread_mutex_unlock(&buffer->lock);
    if (count == 0 || count + 1 == TRACE_BATCH_RECORDS)
        pthread_cond_signal(&buffer->news);
    return fits;
}

/* Called and left with the lock held. False when the time is over. */
static bool wait_until(struct trace_buffer *buffer, uint64_t until)
{
    const struct timespec at = {.tv_sec = (time_t)(until / CLOCK_SECOND), .tv_nsec = (long)(until % CLOCK_SECOND)};
    return pthread_cond_timedwait(&buffer->news, &buffer->lock, &at) == 0;
}

size_t trace_buffer_wait(struct trace_buffer *buffer, uint64_t patience_ns, const struct trace_record **records)
{
    pthread_mutex_lock(&buffer->lock);
    while (buffer->head == buffer->tail && !buffer->stopping)
        pthread_cond_wait(&buffer->news, &buffer->lock);
    const uint64_t until = clock_ns() + patience_ns;
    while (buffer->head - buffer->tail < TRACE_BATCH_RECORDS && !buffer->stopping)
        if (!wait_until(buffer, until))
            break;
    const size_t first = buffer->tail % TRACE_BUFFER_RECORDS;
    const size_t count =
        size_min(size_min(buffer->head - buffer->tail, TRACE_BATCH_RECORDS), TRACE_BUFFER_RECORDS - first);
    *records = &buffer->records[first];
    pthread_mutex_unlock(&buffer->lock);
    return count;
}

void trace_buffer_drop(struct trace_buffer *buffer, size_t count)
{
    pthread_mutex_lock(&buffer->lock);
    buffer->tail += count;
    pthread_mutex_unlock(&buffer->lock);
}

bool trace_buffer_sleep(struct trace_buffer *buffer, uint64_t until)
{
    pthread_mutex_lock(&buffer->lock);
    while (!buffer->stopping && clock_ns() < until)
        wait_until(buffer, until);
    const bool stopping = buffer->stopping;
    pthread_mutex_unlock(&buffer->lock);
    return !stopping;
}

void trace_buffer_stop(struct trace_buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    buffer->stopping = true;
    pthread_mutex_unlock(&buffer->lock);
    pthread_cond_broadcast(&buffer->news);
}
