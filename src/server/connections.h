/* Every open connection: which phase its request is in and until when it may stay there.
 *
 * libmicrohttpd can neither cancel a connection nor time out a suspended one, and counts only in its own polling
 * threads. So we keep our own list: the acceptor adds to it, libmicrohttpd's callbacks move a connection through its
 * phases, and the watchdog closes what is too late by shutdown() on the socket. All under one lock, so that a socket is
 * never touched after it was closed. */
#ifndef ATTND_SERVER_CONNECTIONS_H
#define ATTND_SERVER_CONNECTIONS_H

#include "base/clock.h"
#include "server/address_counts.h"
#include "server/request_id.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;
struct tls;

enum connection_phase {
    CONNECTION_HANDED_OVER, /* accepted; a polling thread has not taken it up yet */
    CONNECTION_IDLE,        /* no request line since it was opened or since its last answer */
    CONNECTION_RECEIVING,   /* from the request line to the last byte of the body */
    CONNECTION_WORKING,     /* suspended: its job waits or runs */
    CONNECTION_ANSWERING    /* the answer is on its way */
};

/* While its job waits or runs, a connection is looked at this often: its client may have left. */
#define CONNECTION_LOOK_NS (100 * CLOCK_MILLISECOND)

struct connection {
    int descriptor;
    enum connection_phase phase;
    uint64_t since;         /* when the phase began; while answering, when the client last took something (clock_ns) */
    uint64_t deadline;      /* of the phase; CLOCK_NEVER: none */
    uint64_t next_look;     /* while working: when it is looked at again */
    uint64_t taken;         /* while answering: bytes that the client's side had acknowledged at `since` */
    bool closing;           /* shut down already; libmicrohttpd will notice */
    bool broken_off;        /* by the watchdog, in mid-upload */
    bool used;              /* it has brought a request */
    bool hastened;          /* the request's own word has made its deadline sooner */
    bool admin;             /* it came in by admin.listen */
    struct tls *tls;        /* held; NULL: it is not encrypted */
    uint64_t idle_deadline; /* for its first request, once the handshake is over */
    struct connections *list;
    struct address address;            /* of the client */
    struct request *request;           /* from RECEIVING to ANSWERING */
    char request_id[REQUEST_ID_BYTES]; /* the request's, for whoever breaks it off */
    struct connection *previous, *next;
};

struct connections {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC; a deadline came nearer, or a request ended while stopping */
    struct connection *first, *last;
    struct connection **by_descriptor; /* [descriptors] */
    size_t descriptors;
    size_t open;        /* in the list and not closing */
    size_t requests;    /* in RECEIVING, WORKING or ANSWERING */
    uint64_t next_wake; /* when the watchdog will look by itself */
    struct address_counts from;
    bool stopping;
};

bool connections_init(struct connections *connections);
void connections_destroy(struct connections *connections);

/* Acceptor: a new socket that is about to be handed to libmicrohttpd, from `address`; `admin`: it came in by
 * admin.listen. False when memory ran out. */
bool connections_add(struct connections *connections, int descriptor, const struct address *address, bool admin);
/* Open connections from there, those included that are closing. */
size_t connections_from(struct connections *connections, const struct address *address);
/* Ends the record; the caller holds the lock. For a connection that libmicrohttpd has not taken up in time too: it
 * closes a socket without a word where its own allocation fails, and then nobody else would ever end it. */
void connections_drop(struct connections *connections, struct connection *connection);
/* Acceptor: libmicrohttpd refused it. */
void connections_forget(struct connections *connections, int descriptor);

/* libmicrohttpd's notifications. connections_started returns NULL for a socket that we did not add; it
 * takes over the hold on `tls` (NULL: none) when it succeeds, which others see with the connection's first phase;
 * `handshake_deadline` holds until connections_secured, where it is sooner than the other. */
struct connection *connections_started(struct connections *connections, int descriptor, struct tls *tls, uint64_t now,
                                       uint64_t handshake_deadline, uint64_t idle_deadline);
void connections_secured(struct connection *connection);
void connections_closed(struct connections *connections, struct connection *connection);

/* Moves to `phase` with the deadline of that phase. `now`, here and elsewhere: clock_ns(), or it was lately. */
void connections_enter(struct connections *connections, struct connection *connection, enum connection_phase phase,
                       uint64_t now, uint64_t deadline);

/* A request line has come: its request goes with the connection from here until connections_leave. */
void connections_begin(struct connections *connections, struct connection *connection, struct request *request,
                       const char request_id[REQUEST_ID_BYTES], uint64_t now, uint64_t deadline);
/* By this id the request goes from here on. */
void connections_name(struct connections *connections, struct connection *connection, const char *request_id);
/* While receiving: the deadline is sooner than it was said to be. */
void connections_hasten(struct connections *connections, struct connection *connection, uint64_t deadline);
/* All was received: there is no deadline until the next phase. */
void connections_received(struct connections *connections, struct connection *connection);
/* The request is over, the connection idle. True when the watchdog broke it off in mid-upload. */
bool connections_leave(struct connections *connections, struct connection *connection, uint64_t now,
                       uint64_t idle_deadline);

/* Shuts down the connection that has been idle longest. False when none is idle. */
bool connections_evict(struct connections *connections);

/* Stopping: shuts down every connection without a request that has nothing left to read. True when no connection is
 * open any more. */
bool connections_close_idle(struct connections *connections);

/* Stopping: waits until a connection ends or becomes idle, for at most `milliseconds`. */
void connections_wait(struct connections *connections, unsigned milliseconds);

struct connections_count {
    size_t open, requests;
};
struct connections_count connections_count(struct connections *connections);

#endif
