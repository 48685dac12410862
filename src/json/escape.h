/* The inside of JSON strings: checked once, then read character by character with the escapes resolved. Any thread. */
#ifndef ATTND_JSON_ESCAPE_H
#define ATTND_JSON_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Passes the inside of a string from *at, just behind its opening quote, to its closing quote. On a fault *at is there
 * and what was expected is returned, else NULL. *escaped: whether there is an escape in it. */
const char *escape_check(const char **at, const char *end, bool *escaped);

/* The next character of a checked string: its UTF-8 (1..4 bytes) into `utf8`; returns the number of bytes and moves *at
 * behind it. */
size_t escape_next(const char **at, char utf8[4]);

#endif
