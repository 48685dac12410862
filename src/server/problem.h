/* Errors as HTTP sees them: status, title, document. The one table from error codes to statuses. */
#ifndef ATTND_SERVER_PROBLEM_H
#define ATTND_SERVER_PROBLEM_H

#include "base/error.h"
#include "base/text.h"

/* How a route tells of its errors. */
enum problem_form {
    PROBLEM_DETAILS,       /* RFC 9457 */
    PROBLEM_OPEN_INFERENCE /* {"error": text}, and 400 in place of 422, as the clients of that protocol expect */
};

unsigned problem_status(enum error_code code, enum problem_form form);
const char *problem_media_type(enum problem_form form);

/* The reason phrase of a status that the table knows. */
const char *problem_reason(unsigned status);

/* Seconds for Retry-After; 0: none. */
unsigned problem_retry_after(enum error_code code);

/* Appends {"type", "title", "status", "detail", "instance", "pointer"?, "error"}, or {"error"} with the pointer in its
 * text. */
void problem_document(const struct error *error, const char *request_id, enum problem_form form, struct text *text);

#endif
