/* Reading the configuration and the weights again while the server runs, on a thread of its own: all of it (SIGHUP), or
 * one weight set. What was read takes the place of what was there when it is whole; a fault in it leaves all as it was.
 */
#ifndef ATTND_SERVER_RELOAD_H
#define ATTND_SERVER_RELOAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct job;
struct request;
struct server;

/* For whoever shows them; read without a lock. */
struct reload_counts {
    _Atomic uint64_t succeeded, failed; /* of everything, and of one set */
    _Atomic uint64_t succeeded_ms;      /* when the last one did, or the server started: since the epoch */
};

struct reload {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of the next four */
    pthread_cond_t changed;
    bool wanted; /* everything, once, however often it was asked for */
    bool stop;
    struct job *first, *last; /* requests that wait for a weight set, suspended */
    struct reload_counts counts;
};

bool reload_start(struct server *server, struct error *error);
/* What runs comes to its end, what waits is answered with ERROR_DRAINING. Requests that come later too. */
void reload_drop_waiting(struct server *server);
void reload_stop(struct server *server);

/* Any thread: the configuration and all weights. */
void reload_all(struct server *server);
/* A polling thread: suspends the request, which is answered with its set's description or its fault. The set's name is
 * request->parameters[0]. */
void reload_weights(struct request *request);

#endif
