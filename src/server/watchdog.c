#include "server/watchdog.h"

#include "base/clock.h"
#include "server/bare_answer.h"
#include "server/context.h"
#include "server/request.h"
#include "server/tcp.h"

#include <string.h>
#include <sys/socket.h>

/* Answers under way are looked at this often, and nothing is looked at less often. */
#define LOOK_NS CLOCK_SECOND

static void close_now(struct connections *connections, struct connection *c)
{
    c->closing = true;
    connections->open--;
    shutdown(c->descriptor, SHUT_RDWR);
}

bool watchdog_upload_error(const struct request *request, bool hastened, struct error *error)
{
    if (hastened)
        return error_set(
            error, ERROR_UPLOAD_TIMEOUT,
            "the request was not whole within x-envoy-expected-rq-timeout-ms; send it faster, or allow more "
            "time");
    return error_set(error, ERROR_UPLOAD_TIMEOUT,
                     "the request was not whole within server.upload_timeout_s (%g s); send it faster, or less at once",
                     request->generation->config->server.upload_timeout_s);
}

/* The upload was too slow. The polling thread has no answer under way while it reads, so the socket is free for one of
 * ours; a session of TLS is not. */
static void break_off(struct server *server, struct connection *c)
{
    struct error error;
    watchdog_upload_error(c->request, c->hastened, &error);
    if (!c->tls)
        bare_answer_send(c->descriptor, NULL, &error, c->request_id, c->request->problem_form);
    c->broken_off = true;
    close_now(&server->connections, c);
}

/* Takes a job that waits for its turn out of the queue, and puts it on *withdrawn. One that runs looks at its deadline
 * and its client itself. */
static void withdraw(struct server *server, struct connection *c, struct job **withdrawn)
{
    struct job *job = &c->request->job;
    if (!pool_withdraw(server->parts.pool, job))
        return;
    job->next = *withdrawn;
    *withdrawn = job;
}

/* The client of a job has left: others may have its place in the queue. */
static bool client_left(struct connection *c, uint64_t now)
{
    struct tcp_state state;
    if (c->phase != CONNECTION_WORKING || now < c->next_look)
        return false;
    c->next_look = now + CONNECTION_LOOK_NS;
    return tcp_state(c->descriptor, &state) && !state.open;
}

/* Looks at one connection; the lock is held. A job that was withdrawn is put on *withdrawn. False when the connection
 * is no more. */
static bool look_at(struct server *server, struct connection *c, uint64_t now, struct job **withdrawn)
{
    /* libmicrohttpd says nothing of an answer's progress; the kernel knows what the client's side has taken. */
    struct tcp_state state;
    if (c->phase == CONNECTION_ANSWERING && tcp_state(c->descriptor, &state) && state.acknowledged != c->taken) {
        c->taken = state.acknowledged;
        c->since = now;
        c->deadline = clock_after(now, c->request->generation->config->server.send_timeout_s);
    }
    if (client_left(c, now))
        withdraw(server, c, withdrawn);
    if (now < c->deadline)
        return true;
    switch (c->phase) {
    case CONNECTION_HANDED_OVER:
        connections_drop(&server->connections, c);
        return false;
    case CONNECTION_IDLE:
    case CONNECTION_ANSWERING:
        close_now(&server->connections, c);
        break;
    case CONNECTION_RECEIVING:
        break_off(server, c);
        break;
    case CONNECTION_WORKING:
        withdraw(server, c, withdrawn);
        c->deadline = CLOCK_NEVER;
        break;
    }
    return true;
}

static void answer_withdrawn(struct job *withdrawn)
{
    while (withdrawn) {
        struct request *request = request_of_job(withdrawn);
        struct error error;
        withdrawn = withdrawn->next;
        request_lapsed(request, clock_ns(), true, &error);
        request_fail(request, &error);
        request_resume(request);
    }
}

static void *watchdog_main(void *argument)
{
    struct server *server = argument;
    struct connections *connections = &server->connections;
    pthread_mutex_lock(&connections->lock);
    while (!server->watchdog.stop) {
        struct job *withdrawn = NULL;
        uint64_t now = clock_ns(), wake = CLOCK_NEVER;
        for (struct connection *c = connections->first, *next; c; c = next) {
            next = c->next;
            if (c->closing || !look_at(server, c, now, &withdrawn))
                continue;
            if (c->deadline < wake)
                wake = c->deadline;
            if (c->phase == CONNECTION_WORKING && c->next_look < wake)
                wake = c->next_look;
            if (c->phase == CONNECTION_ANSWERING && now + LOOK_NS < wake)
                wake = now + LOOK_NS;
        }
        if (withdrawn) {
            pthread_mutex_unlock(&connections->lock);
            answer_withdrawn(withdrawn);
            pthread_mutex_lock(&connections->lock);
            continue;
        }
        connections->next_wake = wake;
        if (wake == CLOCK_NEVER) {
            pthread_cond_wait(&connections->changed, &connections->lock);
        } else {
            struct timespec until = {.tv_sec = (time_t)(wake / CLOCK_SECOND), .tv_nsec = (long)(wake % CLOCK_SECOND)};
            pthread_cond_timedwait(&connections->changed, &connections->lock, &until);
        }
    }
    pthread_mutex_unlock(&connections->lock);
    return NULL;
}

bool watchdog_start(struct server *server, struct error *error)
{
    int failed = pthread_create(&server->watchdog.thread, NULL, watchdog_main, server);
    if (failed)
        return error_set(error, ERROR_IO, "cannot start the watchdog thread: %s", strerror(failed));
    server->watchdog.started = true;
    return true;
}

void watchdog_stop(struct server *server)
{
    if (!server->watchdog.started)
        return;
    pthread_mutex_lock(&server->connections.lock);
    server->watchdog.stop = true;
    pthread_cond_broadcast(&server->connections.changed);
    pthread_mutex_unlock(&server->connections.lock);
    pthread_join(server->watchdog.thread, NULL);
    server->watchdog.started = false;
}
