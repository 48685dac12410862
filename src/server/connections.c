#include "server/connections.h"

#include "base/clock.h"
#include "server/tcp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

bool connections_init(struct connections *connections)
{
    pthread_condattr_t monotonic;
    memset(connections, 0, sizeof *connections);
    connections->next_wake = CLOCK_NEVER;
    if (pthread_mutex_init(&connections->lock, NULL) != 0)
        return false;
    if (pthread_condattr_init(&monotonic) != 0)
        goto fail_lock;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&connections->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!failed)
        return true;
fail_lock:
    pthread_mutex_destroy(&connections->lock);
    return false;
}

void connections_destroy(struct connections *connections)
{
    for (struct connection *c = connections->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    address_counts_free(&connections->from);
    free(connections->by_descriptor);
    pthread_cond_destroy(&connections->changed);
    pthread_mutex_destroy(&connections->lock);
}

static bool has_request(enum connection_phase phase)
{
    return phase >= CONNECTION_RECEIVING;
}

void connections_drop(struct connections *connections, struct connection *c)
{
    *(c->previous ? &c->previous->next : &connections->first) = c->next;
    *(c->next ? &c->next->previous : &connections->last) = c->previous;
    connections->by_descriptor[c->descriptor] = NULL;
    address_counts_remove(&connections->from, &c->address);
    connections->open -= !c->closing;
    if (has_request(c->phase))
        connections->requests--;
    if (connections->stopping)
        pthread_cond_broadcast(&connections->changed);
    free(c);
}

/* A polling thread takes a connection up as soon as it runs. */
#define HANDOVER_NS (5 * CLOCK_SECOND)

bool connections_add(struct connections *connections, int descriptor, const struct address *address, bool admin)
{
    struct connection *c = malloc(sizeof *c);
    const uint64_t now = clock_ns();
    if (!c)
        return false;
    *c = (struct connection){.descriptor = descriptor,
                             .phase = CONNECTION_HANDED_OVER,
                             .since = now,
                             .deadline = now + HANDOVER_NS,
                             .admin = admin,
                             .list = connections,
                             .address = *address};
    pthread_mutex_lock(&connections->lock);
    if ((size_t)descriptor >= connections->descriptors) {
        size_t wanted = 2 * ((size_t)descriptor + 32);
        struct connection **grown = realloc(connections->by_descriptor, wanted * sizeof *grown);
        if (!grown) {
            pthread_mutex_unlock(&connections->lock);
            free(c);
            return false;
        }
        memset(grown + connections->descriptors, 0, (wanted - connections->descriptors) * sizeof *grown);
        connections->by_descriptor = grown;
        connections->descriptors = wanted;
    }
    /* libmicrohttpd closes a socket without a word when its own allocation fails: the number comes back to us here. */
    if (connections->by_descriptor[descriptor])
        connections_drop(connections, connections->by_descriptor[descriptor]);
    if (!address_counts_add(&connections->from, address)) {
        pthread_mutex_unlock(&connections->lock);
        free(c);
        return false;
    }
    connections->by_descriptor[descriptor] = c;
    c->previous = connections->last;
    *(connections->last ? &connections->last->next : &connections->first) = c;
    connections->last = c;
    connections->open++;
    if (c->deadline < connections->next_wake)
        pthread_cond_broadcast(&connections->changed);
    pthread_mutex_unlock(&connections->lock);
    return true;
}

size_t connections_from(struct connections *connections, const struct address *address)
{
    pthread_mutex_lock(&connections->lock);
    const size_t count = address_counts_of(&connections->from, address);
    pthread_mutex_unlock(&connections->lock);
    return count;
}

void connections_forget(struct connections *connections, int descriptor)
{
    pthread_mutex_lock(&connections->lock);
    struct connection *c = connections->by_descriptor[descriptor];
    if (c && c->phase == CONNECTION_HANDED_OVER)
        connections_drop(connections, c);
    pthread_mutex_unlock(&connections->lock);
}

/* The caller holds the lock. */
static void enter_locked(struct connections *connections, struct connection *c, enum connection_phase phase,
                         uint64_t now, uint64_t deadline)
{
    connections->requests += has_request(phase);
    connections->requests -= has_request(c->phase);
    c->phase = phase;
    c->since = now;
    c->deadline = deadline;
    c->taken = 0;
    c->hastened = false;
    c->next_look = phase == CONNECTION_WORKING ? now + CONNECTION_LOOK_NS : CLOCK_NEVER;
    if ((c->next_look < deadline ? c->next_look : deadline) < connections->next_wake ||
        (connections->stopping && !has_request(phase)))
        pthread_cond_broadcast(&connections->changed);
}

struct connection *connections_started(struct connections *connections, int descriptor, struct tls *tls, uint64_t now,
                                       uint64_t handshake_deadline, uint64_t idle_deadline)
{
    const uint64_t deadline = handshake_deadline < idle_deadline ? handshake_deadline : idle_deadline;
    pthread_mutex_lock(&connections->lock);
    struct connection *c = descriptor >= 0 && (size_t)descriptor < connections->descriptors
                               ? connections->by_descriptor[descriptor]
                               : NULL;
    if (c) {
        enter_locked(connections, c, CONNECTION_IDLE, now, deadline);
        c->idle_deadline = idle_deadline;
        c->tls = tls;
    }
    pthread_mutex_unlock(&connections->lock);
    return c;
}

void connections_secured(struct connection *connection)
{
    pthread_mutex_lock(&connection->list->lock);
    if (connection->phase == CONNECTION_IDLE)
        connection->deadline = connection->idle_deadline;
    pthread_mutex_unlock(&connection->list->lock);
}

void connections_closed(struct connections *connections, struct connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    connections_drop(connections, connection);
    pthread_mutex_unlock(&connections->lock);
}

void connections_name(struct connections *connections, struct connection *connection, const char *request_id)
{
    pthread_mutex_lock(&connections->lock);
    request_id_take(connection->request_id, request_id);
    pthread_mutex_unlock(&connections->lock);
}

void connections_enter(struct connections *connections, struct connection *connection, enum connection_phase phase,
                       uint64_t now, uint64_t deadline)
{
    pthread_mutex_lock(&connections->lock);
    enter_locked(connections, connection, phase, now, deadline);
    pthread_mutex_unlock(&connections->lock);
}

void connections_begin(struct connections *connections, struct connection *connection, struct request *request,
                       const char request_id[REQUEST_ID_BYTES], uint64_t now, uint64_t deadline)
{
    pthread_mutex_lock(&connections->lock);
    connection->request = request;
    connection->used = true;
    memcpy(connection->request_id, request_id, sizeof connection->request_id);
    if (connection->closing) {
        /* It came in before reading ended: it has its deadlines like any other, and the connection ends behind its
         * answer. */
        connection->closing = false;
        connections->open++;
    }
    enter_locked(connections, connection, CONNECTION_RECEIVING, now, deadline);
    pthread_mutex_unlock(&connections->lock);
}

void connections_hasten(struct connections *connections, struct connection *connection, uint64_t deadline)
{
    pthread_mutex_lock(&connections->lock);
    if (deadline < connection->deadline) {
        connection->deadline = deadline;
        connection->hastened = true;
        if (deadline < connections->next_wake)
            pthread_cond_broadcast(&connections->changed);
    }
    pthread_mutex_unlock(&connections->lock);
}

void connections_received(struct connections *connections, struct connection *connection)
{
    pthread_mutex_lock(&connections->lock);
    connection->deadline = CLOCK_NEVER;
    pthread_mutex_unlock(&connections->lock);
}

bool connections_leave(struct connections *connections, struct connection *connection, uint64_t now,
                       uint64_t idle_deadline)
{
    pthread_mutex_lock(&connections->lock);
    bool broken_off = connection->broken_off;
    connection->request = NULL;
    enter_locked(connections, connection, CONNECTION_IDLE, now, idle_deadline);
    pthread_mutex_unlock(&connections->lock);
    return broken_off;
}

/* Reading ends, writing does not: a request whose bytes have arrived meanwhile is still read and answered, and then the
 * polling thread finds the end of the stream and closes. The caller holds the lock. */
static void end_reading(struct connections *connections, struct connection *c)
{
    c->closing = true;
    connections->open--;
    shutdown(c->descriptor, SHUT_RD);
}

/* Bytes that came in lately may be a request that the polling thread has read and not yet told us of. */
#define SETTLED_MS 50

/* Who has just gone through a handshake of TLS is about to send its first request. */
#define SETTLED_AFTER_HANDSHAKE_MS 500

/* Nothing waits to be read, and nothing came in for `settled_ms`. */
static bool has_nothing_to_read(int descriptor, uint32_t settled_ms)
{
    int waiting = 0;
    struct tcp_state state;
    if (ioctl(descriptor, FIONREAD, &waiting) == 0 && waiting > 0)
        return false;
    return !tcp_state(descriptor, &state) || state.received_ms_ago >= settled_ms;
}

bool connections_evict(struct connections *connections)
{
    struct connection *longest = NULL;
    pthread_mutex_lock(&connections->lock);
    for (struct connection *c = connections->first; c; c = c->next)
        if (c->phase == CONNECTION_IDLE && !c->closing && (!longest || c->since < longest->since) &&
            has_nothing_to_read(c->descriptor, 0))
            longest = c;
    if (longest)
        end_reading(connections, longest);
    pthread_mutex_unlock(&connections->lock);
    return longest != NULL;
}

bool connections_close_idle(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    connections->stopping = true;
    for (struct connection *c = connections->first; c; c = c->next)
        if (c->phase == CONNECTION_IDLE && !c->closing &&
            has_nothing_to_read(c->descriptor, c->tls && !c->used ? SETTLED_AFTER_HANDSHAKE_MS : SETTLED_MS))
            end_reading(connections, c);
    bool none = !connections->first;
    pthread_mutex_unlock(&connections->lock);
    return none;
}

void connections_wait(struct connections *connections, unsigned milliseconds)
{
    uint64_t until = clock_ns() + milliseconds * CLOCK_MILLISECOND;
    struct timespec deadline = {.tv_sec = (time_t)(until / CLOCK_SECOND), .tv_nsec = (long)(until % CLOCK_SECOND)};
    pthread_mutex_lock(&connections->lock);
    pthread_cond_timedwait(&connections->changed, &connections->lock, &deadline);
    pthread_mutex_unlock(&connections->lock);
}

struct connections_count connections_count(struct connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    struct connections_count count = {.open = connections->open, .requests = connections->requests};
    pthread_mutex_unlock(&connections->lock);
    return count;
}
