#include "server/daemon.h"

#include "base/clock.h"
#include "server/bare_answer.h"
#include "server/cors.h"
#include "server/request.h"
#include "server/request_counts.h"
#include "server/request_trace.h"
#include "server/routes.h"
#include "server/tls.h"
#include "server/usage.h"
#include "telemetry/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Our own acceptor keeps max_connections; evicted ones that libmicrohttpd has not closed yet stand beside them. Each
 * polling thread gets the whole number, since new connections go to threads by their descriptor and not by load. */
#define CONNECTION_SLACK 128

/* ---- the first call: headers only */

/* What an upload has, whatever deadline its proxy names. */
#define UPLOAD_LEAST_S 0.25

/* The proxy's own deadline, Envoy's way. 0 or not a number: ignored. */
static uint64_t proxy_deadline(const struct request *request)
{
    const char *sent = header_value(&request->headers, HEADER_PROXY_TIMEOUT);
    if (!sent || !*sent || strspn(sent, "0123456789") != strlen(sent) || strlen(sent) > 12)
        return CLOCK_NEVER;
    uint64_t milliseconds = strtoull(sent, NULL, 10);
    return milliseconds ? clock_ns() + milliseconds * CLOCK_MILLISECOND : CLOCK_NEVER;
}

/* It holds for the upload too, where it is the sooner one. A body that is on its way meanwhile is taken, so that who
 * sent it hears that the deadline passed, and not that the body was late. */
static void hasten(struct request *request)
{
    struct server *server = request->server;
    const uint64_t on_its_way = clock_after(request->arrived, UPLOAD_LEAST_S);
    request->proxy_deadline = proxy_deadline(request);
    const uint64_t deadline = request->proxy_deadline > on_its_way ? request->proxy_deadline : on_its_way;
    request->hastened = deadline < clock_after(request->arrived, request->generation->config->server.upload_timeout_s);
    if (request->hastened)
        connections_hasten(&server->connections, request->connection, deadline);
}

/* The form of the body. Without a Content-Type it is JSON. */
static bool check_content_type(struct request *request, struct error *error)
{
    const char *sent = header_value(&request->headers, HEADER_CONTENT_TYPE);
    if (sent && route_takes_octets(request->route) && (request->json_length != SIZE_MAX || media_type_is_octets(sent)))
        sent = NULL; /* JSON, with bytes behind it where its length was said */
    request->content = sent ? media_type_of(sent) : MEDIA_JSON;
    if (request->content != MEDIA_TYPE_COUNT && route_takes(request->route, request->content))
        return true;
    const bool both = route_takes(request->route, MEDIA_SAFETENSORS);
    return error_set(error, ERROR_UNSUPPORTED_MEDIA_TYPE,
                     "Content-Type \"%.100s\" is not supported; send application/json%s (with curl: -H "
                     "'Content-Type: application/json')",
                     sent, both ? " or application/x-safetensors" : "");
}

/* Length of the body that the headers announce; 0 for none, and for chunks. */
static size_t announced(const struct request *request)
{
    const char *sent = header_value(&request->headers, HEADER_CONTENT_LENGTH);
    if (!sent)
        return 0;
    errno = 0;
    unsigned long long length = strtoull(sent, NULL, 10);
    return errno || length > PTRDIFF_MAX ? PTRDIFF_MAX : (size_t)length;
}

static bool check_headers(struct request *request, struct error *error)
{
    const char *expect = header_value(&request->headers, HEADER_EXPECT);
    request->preflight = cors_is_preflight(request);
    if (!route_find(request, request->preflight ? cors_wanted_method(request) : request->method, error))
        return false;
    if (request->preflight) /* it brings no token */
        return admin_accept_place(request, error);
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return error_set(error, ERROR_EXPECTATION_FAILED, "the expectation \"%.64s\" is not known; 100-continue is",
                         expect);
    if (!route_accept(request, error))
        return false;
    if (!route_takes_body(request->route))
        return true;
    request->accepted = accept_choose(&request->headers.accept);
    /* What a route does not need has no type that could be wrong: `curl --data ''` names a form's. */
    const bool none = route_needs_no_body(request->route) && announced(request) == 0 &&
                      !header_value(&request->headers, HEADER_TRANSFER_ENCODING);
    if (!none && !check_content_type(request, error))
        return false;
    return content_coding_check_body(request, error) && request_expect_body(request, announced(request), error);
}

/* Answers before the body was read: libmicrohttpd closes the connection behind it. */
static enum MHD_Result answer_early(struct request *request)
{
    request->answered_early = true;
    request_fail(request, &request->refusal);
    return request_send(request);
}

static enum MHD_Result see_headers(struct request *request, const char *method, const char *version)
{
    headers_read(&request->headers, request->mhd);
    const char *id = header_value(&request->headers, HEADER_REQUEST_ID);
    request->headers_seen = true;
    request->method = method;
    request_trace_begin(request);
    request->takes_chunks = strcmp(version, MHD_HTTP_VERSION_1_0) != 0;
    if (id && request_id_take(request->id, id))
        connections_name(&request->server->connections, request->connection, id);
    hasten(request);
    content_coding_see_headers(request);
    if (!guard_check(&request->headers, version, &request->refusal))
        return answer_early(request);
    bool accepted = check_headers(request, &request->refusal);
    bool chunked = header_value(&request->headers, HEADER_TRANSFER_ENCODING);
    const bool sends = strcmp(method, MHD_HTTP_METHOD_POST) == 0 || strcmp(method, MHD_HTTP_METHOD_PUT) == 0;
    if (sends && !chunked &&
        !header_value(&request->headers, HEADER_CONTENT_LENGTH)) {
        /* Another parser may have seen a body where none is seen here: nothing more is read from this connection. */
        if (accepted)
            error_set(
                &request->refusal, ERROR_BAD_FRAMING,
                "a %s with neither Content-Length nor Transfer-Encoding; send one of them (with curl: --data TEXT, "
                "or --data '' where there is no body)",
                method);
        return answer_early(request);
    }
    if (accepted) {
        request->refusal.code = ERROR_NONE;
        return MHD_YES;
    }
    size_t length = announced(request);
    if ((length > 0 || chunked) && (header_value(&request->headers, HEADER_EXPECT) || length > REQUEST_MAX_DISCARDED))
        return answer_early(request);
    return MHD_YES; /* the answer follows once the body, which is thrown away, was read */
}

/* ---- the calls with data, and the last */

static gnutls_session_t session_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
}

/* No answer can be queued while a body is arriving: it is written to the socket as it is, and the connection closes. */
static enum MHD_Result break_off(struct request *request)
{
    request_fail(request, &request->refusal);
    bare_answer_send(request->connection->descriptor, request->connection->tls ? session_of(request->mhd) : NULL,
                     &request->refusal, request->id, request->problem_form);
    return MHD_NO;
}

static enum MHD_Result see_data(struct request *request, const char *data, size_t length)
{
    request->bytes_in += length;
    if (request->refusal.code == ERROR_NONE && route_takes_body(request->route) && !request->preflight)
        return request_add_body(request, data, length, &request->refusal) ? MHD_YES : break_off(request);
    if (request->bytes_in <= REQUEST_MAX_DISCARDED)
        return MHD_YES;
    if (request->refusal.code == ERROR_NONE)
        error_set(&request->refusal, ERROR_TOO_LARGE, "%s takes no body", route_pattern(request->route));
    return break_off(request);
}

/* The body is here, as the client had it before it was compressed. */
static enum MHD_Result see_body(struct request *request)
{
    route_handle(request);
    /* A job that was queued may be over already: what it has filled is read when the connection was resumed, not
     * before. */
    return request->submitted || content_coding_shorten_later(request) ? MHD_YES : request_send(request);
}

static enum MHD_Result see_end(struct request *request)
{
    const struct config *config = request->generation->config;
    request->body_came = clock_ns();
    if (request->hastened)
        connections_received(&request->server->connections, request->connection);
    uint64_t own_deadline = clock_after(request->body_came, config->server.request_timeout_s);
    request->deadline = request->proxy_deadline < own_deadline ? request->proxy_deadline : own_deadline;
    if (request->refusal.code != ERROR_NONE)
        request_fail(request, &request->refusal);
    else if (request->preflight)
        cors_answer_preflight(request);
    else if (content_coding_open_body(request))
        return see_body(request);
    return request->submitted ? MHD_YES : request_send(request);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                              const char *version, const char *upload_data, size_t *upload_data_size, void **state)
{
    struct request *request = *state;
    (void)context;
    (void)url; /* percent-decoded: routes are matched on the raw target */
    if (!request)
        return MHD_NO; /* memory ran out at the request line */
    if (!request->headers_seen) {
        request->mhd = mhd;
        return see_headers(request, method, version);
    }
    if (*upload_data_size) {
        size_t length = *upload_data_size;
        *upload_data_size = 0;
        return see_data(request, upload_data, length);
    }
    if (!request->submitted)
        return see_end(request);
    return content_coding_opened(request) ? see_body(request) : request_send(request);
}

/* ---- beginnings and ends */

static void *see_request_line(void *context, const char *uri, struct MHD_Connection *mhd)
{
    struct server *server = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    struct request *request = connection ? request_create(server, uri) : NULL;
    if (!request)
        return NULL;
    request->connection = connection;
    connections_begin(&server->connections, connection, request, request->id, request->arrived,
                      clock_after(request->arrived, request->generation->config->server.upload_timeout_s));
    return request;
}

static void see_completion(void *context, struct MHD_Connection *mhd, void **state,
                           enum MHD_RequestTerminationCode reason)
{
    struct server *server = context;
    struct request *request = *state;
    (void)mhd;
    if (!request)
        return;
    *state = NULL;
    const uint64_t now = clock_ns();
    bool broken_off = connections_leave(&server->connections, request->connection, now,
                                        clock_after(now, request->generation->config->server.idle_timeout_s));
    if (!request->answer.status && broken_off) {
        struct error error;
        watchdog_upload_error(request, request->hastened, &error);
        request_fail(request, &error);
    }
    const bool sent = reason == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    usage_end(request, now);
    request_trace_end(request, now, sent);
    request_counts_add(server->counts, request, now, sent);
    request_log(request, now, sent);
    request_end(request);
}

static struct connection *begin_connection(struct server *server, struct MHD_Connection *mhd, int descriptor)
{
    unsigned turn;
    const struct generation *generation = generations_enter(&server->generations, &turn);
    const struct config *config = generation->config;
    struct tls *tls = tls_hold(generation->settings->tls);
    const uint64_t now = clock_ns();
    struct connection *connection =
        connections_started(&server->connections, descriptor, tls, now,
                            tls ? clock_after(now, config->server.upload_timeout_s) : CLOCK_NEVER,
                            clock_after(now, config->server.idle_timeout_s));
    if (!connection)
        tls_release(tls);
    else if (tls)
        tls_begin(tls, session_of(mhd), connection);
    generations_leave(&server->generations, turn);
    return connection;
}

static void see_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    struct server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = info ? begin_connection(server, mhd, info->connect_fd) : NULL;
    } else if (*socket_context) {
        struct tls *tls = ((struct connection *)*socket_context)->tls;
        connections_closed(&server->connections, *socket_context);
        tls_release(tls); /* the session is over */
        *socket_context = NULL;
    }
}

static void log_line(void *context, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
static void log_line(void *context, const char *format, va_list arguments)
{
    char text[256];
    (void)context;
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_DEBUG, "libmicrohttpd", LOG_STRING("message", text));
}

bool daemon_start(struct server *server, struct error *error)
{
    const struct config *config = server->parts.config;
    unsigned threads = (unsigned)config->server.io_threads;
    unsigned limit = ((unsigned)config->server.max_connections + CONNECTION_SLACK) * threads;
    const bool tls = config->tls.cert_file != NULL;
    struct MHD_OptionItem options[4] = {{MHD_OPTION_END, 0, NULL}};
    size_t n_options = 0;
    if (threads > 1) /* a pool of one is refused; without a pool there is one thread */
        options[n_options++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, threads, NULL};
    if (tls) {
        options[n_options++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)TLS_PRIORITIES};
        options[n_options++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)tls_no_certificate};
    }
    options[n_options] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    server->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG |
            (tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_URI_LOG_CALLBACK, see_request_line, server, MHD_OPTION_NOTIFY_COMPLETED, see_completion, server,
        MHD_OPTION_NOTIFY_CONNECTION, see_connection, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (!server->daemon)
        return error_set(error, ERROR_IO, "cannot start libmicrohttpd: %s", strerror(errno));
    return true;
}

void daemon_stop(struct server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}
