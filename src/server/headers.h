/* What the server wants to know of a request's headers. libmicrohttpd keeps them as a list that it walks for each
 * question; here it is walked once. */
#ifndef ATTND_SERVER_HEADERS_H
#define ATTND_SERVER_HEADERS_H

#include "server/accept_encoding.h"
#include "server/guard.h"
#include "server/media_type.h"

#include <microhttpd.h>
#include <stddef.h>

/* X(code, name) */
#define HEADERS(X)                                                 \
    X(HEADER_HOST, MHD_HTTP_HEADER_HOST)                           \
    X(HEADER_ACCEPT, MHD_HTTP_HEADER_ACCEPT)                       \
    X(HEADER_EXPECT, MHD_HTTP_HEADER_EXPECT)                       \
    X(HEADER_ORIGIN, MHD_HTTP_HEADER_ORIGIN)                       \
    X(HEADER_REQUEST_ID, "x-request-id")                           \
    X(HEADER_CONTENT_TYPE, MHD_HTTP_HEADER_CONTENT_TYPE)           \
    X(HEADER_CONTENT_LENGTH, MHD_HTTP_HEADER_CONTENT_LENGTH)       \
    X(HEADER_ACCEPT_ENCODING, MHD_HTTP_HEADER_ACCEPT_ENCODING)     \
    X(HEADER_CONTENT_ENCODING, MHD_HTTP_HEADER_CONTENT_ENCODING)   \
    X(HEADER_TRANSFER_ENCODING, MHD_HTTP_HEADER_TRANSFER_ENCODING) \
    X(HEADER_PROXY_TIMEOUT, "x-envoy-expected-rq-timeout-ms")      \
    X(HEADER_TRACEPARENT, "traceparent")                           \
    X(HEADER_TRACESTATE, "tracestate")                             \
    X(HEADER_INFERENCE_CONTENT_LENGTH, "Inference-Header-Content-Length")

#define HEADER_ENUM(code, name) code,
enum header { HEADERS(HEADER_ENUM) HEADER_COUNT };
#undef HEADER_ENUM

/* The lines of one name. The values are libmicrohttpd's, valid until the request ends. */
struct header_lines {
    unsigned count;
    const char *first, *last; /* NULL: none */
    size_t last_length;
};

struct headers {
    struct header_lines lines[HEADER_COUNT];
    struct accept accept;                   /* of all lines */
    struct accept_encoding accept_encoding; /* of all lines */
    struct strange_names strange;
};

/* Reads all headers of the connection's request into *headers, which is zero at first. */
void headers_read(struct headers *headers, struct MHD_Connection *mhd);

/* The value of the first line of this name; NULL: none. */
static inline const char *header_value(const struct headers *headers, enum header header)
{
    return headers->lines[header].first;
}

#endif
