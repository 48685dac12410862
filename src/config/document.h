/* The configuration file while it is read: the JSON reader, and where its faults go.
 *
 * A wrong value does not end the reading: it is a fault, and the reader goes on behind it; so is a member given twice.
 * Bad syntax and a lack of memory end it: the functions here that return false have met one of these, and have added
 * the fault. */
#ifndef ATTND_CONFIG_DOCUMENT_H
#define ATTND_CONFIG_DOCUMENT_H

#include "base/error.h"
#include "config/faults.h"
#include "json/reader.h"

#include <stdbool.h>
#include <stddef.h>

struct document {
    struct json_reader reader;
    const char *file; /* as the user named it */
    struct faults *faults;
    const char *counted; /* the place whose line was asked for last */
    size_t counted_line; /* and its line */
};

void document_init(struct document *document, const char *file, const char *text, size_t length, struct faults *faults);

/* The line (from 1) of a place in the text. Quick when the places come in the text's order. */
size_t document_line(struct document *document, const char *place);

/* A fault on the line of `place`. pointer NULL: of the value that is being read. */
void document_fault(struct document *document, const char *place, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds what ended the reading. Always false. */
bool document_stop(struct document *document, const struct error *error);

/* json_next_member past members given twice, which are faults. JSON_FAILED: the reading is over. */
enum json_step document_next_member(struct document *document, struct json_key *key);

/* Passes the next value; its text is from *begin to *end. */
bool document_skip(struct document *document, const char **begin, const char **end);

/* True when the next value has this type; else it is passed and a fault on the line of `place` is added. *stopped: the
 * reading is over. */
bool document_expect(struct document *document, enum json_type type, const char *place, bool *stopped);

/* Reads a string into fresh memory; *string is NULL after a value that is none, which is a fault on the line of
 * `place`. */
bool document_string(struct document *document, const char *place, char **string);

/* What a message quotes of the value from `begin` to `end` into `shown` [EXCERPT_BYTES]: its text, or "an object", "an
 * array". */
void document_shown(char *shown, const char *begin, const char *end);

/* The fault of an unknown member, with the known name that is near or else all of them. */
bool document_unknown_key(struct document *document, const struct json_key *key, const char *const *known,
                          size_t count);

#endif
