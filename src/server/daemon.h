/* libmicrohttpd: how it is started, and the callbacks by which it drives a request. All of them run on its polling
 * threads. */
#ifndef ATTND_SERVER_DAEMON_H
#define ATTND_SERVER_DAEMON_H

#include "base/error.h"

#include <stdbool.h>

struct server;

bool daemon_start(struct server *server, struct error *error);
/* No connection may be suspended: this version aborts the process otherwise. */
void daemon_stop(struct server *server);

#endif
