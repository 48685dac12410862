/* The framing guard: refuses what two HTTP parsers could read differently, before a byte of the body is taken.
 *
 * libmicrohttpd 0.9.75 takes two Content-Length headers, Content-Length beside Transfer-Encoding, or "Transfer-Encoding
 * : chunked", and can so be made to see another request than the proxy before it saw (RFC 9112, section 11.2). */
#ifndef ATTND_SERVER_GUARD_H
#define ATTND_SERVER_GUARD_H

#include "base/error.h"

#include <microhttpd.h>
#include <stdbool.h>

/* ERROR_BAD_FRAMING says which header, and what is wrong with it. `version`: "HTTP/1.1". */
bool guard_check(struct MHD_Connection *mhd, const char *version, struct error *error);

#endif
