/* Reading small files whole: configurations, tokens, certificates. */
#ifndef ATTND_BASE_FILE_H
#define ATTND_BASE_FILE_H

#include "base/text.h"

#include <stddef.h>

/* Appends the file's bytes to `text`, at most `most` of them. 0, or errno: EFBIG when there are more, ETIMEDOUT when a
 * pipe whose writer says nothing was read. It never waits for long, whatever stands under that name: a thread that
 * others wait for may call it. */
int file_read(const char *path, size_t most, struct text *text);

#endif
