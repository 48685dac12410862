/* The structures of requests that have ended, kept for those to come: a steady stream of requests allocates none. */
#ifndef ATTND_SERVER_REQUEST_STORE_H
#define ATTND_SERVER_REQUEST_STORE_H

#include <pthread.h>
#include <stddef.h>

struct request;

/* Never holds more than there were requests at once. Any thread. */
struct request_store {
    pthread_mutex_t lock;
    pthread_cond_t all_back;
    struct request *first;
    size_t taken;
};

void request_store_init(struct request_store *store);
/* Waits until every request is back: a worker may hold one for a moment longer than its connection is open. */
void request_store_free(struct request_store *store);

/* A request that is zero but for its target's buffer; NULL when memory ran out. */
struct request *request_store_take(struct request_store *store);
/* The request must hold nothing any more but that buffer. */
void request_store_put(struct request_store *store, struct request *request);

#endif
