#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that the kernel completes while the acceptor is busy; the kernel caps it at net.core.somaxconn. */
#define BACKLOG 4096

bool listener_split(char *copy, char **host, char **port)
{
    char *colon = strrchr(copy, ':');
    if (!colon)
        return false;
    *colon = '\0';
    *port = colon + 1;
    *host = copy;
    size_t length = strlen(copy);
    if (length >= 2 && copy[0] == '[' && copy[length - 1] == ']') {
        copy[length - 1] = '\0';
        *host = copy + 1;
    }
    return true;
}

static char *address_text(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?", text[INET6_ADDRSTRLEN + 16];
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0)
        return NULL;
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(text, sizeof text, "[%s]:%d", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, sizeof text, "%s:%d", host, ntohs(in->sin_port));
    }
    return strdup(text);
}

static const char *remedy(int number, bool admin)
{
    switch (number) {
    case EADDRINUSE:
        return admin ? "; something listens there already: admin.listen needs a port of its own (0 takes a free one)"
                     : "; another process listens there: stop it, or choose another port with --listen ADDRESS:PORT "
                       "(port 0 takes a free one)";
    case EACCES:
        return admin ? "; ports below 1024 need privileges: choose a higher one for admin.listen"
                     : "; ports below 1024 need privileges: choose a higher one with --listen ADDRESS:PORT";
    case EADDRNOTAVAIL:
        return admin ? "; this machine has no such address: check admin.listen or ATTND_ADMIN_LISTEN"
                     : "; this machine has no such address: check --listen, ATTND_LISTEN or the file's listen";
    default:
        return "";
    }
}

/* False, with errno, when memory ran out. */
static bool add(struct listeners *listeners, int descriptor, bool admin, bool given)
{
    char *address = address_text(descriptor);
    struct listener *grown = address ? realloc(listeners->items, (listeners->count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(address);
        errno = ENOMEM;
        return false;
    }
    listeners->items = grown;
    listeners->items[listeners->count++] =
        (struct listener){.descriptor = descriptor, .admin = admin, .given = given, .address = address};
    return true;
}

static bool open_one(struct listeners *listeners, const struct addrinfo *info, const char *wanted, bool admin,
                     struct error *error)
{
    int on = 1;
    int descriptor = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        goto fail;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* "[::]" and "0.0.0.0" may both be listed. */
    if (info->ai_family == AF_INET6)
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(descriptor, info->ai_addr, info->ai_addrlen) == 0 && listen(descriptor, BACKLOG) == 0 &&
        add(listeners, descriptor, admin, false))
        return true;

fail:;
    int number = errno;
    if (descriptor >= 0)
        close(descriptor);
    return error_set(error, ERROR_IO, "cannot listen on %s: %s%s", wanted, strerror(number), remedy(number, admin));
}

bool listeners_open(struct listeners *listeners, char *const *listen, size_t count, bool admin, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
        char *copy = strdup(listen[i]), *host, *port;
        if (!copy) {
            error_out_of_memory(error);
            goto fail;
        }
        int failed = listener_split(copy, &host, &port) ? getaddrinfo(host, port, &hints, &found) : EAI_NONAME;
        free(copy);
        if (failed) {
            error_set(error, ERROR_IO,
                      "cannot listen on %s: %s; expected ADDRESS:PORT, as in 127.0.0.1:8080 or [::1]:8080", listen[i],
                      gai_strerror(failed));
            goto fail;
        }
        bool opened = true;
        for (const struct addrinfo *info = found; info && opened; info = info->ai_next)
            opened = open_one(listeners, info, listen[i], admin, error);
        freeaddrinfo(found);
        if (!opened)
            goto fail;
    }
    return true;

fail:
    listeners_close(listeners);
    listeners_free(listeners);
    return false;
}

/* The value of an integer option of a socket; -1 where it has none. */
static int option_of(int descriptor, int option)
{
    int value;
    socklen_t length = sizeof value;
    return getsockopt(descriptor, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

bool listeners_adopt(struct listeners *listeners, int first, size_t count, struct error *error)
{
    memset(listeners, 0, sizeof *listeners);
    for (size_t i = 0; i < count; i++) {
        int descriptor = first + (int)i, family = option_of(descriptor, SO_DOMAIN);
        if (option_of(descriptor, SO_ACCEPTCONN) != 1 || option_of(descriptor, SO_TYPE) != SOCK_STREAM ||
            (family != AF_INET && family != AF_INET6)) {
            error_set(error, ERROR_IO,
                      "socket %d of the %zu that the service manager gives (LISTEN_FDS) is no TCP socket that listens; "
                      "expected ListenStream=ADDRESS:PORT and Accept=no in the socket unit",
                      descriptor, count);
            goto fail;
        }
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
        if (!add(listeners, descriptor, false, true)) {
            error_out_of_memory(error);
            goto fail;
        }
    }
    return true;

fail:
    listeners_close(listeners);
    listeners_free(listeners);
    return false;
}

void listeners_close(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->items[i].descriptor >= 0)
            close(listeners->items[i].descriptor);
        listeners->items[i].descriptor = -1;
    }
}

void listeners_free(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        free(listeners->items[i].address);
    free(listeners->items);
    *listeners = (struct listeners){0};
}
