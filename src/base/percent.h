/* Percent-encoding (RFC 3986). Pure: any thread. */
#ifndef ATTND_BASE_PERCENT_H
#define ATTND_BASE_PERCENT_H

#include <stddef.h>

/* Decodes `from` [length] into `to` [capacity], which may be where `from` lies, with a NUL behind it. Returns what is
 * behind that NUL; NULL where a % stands before no two digits, for a NUL in the text, or where `to` is too small. */
char *percent_decode(const char *from, size_t length, char *to, size_t capacity);

#endif
