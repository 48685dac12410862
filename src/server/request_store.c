#include "server/request_store.h"

#include "server/request.h"

#include <stdlib.h>

void request_store_init(struct request_store *store)
{
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->all_back, NULL);
    store->first = NULL;
    store->taken = 0;
}

void request_store_free(struct request_store *store)
{
    pthread_mutex_lock(&store->lock);
    while (store->taken)
        pthread_cond_wait(&store->all_back, &store->lock);
    pthread_mutex_unlock(&store->lock);
    while (store->first) {
        struct request *request = store->first;
        store->first = request->next_spare;
        free(request->target);
        free(request);
    }
    pthread_cond_destroy(&store->all_back);
    pthread_mutex_destroy(&store->lock);
}

struct request *request_store_take(struct request_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct request *request = store->first;
    if (request)
        store->first = request->next_spare;
    store->taken++;
    pthread_mutex_unlock(&store->lock);
    if (request) {
        *request = (struct request){.target = request->target, .target_capacity = request->target_capacity};
        return request;
    }
    request = calloc(1, sizeof *request);
    if (!request) {
        pthread_mutex_lock(&store->lock);
        store->taken--;
        pthread_mutex_unlock(&store->lock);
    }
    return request;
}

void request_store_put(struct request_store *store, struct request *request)
{
    pthread_mutex_lock(&store->lock);
    request->next_spare = store->first;
    store->first = request;
    if (--store->taken == 0)
        pthread_cond_signal(&store->all_back);
    pthread_mutex_unlock(&store->lock);
}
