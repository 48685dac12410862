/* Places in documents. Apart from reader.h for those who include jansson, whose names clash with the reader's. */
#ifndef ATTND_JSON_POINTER_H
#define ATTND_JSON_POINTER_H

#include <stddef.h>

/* The JSON Pointer (RFC 6901) of a member of the root, whose name is plain text, cut where it does not fit; returns
 * `buffer`. */
char *json_pointer_of(const char *name, char *buffer, size_t size);

#endif
