/* The thread that tells a service manager that the server answers (WATCHDOG=1).
 *
 * It connects to the server's own listener, says nothing, and waits for the connection's end: so acceptor, polling
 * threads and their locks have done their work, over TLS too, and no request is counted. Started only where a manager
 * wants to hear; where the server stands still it goes quiet, and the manager starts another. */
#ifndef ATTND_SERVER_HEARTBEAT_H
#define ATTND_SERVER_HEARTBEAT_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct server;

struct heartbeat {
    pthread_t thread;
    bool started;
    int wake; /* eventfd: stop */
};

/* The acceptor and the polling threads run already. */
bool heartbeat_start(struct server *server, struct error *error);
void heartbeat_stop(struct server *server);

#endif
