#include "server/heartbeat.h"

#include "base/clock.h"
#include "runtime/service_manager.h"
#include "server/context.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Beats within the time that the manager waits for one: two may fail before it loses patience. */
#define BEATS 3

struct heartbeat_state {
    struct server *server;
    struct sockaddr_storage address; /* of the first listener */
    socklen_t length;
    uint64_t period_ns;
};

static int until_ms(uint64_t until)
{
    uint64_t now = clock_ns();
    return now >= until ? 0 : (int)((until - now) / CLOCK_MILLISECOND) + 1;
}

/* True when the other side ends the connection in time. */
static bool ends(int descriptor, uint64_t until)
{
    char thrown_away[4096];
    struct pollfd polled = {.fd = descriptor, .events = POLLIN};
    shutdown(descriptor, SHUT_WR);
    while (poll(&polled, 1, until_ms(until)) > 0)
        if (recv(descriptor, thrown_away, sizeof thrown_away, 0) <= 0)
            return true; /* reset counts too: somebody has looked at it */
    return false;
}

/* An address of all interfaces is reached on the loopback. */
static bool server_answers(const struct heartbeat_state *state)
{
    uint64_t until = clock_ns() + state->period_ns;
    int descriptor = socket(state->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return true; /* out of descriptors: the acceptor deals with that */
    struct pollfd polled = {.fd = descriptor, .events = POLLOUT};
    bool connected = connect(descriptor, (const struct sockaddr *)&state->address, state->length) == 0 ||
                     (errno == EINPROGRESS && poll(&polled, 1, until_ms(until)) > 0 && !(polled.revents & POLLERR));
    bool answers = connected && ends(descriptor, until);
    close(descriptor);
    return answers;
}

static void *heartbeat_main(void *argument)
{
    struct heartbeat_state *state = argument;
    struct server *server = state->server;
    struct pollfd wake = {.fd = server->heartbeat.wake, .events = POLLIN};
    int period_ms = (int)(state->period_ns / CLOCK_MILLISECOND);
    do
        /* While it stops, nobody is accepted any more; how long that may take is the manager's to say. */
        if (atomic_load(&server->state) == SERVER_STOPPING || server_answers(state))
            service_manager_notify("WATCHDOG=1");
    while (poll(&wake, 1, period_ms > 0 ? period_ms : 1) == 0);
    free(state);
    return NULL;
}

bool heartbeat_start(struct server *server, struct error *error)
{
    struct heartbeat *heartbeat = &server->heartbeat;
    uint64_t patience_ns = service_manager_watchdog_ns();
    if (!patience_ns || !server->listeners.count)
        return true;
    struct heartbeat_state *state = calloc(1, sizeof *state);
    if (!state)
        return error_out_of_memory(error);
    state->server = server;
    state->length = sizeof state->address;
    state->period_ns = patience_ns / BEATS > 3600 * CLOCK_SECOND ? 3600 * CLOCK_SECOND : patience_ns / BEATS;
    getsockname(server->listeners.items[0].descriptor, (struct sockaddr *)&state->address, &state->length);
    heartbeat->wake = eventfd(0, EFD_CLOEXEC);
    int failed = heartbeat->wake < 0 ? errno : pthread_create(&heartbeat->thread, NULL, heartbeat_main, state);
    if (failed) {
        if (heartbeat->wake >= 0)
            close(heartbeat->wake);
        free(state);
        return error_set(error, ERROR_IO, "cannot start the thread for the service manager: %s", strerror(failed));
    }
    heartbeat->started = true;
    return true;
}

void heartbeat_stop(struct server *server)
{
    struct heartbeat *heartbeat = &server->heartbeat;
    if (!heartbeat->started)
        return;
    eventfd_write(heartbeat->wake, 1);
    pthread_join(heartbeat->thread, NULL);
    close(heartbeat->wake);
    heartbeat->started = false;
}
