/* The listening sockets. Opened by main's thread before any other starts; then the acceptor's. */
#ifndef ATTND_SERVER_LISTENER_H
#define ATTND_SERVER_LISTENER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct listener {
    int descriptor; /* -1: closed */
    bool admin;     /* it is admin.listen's */
    bool given;     /* by a service manager, which keeps it open: what waits in its backlog is the successor's */
    char *address;  /* "127.0.0.1:8080", "[::1]:8080" */
};

struct listeners {
    struct listener *items; /* [count] */
    size_t count;
};

/* Zero-initialise *listeners. Opens one more socket for each address that `listen` [count] ("ADDRESS:PORT") resolves
 * to. ERROR_IO names the address that failed, why, and what to do. */
bool listeners_open(struct listeners *listeners, char *const *listen, size_t count, bool admin, struct error *error);

/* Takes the sockets first .. first + count - 1, which listen already. ERROR_IO names the one that is no TCP socket that
 * listens. */
bool listeners_adopt(struct listeners *listeners, int first, size_t count, struct error *error);

/* Closes the sockets; the addresses stay readable until listeners_free. */
void listeners_close(struct listeners *listeners);
void listeners_free(struct listeners *listeners);

/* Splits "[::1]:80" or "127.0.0.1:80" at its last colon; the parts point into `copy`, which is changed. False when
 * there is no port. */
bool listener_split(char *copy, char **host, char **port);

#endif
