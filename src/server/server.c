#include "server/server.h"

#include "base/clock.h"
#include "server/context.h"
#include "server/daemon.h"
#include "server/live_sets.h"
#include "server/usage.h"
#include "telemetry/log.h"

#include <stdlib.h>

struct server *server_start(const struct server_parts *parts, struct error *error)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server) {
        error_out_of_memory(error);
        return NULL;
    }
    server->parts = *parts;
    request_store_init(&server->requests);
    gzip_store_init(&server->gzip, (int)parts->config->compression.level);
    server->usage = usage_create(parts->registry->count);
    server->live = live_sets_create(&server->parts);
    if (!server->usage || !server->live) {
        error_out_of_memory(error);
        goto fail_memory;
    }
    if (!admin_load(&server->admin, parts->config, error))
        goto fail_memory;
    if (!listeners_open(&server->listeners, parts->config->listen, parts->config->listen_count, error))
        goto fail_memory;
    if (!connections_init(&server->connections)) {
        error_out_of_memory(error);
        goto fail_listeners;
    }
    if (!daemon_start(server, error))
        goto fail_connections;
    if (!watchdog_start(server, error))
        goto fail_daemon;
    if (!acceptor_start(server, error))
        goto fail_watchdog;
    return server;

fail_watchdog:
    watchdog_stop(server);
fail_daemon:
    daemon_stop(server);
fail_connections:
    connections_destroy(&server->connections);
fail_listeners:
    listeners_close(&server->listeners);
    listeners_free(&server->listeners);
fail_memory:
    admin_free(&server->admin);
    live_sets_free(server->live);
    gzip_store_free(&server->gzip);
    usage_free(server->usage);
    request_store_free(&server->requests);
    free(server);
    return NULL;
}

const char *server_address(const struct server *server, size_t n)
{
    return n < server->listeners.count ? server->listeners.items[n].address : NULL;
}

void server_drain(struct server *server)
{
    atomic_store(&server->state, SERVER_DRAINING);
}

void server_stop(struct server *server)
{
    if (!server)
        return;
    atomic_store(&server->state, SERVER_STOPPING);
    acceptor_stop(server);
    pool_drop_queued(server->parts.pool);
    /* Requests end by themselves: each phase has a deadline that the watchdog keeps. */
    while (!connections_close_idle(&server->connections))
        connections_wait(&server->connections, 10);
    watchdog_stop(server);
    daemon_stop(server);
    connections_destroy(&server->connections);
    listeners_free(&server->listeners);
    admin_free(&server->admin);
    live_sets_free(server->live);
    gzip_store_free(&server->gzip);
    usage_free(server->usage);
    request_store_free(&server->requests);
    free(server);
}
