/* One line of the log, as JSON or as text, into a buffer of fixed size. Any thread; allocates nothing, whatever the
 * locale. */
#ifndef ATTND_TELEMETRY_LOG_FORMAT_H
#define ATTND_TELEMETRY_LOG_FORMAT_H

#include "telemetry/log.h"

#include <time.h>

/* The longest line, with its newline. */
#define LOG_LINE_BYTES ((size_t)8192)

/* Writes the line and its newline to `line` [LOG_LINE_BYTES] and returns its length. Where it would be longer, its
 * longest strings are cut (and end in an ellipsis); fields that do not fit even then are left out. `now` is
 * CLOCK_REALTIME. */
size_t log_format_line(char *line, enum log_format format, const struct timespec *now, enum log_level level,
                       const char *event, const struct log_field *fields, size_t count);

const char *log_level_name(enum log_level level);

#endif
