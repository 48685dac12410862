/* Errors as HTTP sees them: status, title, RFC 9457 document. The one table from error codes to statuses. */
#ifndef ATTND_SERVER_PROBLEM_H
#define ATTND_SERVER_PROBLEM_H

#include "base/error.h"
#include "base/text.h"

unsigned problem_status(enum error_code code);

/* The reason phrase of a status that the table knows. */
const char *problem_reason(unsigned status);

/* Seconds for Retry-After; 0: none. */
unsigned problem_retry_after(enum error_code code);

/* Appends {"type", "title", "status", "detail", "instance", "pointer"?, "error"}. */
void problem_document(const struct error *error, const char *request_id, struct text *text);

#endif
