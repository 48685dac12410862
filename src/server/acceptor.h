/* The thread that accepts connections for all listeners and hands them to libmicrohttpd.
 *
 * It is ours because libmicrohttpd stops accepting at its connection limit, so that probes hang, and when it is
 * quiesced, so that what waits in the backlog is lost. */
#ifndef ATTND_SERVER_ACCEPTOR_H
#define ATTND_SERVER_ACCEPTOR_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

struct acceptor {
    pthread_t thread;
    bool started;
    int wake; /* eventfd: stop */
    /* Connections for which there was no room, and those whose address had as many as it may have. */
    _Atomic uint64_t refused, refused_from;
};

bool acceptor_start(struct server *server, struct error *error);

/* Takes what waits in the backlog of the listeners that are only ours, closes the listeners, and ends the thread. */
void acceptor_stop(struct server *server);

#endif
