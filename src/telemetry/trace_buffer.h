/* The bounded buffer between the threads that end requests and the exporter: what does not fit is refused at once, and
 * nobody waits for the collector. One mutex, held for a copy of one record; only sampled requests come here. */
#ifndef ATTND_TELEMETRY_TRACE_BUFFER_H
#define ATTND_TELEMETRY_TRACE_BUFFER_H

#include "telemetry/trace_record.h"

#include <pthread.h>

/* What is exported at once, and what may wait. */
#define TRACE_BATCH_RECORDS  ((size_t)128)
#define TRACE_BUFFER_RECORDS ((size_t)1024)

struct trace_buffer {
    pthread_mutex_t lock;
    pthread_cond_t news;          /* CLOCK_MONOTONIC; for the exporter */
    struct trace_record *records; /* [TRACE_BUFFER_RECORDS] */
    size_t head, tail;            /* records ever put in and taken out */
    bool stopping;
};

/* False when memory ran out. */
bool trace_buffer_init(struct trace_buffer *buffer);
void trace_buffer_destroy(struct trace_buffer *buffer);

/* Any thread. False, and the record is lost, where the buffer is full. */
bool trace_buffer_put(struct trace_buffer *buffer, const struct trace_record *record);

/* The exporter: waits until there is a batch, or for `patience_ns` from the first record on, or until it is stopped.
 * Returns how many records there are (at most a batch, and as many as lie side by side) and where the first is: they
 * stay there until trace_buffer_drop. 0: it is stopped, and nothing is left. */
size_t trace_buffer_wait(struct trace_buffer *buffer, uint64_t patience_ns, const struct trace_record **records);
void trace_buffer_drop(struct trace_buffer *buffer, size_t count);

/* The exporter: sleeps until `until` (clock_ns). False: it was stopped. */
bool trace_buffer_sleep(struct trace_buffer *buffer, uint64_t until);

/* What is there may still be taken, waiting ends. */
void trace_buffer_stop(struct trace_buffer *buffer);

#endif
