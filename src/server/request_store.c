#include "server/request_store.h"

#include "server/request.h"

#include <stdlib.h>

void request_store_init(struct request_store *store)
{
    pthread_mutex_init(&store->lock, NULL);
    store->first = NULL;
}

void request_store_free(struct request_store *store)
{
    while (store->first) {
        struct request *request = store->first;
        store->first = request->next_spare;
        free(request->target);
        free(request);
    }
    pthread_mutex_destroy(&store->lock);
}

struct request *request_store_take(struct request_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct request *request = store->first;
    if (request)
        store->first = request->next_spare;
    pthread_mutex_unlock(&store->lock);
    if (!request)
        return calloc(1, sizeof *request);
    *request = (struct request){.target = request->target, .target_capacity = request->target_capacity};
    return request;
}

void request_store_put(struct request_store *store, struct request *request)
{
    pthread_mutex_lock(&store->lock);
    request->next_spare = store->first;
    store->first = request;
    pthread_mutex_unlock(&store->lock);
}
