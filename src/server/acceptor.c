#include "server/acceptor.h"

#include "base/clock.h"
#include "server/bare_answer.h"
#include "server/context.h"
#include "telemetry/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Refused connections whose clients may still be sending: closing a socket with unread bytes resets it, and the client
 * would never read why it was refused. So they are read for a moment. */
#define LINGERING    64
#define LINGERING_NS (500 * CLOCK_MILLISECOND)

/* Connections taken from one listener before the others have their turn. */
#define ACCEPT_BATCH 64

struct lingering {
    int descriptor; /* -1: free */
    uint64_t until;
};

struct acceptor_state {
    struct server *server;
    struct pollfd *polled; /* [listeners.count + 1]: the listeners, then the wake-up */
    struct lingering lingering[LINGERING];
    bool out_of_descriptors;
};

static void linger(struct acceptor_state *state, int descriptor)
{
    struct lingering *place = &state->lingering[0];
    for (size_t i = 1; i < LINGERING && place->descriptor >= 0; i++)
        if (state->lingering[i].descriptor < 0 || state->lingering[i].until < place->until)
            place = &state->lingering[i];
    if (place->descriptor >= 0)
        close(place->descriptor);
    shutdown(descriptor, SHUT_WR);
    *place = (struct lingering){.descriptor = descriptor, .until = clock_ns() + LINGERING_NS};
}

/* True while any is left. */
static bool tend_lingering(struct acceptor_state *state)
{
    char thrown_away[4096];
    uint64_t now = clock_ns();
    bool left = false;
    for (size_t i = 0; i < LINGERING; i++) {
        struct lingering *l = &state->lingering[i];
        if (l->descriptor < 0)
            continue;
        ssize_t got = recv(l->descriptor, thrown_away, sizeof thrown_away, MSG_DONTWAIT);
        if (now >= l->until || got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            close(l->descriptor);
            l->descriptor = -1;
        }
        left |= l->descriptor >= 0;
    }
    return left;
}

/* Its request is not read. Over TLS nothing can be said either. */
static void refuse(struct acceptor_state *state, int descriptor, const struct error *error)
{
    if (!state->server->parts.config->tls.cert_file)
        bare_answer_send(descriptor, NULL, error, NULL, PROBLEM_DETAILS);
    linger(state, descriptor);
}

static void count_refused(_Atomic uint64_t *refused)
{
    atomic_fetch_add_explicit(refused, 1, memory_order_relaxed);
}

/* Whether there is a place for one more, from this address; it may be made by closing an idle connection. */
static bool find_place(struct server *server, const struct address *from, struct error *error)
{
    const size_t limit = (size_t)server->parts.config->server.max_connections;
    unsigned turn;
    const struct config *config = generations_enter(&server->generations, &turn)->config;
    const size_t limit_from = (size_t)config->server.max_connections_per_address;
    generations_leave(&server->generations, turn);
    if (limit_from && connections_from(&server->connections, from) >= limit_from) {
        count_refused(&server->acceptor.refused_from);
        return error_set(error, ERROR_NOT_READY,
                         "this address has %zu connections already (server.max_connections_per_address); use those",
                         limit_from);
    }
    if (connections_count(&server->connections).open >= limit && !connections_evict(&server->connections)) {
        count_refused(&server->acceptor.refused);
        return error_set(error, ERROR_NOT_READY,
                         "all %zu connections are busy (server.max_connections); try again later or on another replica",
                         limit);
    }
    return true;
}

static void take_up(struct acceptor_state *state, int descriptor, bool admin, const struct sockaddr *address,
                    socklen_t length)
{
    struct server *server = state->server;
    const struct address from = address_of(address);
    struct error error;
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!find_place(server, &from, &error)) {
        refuse(state, descriptor, &error);
        return;
    }
    if (!connections_add(&server->connections, descriptor, &from, admin)) {
        close(descriptor);
        return;
    }
    if (MHD_add_connection(server->daemon, descriptor, address, length) != MHD_YES) /* it closes the socket */
        connections_forget(&server->connections, descriptor);
}

/* True when the listener may have more. */
static bool accept_some(struct acceptor_state *state, const struct listener *listener)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int descriptor =
            accept4(listener->descriptor, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0) {
            state->out_of_descriptors = false;
            take_up(state, descriptor, listener->admin, (struct sockaddr *)&address, length);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (!state->out_of_descriptors)
                log_event(LOG_WARNING, "accept_failed", LOG_STRING("reason", strerror(errno)),
                          LOG_STRING("remedy", "raise the limit of open files, or lower server.max_connections"));
            state->out_of_descriptors = true;
            connections_evict(&state->server->connections);
        }
        return false;
    }
    return true;
}

static void *acceptor_main(void *argument)
{
    struct acceptor_state *state = argument;
    struct server *server = state->server;
    struct listeners *listeners = &server->listeners;
    size_t count = listeners->count;
    struct pollfd *polled = state->polled;
    for (size_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = listeners->items[i].descriptor, .events = POLLIN};
    polled[count] = (struct pollfd){.fd = server->acceptor.wake, .events = POLLIN};

    bool lingers = false;
    while (!(polled[count].revents & POLLIN)) {
        /* Out of descriptors the listeners stay readable: look again when something may have closed, not in a circle.
         */
        if (state->out_of_descriptors)
            usleep(20000);
        poll(polled, count + 1, lingers ? 20 : -1);
        for (size_t i = 0; i < count; i++)
            if (polled[i].revents)
                accept_some(state, &listeners->items[i]);
        lingers = tend_lingering(state);
    }
    /* What clients have opened before the listeners close is served: here, or by who gets the listener next. */
    for (size_t i = 0; i < count; i++)
        while (!listeners->items[i].given && accept_some(state, &listeners->items[i]))
            ;
    listeners_close(listeners);
    while (tend_lingering(state)) /* each has its own end */
        usleep(10000);
    free(polled);
    free(state);
    return NULL;
}

bool acceptor_start(struct server *server, struct error *error)
{
    struct acceptor *acceptor = &server->acceptor;
    struct acceptor_state *state = calloc(1, sizeof *state);
    struct pollfd *polled = calloc(server->listeners.count + 1, sizeof *polled);
    acceptor->wake = -1;
    if (!state || !polled) {
        error_out_of_memory(error);
        goto fail;
    }
    state->server = server;
    state->polled = polled;
    for (size_t i = 0; i < LINGERING; i++)
        state->lingering[i].descriptor = -1;
    acceptor->wake = eventfd(0, EFD_CLOEXEC);
    if (acceptor->wake < 0) {
        error_set(error, ERROR_IO, "cannot make an eventfd: %s", strerror(errno));
        goto fail;
    }
    int failed = pthread_create(&acceptor->thread, NULL, acceptor_main, state);
    if (failed) {
        error_set(error, ERROR_IO, "cannot start the accepting thread: %s", strerror(failed));
        goto fail;
    }
    acceptor->started = true;
    return true;

fail:
    if (acceptor->wake >= 0)
        close(acceptor->wake);
    free(polled);
    free(state);
    return false;
}

void acceptor_stop(struct server *server)
{
    struct acceptor *acceptor = &server->acceptor;
    if (!acceptor->started)
        return;
    eventfd_write(acceptor->wake, 1);
    pthread_join(acceptor->thread, NULL);
    close(acceptor->wake);
    acceptor->started = false;
}
