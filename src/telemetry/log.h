/* The log: one line an event on stderr, written by a thread of its own, never blocking who logs.
 *
 * Lines go into a bounded ring; when nobody reads the other end and the ring is full, lines are dropped and counted,
 * and the next line that fits is preceded by one that says how many. The one global of the process besides the kernel
 * table: a log is needed where nothing can be passed. */
#ifndef ATTND_TELEMETRY_LOG_H
#define ATTND_TELEMETRY_LOG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_JSON, LOG_TEXT };

/* Starts the writer on `descriptor` (2). Before it, and after log_stop, log_event writes at once and may block. The
 * caller sees to it that SIGPIPE does not end the process then; the writer itself takes no signals. */
bool log_start(int descriptor, enum log_level level, enum log_format format, struct error *error);

/* From now on. Any thread. */
void log_set_level(enum log_level level);

/* Writes what is in the ring, for at most a second, and ends the writer. Where nobody reads, the rest is dropped, and
 * so is every later line. */
void log_stop(void);

/* Lines dropped since the start. */
uint64_t log_dropped(void);

bool log_level_from_name(const char *name, enum log_level *level);
bool log_format_from_name(const char *name, enum log_format *format);

/* One member of a line. Strings may be NULL: the member is left out. */
enum log_kind { LOG_KIND_STRING, LOG_KIND_INTEGER, LOG_KIND_NUMBER, LOG_KIND_BOOL, LOG_KIND_STRINGS };
struct log_field {
    const char *name;
    enum log_kind kind;
    union {
        const char *string;
        int64_t integer;
        double number; /* printed with up to 3 decimals */
        bool boolean;
        struct {
            const char *const *items;
            size_t count;
        } strings;
    };
};

#define LOG_STRING(n, v)  ((struct log_field){.name = (n), .kind = LOG_KIND_STRING, .string = (v)})
#define LOG_INTEGER(n, v) ((struct log_field){.name = (n), .kind = LOG_KIND_INTEGER, .integer = (int64_t)(v)})
#define LOG_NUMBER(n, v)  ((struct log_field){.name = (n), .kind = LOG_KIND_NUMBER, .number = (v)})
#define LOG_BOOL(n, v)    ((struct log_field){.name = (n), .kind = LOG_KIND_BOOL, .boolean = (v)})
#define LOG_STRINGS(n, v, c) \
    ((struct log_field){.name = (n), .kind = LOG_KIND_STRINGS, .strings = {.items = (v), .count = (c)}})

/* {"ts": "2026-01-31T12:00:00.123Z", "level", "event", fields...}; as text: "2026-01-31T12:00:00.123Z info listening
 * address=... ". Below the level: nothing. Strings are escaped; a line over 8 KiB has its longest strings cut. Any
 * thread; allocates nothing. */
void log_fields(enum log_level level, const char *event, const struct log_field *fields, size_t count);
#define log_event(level, event, ...)                                      \
    log_fields((level), (event), (const struct log_field[]){__VA_ARGS__}, \
               sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

#endif
