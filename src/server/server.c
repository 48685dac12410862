#include "server/server.h"

#include "base/clock.h"
#include "runtime/service_manager.h"
#include "server/context.h"
#include "server/daemon.h"
#include "server/live_sets.h"
#include "server/request_counts.h"
#include "server/tls.h"
#include "server/usage.h"
#include "telemetry/log.h"
#include "telemetry/process_facts.h"

#include <stdlib.h>

bool server_check(const struct config *config, struct faults *faults, struct faults *warnings)
{
    struct error error;
    struct admin admin;
    struct tls *tls;
    const bool admitted = admin_load(&admin, config, &error);
    if (!admitted)
        config_fault(config, error.has_pointer ? error.pointer : NULL, error.message, faults);
    const bool secured = tls_load(&tls, config, &error);
    if (secured)
        tls_warn(tls, config, warnings);
    else
        config_fault(config, error.has_pointer ? error.pointer : NULL, error.message, faults);
    admin_free(&admin);
    tls_release(tls);
    return admitted && secured;
}

/* The first generation: what main has read and loaded. */
static bool start_generation(struct server *server, struct error *error)
{
    const struct server_parts *parts = &server->parts;
    struct weights_registry registry = {0};
    struct generation *first = NULL;
    struct settings *settings = settings_create(parts->config, NULL, error);
    if (!settings)
        return false;
    if (registry_copy(parts->registry, &registry))
        first = generation_create(settings, &registry, NULL);
    if (!first) {
        registry_free(&registry);
        settings_free(settings);
        return error_out_of_memory(error);
    }
    generations_init(&server->generations, parts->budget, first);
    return live_sets_update(server->live, parts->config, &first->registry) || error_out_of_memory(error);
}

static void free_memory(struct server *server)
{
    if (server->generations.current)
        generations_destroy(&server->generations);
    live_sets_free(server->live);
    request_counts_free(server->counts);
    gzip_store_free(&server->gzip);
    request_store_free(&server->requests);
    free(server);
}

/* The addresses of the configuration, or what a service manager has opened in their place. */
static bool open_listeners(struct server *server, struct error *error)
{
    const struct config *config = server->parts.config;
    int first;
    size_t given = service_manager_sockets(&first);
    const bool open = given ? listeners_adopt(&server->listeners, first, given, error)
                            : listeners_open(&server->listeners, config->listen, config->listen_count, false, error);
    return open && (!config->admin.listen || listeners_open(&server->listeners, &config->admin.listen, 1, true, error));
}

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
    server->live = live_sets_create(&server->parts);
    server->counts = request_counts_create((unsigned)parts->config->server.io_threads);
    server->started_s = process_started_s();
    if (!server->live || !server->counts) {
        error_out_of_memory(error);
        goto fail_memory;
    }
    if (!start_generation(server, error))
        goto fail_memory;
    if (!open_listeners(server, error))
        goto fail_listeners;
    if (!connections_init(&server->connections)) {
        error_out_of_memory(error);
        goto fail_listeners;
    }
    if (!daemon_start(server, error))
        goto fail_connections;
    if (!watchdog_start(server, error))
        goto fail_daemon;
    if (!reload_start(server, error))
        goto fail_watchdog;
    if (!acceptor_start(server, error))
        goto fail_reload;
    if (!heartbeat_start(server, error))
        goto fail_acceptor;
    return server;

fail_acceptor:
    acceptor_stop(server);
fail_reload:
    reload_stop(server);
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
    free_memory(server);
    return NULL;
}

const char *server_address(const struct server *server, size_t n)
{
    return n < server->listeners.count ? server->listeners.items[n].address : NULL;
}

bool server_address_is_admin(const struct server *server, size_t n)
{
    return server->listeners.items[n].admin;
}

void server_reload(struct server *server)
{
    reload_all(server);
}

double server_drain_delay(struct server *server)
{
    unsigned turn;
    const double delay = generations_enter(&server->generations, &turn)->config->server.drain_delay_s;
    generations_leave(&server->generations, turn);
    return delay;
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
    reload_drop_waiting(server);
    /* Requests end by themselves: each phase has a deadline that the watchdog keeps. */
    while (!connections_close_idle(&server->connections))
        connections_wait(&server->connections, 10);
    heartbeat_stop(server);
    reload_stop(server);
    watchdog_stop(server);
    daemon_stop(server);
    connections_destroy(&server->connections);
    listeners_free(&server->listeners);
    free_memory(server);
}
