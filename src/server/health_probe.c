#include "server/health_probe.h"

#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Shorter than the timeout that container runtimes give a check by default (30 s), longer than a busy server's pause.
 */
#define TIMEOUT_S 5

static const char *reachable(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : strcmp(host, "::") == 0 ? "::1" : host;
}

static int connect_to(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int descriptor = -1;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EINVAL;
        return -1;
    }
    for (const struct addrinfo *info = found; info && descriptor < 0; info = info->ai_next) {
        descriptor = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0)
            continue;
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        if (connect(descriptor, info->ai_addr, info->ai_addrlen) != 0) {
            int number = errno;
            close(descriptor);
            descriptor = -1;
            errno = number;
        }
    }
    freeaddrinfo(found);
    return descriptor;
}

bool health_probe(const char *listen, struct error *error)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char *copy = strdup(listen), *host, *port, status[16] = "";
    if (!copy)
        return error_out_of_memory(error);
    int descriptor = -1;
    bool healthy = false;
    if (!listener_split(copy, &host, &port)) {
        error_set(error, ERROR_IO, "%s is no ADDRESS:PORT", listen);
        goto done;
    }
    descriptor = connect_to(reachable(host), port);
    if (descriptor < 0 || send(descriptor, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1) {
        error_set(error, ERROR_IO, "no server answers on %s: %s", listen, strerror(errno));
        goto done;
    }
    size_t got = 0;
    while (got < sizeof status - 1) {
        ssize_t more = recv(descriptor, status + got, sizeof status - 1 - got, 0);
        if (more <= 0)
            break;
        got += (size_t)more;
    }
    healthy = strncmp(status, "HTTP/1.1 200", strlen("HTTP/1.1 200")) == 0;
    if (!healthy)
        error_set(error, ERROR_IO, "the server on %s answers \"%s\" to GET /healthz, expected HTTP/1.1 200", listen,
                  status);
done:
    if (descriptor >= 0)
        close(descriptor);
    free(copy);
    return healthy;
}
