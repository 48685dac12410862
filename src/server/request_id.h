/* The id by which a request is found in logs, answers and proxies. */
#ifndef ATTND_SERVER_REQUEST_ID_H
#define ATTND_SERVER_REQUEST_ID_H

#include <stdbool.h>

/* The longest id that is taken from a client, and a NUL. */
#define REQUEST_ID_BYTES 129

/* 32 hexadecimal digits, unique over servers and restarts. */
void request_id_make(char id[REQUEST_ID_BYTES]);

/* Copies a client's id when it is sane: 1 to 128 printable ASCII characters without spaces, quotes and backslashes, so
 * that it stands in a header, a log line and a document as it is. */
bool request_id_take(char id[REQUEST_ID_BYTES], const char *sent);

#endif
