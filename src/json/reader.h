/* A strict, pull-style JSON reader (RFC 8259) over a text that is whole in memory.
 *
 * It is the one reader of requests and configuration: both need the place of a fault (a JSON Pointer, a line), and
 * tensors are read by other code from the very bytes (`at`). It allocates nothing but the copies of json_read_string
 * and json_key_copy (so a reader can be copied to look ahead, and needs no destructor), and never recurses.
 *
 * Usage: every value is either read by the function for its type, entered (object, array) and walked to its end, or
 * skipped:
 *
 *     if (!json_enter_object(r, error)) return false;
 *     struct json_key key;
 *     enum json_step step;
 *     while ((step = json_next_member(r, &key, error)) == JSON_ITEM) { ... read exactly one value ... }
 *     if (step == JSON_FAILED) return false;
 *
 * Errors: ERROR_NOT_JSON for bad syntax (bad UTF-8, bad escapes, lone surrogates, control characters in strings,
 * trailing text, depth over JSON_MAX_DEPTH outside a tensor ...), ERROR_DUPLICATE_MEMBER from json_next_member,
 * ERROR_INVALID for a value of another type ("expected a string, got a number"). Each carries the pointer of the place,
 * and says in its message the byte offset of a syntax fault (from 0). Besides, ERROR_OUT_OF_MEMORY from
 * json_read_string.
 *
 * After ERROR_INVALID the reader still stands before the value, and after ERROR_DUPLICATE_MEMBER from json_next_member
 * before the value of the second member: json_skip it to go on and find further faults. After any other error the
 * reader is of use for json_pointer and json_line only. */
#ifndef ATTND_JSON_READER_H
#define ATTND_JSON_READER_H

#include "base/error.h"
#include "json/pointer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 32

/* Members in all open objects together whose names are remembered to find duplicates: a bound on the memory and the
 * time that a hostile object can cost. One more is ERROR_NOT_JSON. Members read by json_read_object do not count. */
#define JSON_MAX_MEMBERS 256

enum json_type {
    JSON_END,
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_INVALID
};

enum json_step { JSON_ITEM, JSON_DONE, JSON_FAILED };

/* A member's name, or a string, as it stands in the text, between its quotes, escapes not resolved; compare with
 * json_key_is. */
struct json_key {
    const char *raw;
    size_t length;
    bool escaped;
};

struct json_level {
    struct json_key key; /* the member being read, where is_object */
    size_t index;        /* the element being read, where not */
    unsigned first_name; /* where the names of this object's members begin in the reader's list */
    bool is_object;
    bool started; /* an item was read, so a comma comes before the next */
    bool inside;  /* the place is in the item `key` or `index`, not between items */
};

struct json_reader {
    const char *begin, *at, *end;
    unsigned depth;
    unsigned num_names;
    struct json_level level[JSON_MAX_DEPTH]; /* [depth], the outermost first */
    const char *name[JSON_MAX_MEMBERS];      /* [num_names], of the open objects, the outermost's first */
    uint32_t name_hash[JSON_MAX_MEMBERS];    /* [num_names] */
};

void json_reader_init(struct json_reader *r, const char *text, size_t length);
/* The text is the value of a member that stands elsewhere: places begin with its name, which holds no backslash. */
void json_reader_init_member(struct json_reader *r, const char *name, const char *text, size_t length);

/* Skips white space; the type of the value that comes next, by its first character. JSON_END at the end of the text.
 * Consumes nothing else. */
enum json_type json_peek(struct json_reader *r);
/* "an object", "a string", "true" ...: for messages. */
const char *json_type_name(enum json_type type);

bool json_enter_object(struct json_reader *r, struct error *error);
/* JSON_ITEM: *key is the next member's name and its value comes next. JSON_DONE: the object was left. */
enum json_step json_next_member(struct json_reader *r, struct json_key *key, struct error *error);
bool json_key_is(const struct json_key *key, const char *name);
/* The unescaped name into `to` [key->length + 1], NUL-terminated; returns its bytes. */
size_t json_key_write(const struct json_key *key, char *to);
/* The unescaped name in fresh memory (free it), NUL-terminated; NULL when memory ran out. *length (if not NULL): its
 * bytes. */
char *json_key_copy(const struct json_key *key, size_t *length);

bool json_enter_array(struct json_reader *r, struct error *error);
enum json_step json_next_element(struct json_reader *r, struct error *error);
/* Whether an array that begins with an array comes next. Consumes nothing. */
bool json_peek_nested(const struct json_reader *r);

/* Fresh memory, NUL-terminated UTF-8; a string with an escaped NUL in it is ERROR_INVALID unless `length` is asked for.
 */
bool json_read_string(struct json_reader *r, char **string, size_t *length, struct error *error);
/* A string where it stands: without memory of its own, good while the text is. */
bool json_read_in_place(struct json_reader *r, struct json_key *string, struct error *error);
bool json_read_bool(struct json_reader *r, bool *value, struct error *error);
/* A finite number, correctly rounded to double. */
bool json_read_double(struct json_reader *r, double *value, struct error *error);
/* An integer (1.0 and 1e2 are integers too, 1.5 is ERROR_INVALID) within [minimum, maximum], else ERROR_INVALID naming
 * both. */
bool json_read_integer(struct json_reader *r, int64_t minimum, int64_t maximum, int64_t *value, struct error *error);
bool json_read_null(struct json_reader *r, struct error *error);

/* Passes one whole value, checking its syntax and its objects' duplicates. On request, where its text begins and ends.
 */
bool json_skip(struct json_reader *r, const char **begin, const char **end, struct error *error);

/* Passes one whole value of which nothing is used: its syntax is checked, its members are neither compared nor counted.
 */
bool json_ignore(struct json_reader *r, struct error *error);

/* Nothing but white space may follow the document. */
bool json_finish(struct json_reader *r, struct error *error);

/* The JSON Pointer of the value being read ("" at the root), cut where it does not fit; returns `buffer`. */
char *json_pointer(const struct json_reader *r, char *buffer, size_t size);
/* The line (from 1) of the byte at `place`, a position in the text; of the key or element being read: json_line(r,
 * r->at). */
size_t json_line(const struct json_reader *r, const char *place);

/* error_set_at the reader's place. Always false. */
bool json_error(const struct json_reader *r, struct error *error, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
/* ERROR_INVALID "expected WANTED, got TYPE", or the syntax error when what stands there is no value at all. Always
 * false. */
bool json_type_error(struct json_reader *r, struct error *error, const char *wanted);
/* ERROR_NOT_JSON at `place` in the text, with what was expected there. Always false. */
bool json_syntax_error(const struct json_reader *r, struct error *error, const char *place, const char *expected);

/* Declarative objects: each known member has a function that reads its value into `context`. Unknown members are
 * ERROR_UNKNOWN_MEMBER, naming the member and, where one is near, the one that was probably meant; duplicates are
 * ERROR_DUPLICATE_MEMBER. *seen (may be NULL): bit i is set for members[i]. At most 64 members. */
struct json_member {
    const char *name;
    bool (*read)(struct json_reader *r, void *context, struct error *error);
};
bool json_read_object(struct json_reader *r, const struct json_member *members, size_t count, void *context,
                      uint64_t *seen, struct error *error);

#endif
