/* The HTTP server: what main starts, drains and stops. */
#ifndef ATTND_SERVER_SERVER_H
#define ATTND_SERVER_SERVER_H

#include "base/error.h"
#include "config/config.h"
#include "runtime/arena_store.h"
#include "runtime/budget.h"
#include "runtime/pool.h"
#include "telemetry/tracer.h"
#include "weights/registry.h"

#include <stdbool.h>
#include <stddef.h>

struct server;

/* What the server works with; all of it must outlive the server, but for the registry. */
struct server_parts {
    const struct config *config;      /* as the process started; requests have their generation's (generation.h) */
    const struct config_flags *flags; /* with which it is read again */
    const struct weights_registry *registry; /* what was loaded; the server holds its sets */
    void (*reloading)(bool begins); /* told when everything is read again, and when that is over; may be NULL */
    struct memory_budget *budget;
    struct arena_store *arenas;
    struct pool *pool;
    struct tracer *tracer; /* NULL: no spans */
};

/* Whether the files are in order that the server reads beside weights: the token, the certificates. Adds a fault for
 * each that is not, and a warning for a certificate that clients will refuse. */
bool server_check(const struct config *config, struct faults *faults, struct faults *warnings);

/* Binds and listens on every configured address, starts libmicrohttpd's polling threads, the acceptor and the watchdog.
 * NULL on failure (ERROR_IO: a sentence that names the address and the remedy). */
struct server *server_start(const struct server_parts *parts, struct error *error);

/* The n-th address it listens on, as "127.0.0.1:8080" with the port that was really taken; NULL behind the last. */
const char *server_address(const struct server *server, size_t n);
/* Whether that is admin.listen's. */
bool server_address_is_admin(const struct server *server, size_t n);

/* Reads the configuration and all weights again, on a thread of its own. What it comes to is logged and counted. */
void server_reload(struct server *server);

/* Seconds that the drain is to take, as the configuration says now. */
double server_drain_delay(struct server *server);

/* Readiness fails from now on, and every answer asks its client to close; everything else goes on. */
void server_drain(struct server *server);

/* Takes what waits in the backlog, closes the listeners and the idle connections, answers every request that is here
 * (503 where its work has not begun), stops the threads and frees. The pool's queue is dropped, its workers still run.
 * server_stop(NULL) is fine. */
void server_stop(struct server *server);

#endif
