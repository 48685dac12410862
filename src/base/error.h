/* An error is a value: what kind it is, one sentence for a person, and the place in the document it is about.
 *
 * Functions that can fail return bool (or a pointer) and take a `struct error *` last; on failure they fill it and
 * leave their other outputs untouched. Only the server (status codes, log) and main (exit code) turn an error into
 * something visible. */
#ifndef ATTND_BASE_ERROR_H
#define ATTND_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* X(code, slug): every kind of failure. The slug ends the problem's `type` URI and is the log's `error`.
 * server/problem.c maps each to its HTTP status and title. */
#define ERROR_CODES(X)                                                                                         \
    X(ERROR_NONE, "none")                                                                                      \
    X(ERROR_NOT_JSON, "not-json")                 /* the text is not JSON */                                   \
    X(ERROR_DUPLICATE_MEMBER, "duplicate-member") /* an object names a member twice */                         \
    X(ERROR_BAD_ENCODING, "bad-encoding")         /* base64, compression or a binary container is broken */    \
    X(ERROR_BAD_FRAMING, "bad-framing")           /* HTTP framing that two parsers could read differently */   \
    X(ERROR_INVALID, "invalid")                   /* well-formed but wrong: type, shape, range, combination */ \
    X(ERROR_UNKNOWN_MEMBER, "unknown-member")     /* a member that the contract does not know */               \
    X(ERROR_NOT_FINITE, "not-finite")             /* NaN, infinity, or beyond float32, going in or out */      \
    X(ERROR_UNAUTHORIZED, "unauthorized")         /* an admin route without its token */                       \
    X(ERROR_UNKNOWN_ROUTE, "unknown-route")                                                                    \
    X(ERROR_UNKNOWN_WEIGHTS, "unknown-weights")                                                                \
    X(ERROR_METHOD_NOT_ALLOWED, "method-not-allowed")                                                          \
    X(ERROR_UPLOAD_TIMEOUT, "upload-timeout")                                                                  \
    X(ERROR_TOO_LARGE, "too-large") /* over a configured limit, whatever the load */                           \
    X(ERROR_UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type")                                                  \
    X(ERROR_EXPECTATION_FAILED, "expectation-failed")                                                          \
    X(ERROR_QUEUE_FULL, "queue-full")                                                                          \
    X(ERROR_OVERLOADED, "overloaded")   /* what waits already would make the answer come too late */           \
    X(ERROR_BUDGET_FULL, "budget-full") /* the memory budget is taken by other requests */                     \
    X(ERROR_DRAINING, "draining")                                                                              \
    X(ERROR_NOT_READY, "not-ready")         /* the weight set is not in memory */                              \
    X(ERROR_OUT_OF_MEMORY, "out-of-memory") /* an allocation failed */                                         \
    X(ERROR_DEADLINE, "deadline")                                                                              \
    X(ERROR_CLIENT_GONE, "client-gone") /* nobody is left to hear the answer */                                \
    X(ERROR_IO, "io")                   /* a file, socket or system call failed */                             \
    X(ERROR_CONFIGURATION, "configuration")

#define ERROR_ENUM(code, slug) code,
enum error_code { ERROR_CODES(ERROR_ENUM) ERROR_CODE_COUNT };
#undef ERROR_ENUM

/* Fixed buffers: an error must be reportable when memory is what ran out. Longer texts are cut at a UTF-8 boundary. */
struct error {
    enum error_code code;
    char message[1024];
    char pointer[512]; /* RFC 6901 JSON Pointer; meaningful when has_pointer ("" is the whole document) */
    bool has_pointer;
};

/* Fills *error (any pointer in it is cleared) and returns false, so that `return error_set(...)` reads as one step. */
bool error_set(struct error *error, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* As error_set, with the place. `pointer` may be NULL: no place. */
bool error_set_at(struct error *error, enum error_code code, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/* Puts words before the message; the code and the pointer stay. Returns false. */
bool error_precede(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The one text for a failed allocation. */
bool error_out_of_memory(struct error *error);

/* The one text for work that parallel->cancelled ended (ERROR_CLIENT_GONE): whoever cancelled it knows the reason, and
 * replaces it. */
bool error_cancelled(struct error *error);

/* "not-json" for ERROR_NOT_JSON. */
const char *error_slug(enum error_code code);

#endif
