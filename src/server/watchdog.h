/* The thread that keeps deadlines where libmicrohttpd keeps none: uploads, suspended requests, answers nobody reads,
 * idle connections. */
#ifndef ATTND_SERVER_WATCHDOG_H
#define ATTND_SERVER_WATCHDOG_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct request;
struct server;

struct watchdog {
    pthread_t thread;
    bool started;
    bool stop; /* under connections.lock */
};

bool watchdog_start(struct server *server, struct error *error);
void watchdog_stop(struct server *server);

/* What a client hears whose upload took too long; `hastened`: by its own word. Always false. */
bool watchdog_upload_error(const struct request *request, bool hastened, struct error *error);

#endif
