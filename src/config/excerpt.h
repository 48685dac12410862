/* A value as it stands in a message: short, on one line, valid UTF-8. */
#ifndef ATTND_CONFIG_EXCERPT_H
#define ATTND_CONFIG_EXCERPT_H

#include <stddef.h>

#define EXCERPT_BYTES 96

/* Writes text [length] into `to` [EXCERPT_BYTES], NUL-terminated: control characters and what is not UTF-8 become '?',
 * and a text that does not fit ends in "...". */
void excerpt_write(char *to, const char *text, size_t length);

#endif
