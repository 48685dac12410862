/* The framing guard: refuses what two HTTP parsers could read differently, before a byte of the body is taken.
 *
 * libmicrohttpd 0.9.75 takes two Content-Length headers, Content-Length beside Transfer-Encoding, or "Transfer-Encoding
 * : chunked", and can so be made to see another request than the proxy before it saw (RFC 9112, section 11.2). */
#ifndef ATTND_SERVER_GUARD_H
#define ATTND_SERVER_GUARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct headers;

/* What was found among the names of headers that nobody asks for. */
struct strange_names {
    char bad[48]; /* the first one with a character that no name has; "": none */
    bool folded;  /* one begins like a header that frames, and goes on */
};

/* For each header whose name is none of those that the server knows. *strange is zero at first. */
void guard_look_at_name(struct strange_names *strange, const char *name, size_t length);

/* ERROR_BAD_FRAMING says which header, and what is wrong with it. `version`: "HTTP/1.1". */
bool guard_check(const struct headers *headers, const char *version, struct error *error);

#endif
