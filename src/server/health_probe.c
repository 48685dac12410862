#include "server/health_probe.h"

#include "server/listener.h"
#include "server/tls.h"

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

/* How the bytes go: `session` where the server speaks TLS, else the socket itself. */
struct wire {
    int descriptor;
    struct tls *tls;
    gnutls_session_t session;
};

/* The server's certificate is not verified: it is our own server, at an address of this machine. What is shown is the
 * server's certificate, which it takes for its own. The socket's timeouts end what takes too long. */
static bool secure(struct wire *wire, const struct config *config, struct error *error)
{
    int failed;
    if (!tls_load(&wire->tls, config, error))
        return false;
    if (!wire->tls)
        return true;
    if ((failed = gnutls_init(&wire->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT)) < 0 ||
        (failed = gnutls_priority_set_direct(wire->session, TLS_PRIORITIES, NULL)) < 0 ||
        (failed = gnutls_credentials_set(wire->session, GNUTLS_CRD_CERTIFICATE, tls_credentials(wire->tls))) < 0)
        return error_set(error, ERROR_IO, "cannot begin a TLS session: %s", gnutls_strerror(failed));
    gnutls_transport_set_int(wire->session, wire->descriptor);
    do
        failed = gnutls_handshake(wire->session);
    while (failed == GNUTLS_E_INTERRUPTED || failed == GNUTLS_E_WARNING_ALERT_RECEIVED);
    return failed == 0 || error_set(error, ERROR_IO, "the TLS handshake failed: %s", gnutls_strerror(failed));
}

static bool send_all(const struct wire *wire, const char *text, size_t length)
{
    const ssize_t sent = wire->session ? gnutls_record_send(wire->session, text, length)
                                       : send(wire->descriptor, text, length, MSG_NOSIGNAL);
    return sent == (ssize_t)length;
}

static ssize_t receive(const struct wire *wire, char *to, size_t most)
{
    ssize_t got;
    do
        got = wire->session ? gnutls_record_recv(wire->session, to, most) : recv(wire->descriptor, to, most, 0);
    while (wire->session ? got == GNUTLS_E_INTERRUPTED : got < 0 && errno == EINTR); /* stopped, and gone on */
    return got;
}

static void end(struct wire *wire)
{
    if (wire->session)
        gnutls_deinit(wire->session);
    tls_release(wire->tls);
    if (wire->descriptor >= 0)
        close(wire->descriptor);
}

bool health_probe(const char *listen, const struct config *config, struct error *error)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char *copy = strdup(listen), *host, *port, status[16] = "";
    struct wire wire = {.descriptor = -1};
    struct error fault;
    if (!copy)
        return error_out_of_memory(error);
    bool healthy = false;
    if (!listener_split(copy, &host, &port)) {
        error_set(error, ERROR_IO, "%s is no ADDRESS:PORT", listen);
        goto done;
    }
    wire.descriptor = connect_to(reachable(host), port);
    if (wire.descriptor >= 0 && !secure(&wire, config, &fault)) {
        error_set(error, fault.code, "the server on %s: %s", listen, fault.message);
        goto done;
    }
    if (wire.descriptor < 0 || !send_all(&wire, request, sizeof request - 1)) {
        error_set(error, ERROR_IO, "no server answers on %s: %s", listen, strerror(errno));
        goto done;
    }
    size_t got = 0;
    while (got < sizeof status - 1) {
        ssize_t more = receive(&wire, status + got, sizeof status - 1 - got);
        if (more <= 0)
            break;
        got += (size_t)more;
    }
    healthy = strncmp(status, "HTTP/1.1 200", strlen("HTTP/1.1 200")) == 0;
    if (!healthy)
        error_set(error, ERROR_IO, "the server on %s answers \"%s\" to GET /healthz, expected HTTP/1.1 200", listen,
                  status);
done:
    end(&wire);
    free(copy);
    return healthy;
}
