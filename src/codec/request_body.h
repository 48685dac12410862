/* The body of a request, in whichever form it came. */
#ifndef ATTND_CODEC_REQUEST_BODY_H
#define ATTND_CODEC_REQUEST_BODY_H

#include "base/error.h"
#include "codec/request_members.h"

#include <stdbool.h>
#include <stddef.h>

enum body_form {
    BODY_JSON,       /* one object */
    BODY_SAFETENSORS /* tensors by their members' names; the others in __metadata__, each value JSON text. The key
                        "format" there, which libraries write, says nothing */
};

struct request_body {
    enum body_form form;
    const char *data; /* [length]; tensors may point into it */
    size_t length;
};

/* The most that the C library's heap holds while such a body is read: 0, or jansson's tree of a header. */
size_t request_body_heap_bytes(const struct request_body *body);

/* Reads all of it. An empty body, or none of the form, is ERROR_NOT_JSON or ERROR_BAD_ENCODING; JSON that is no object
 * ERROR_INVALID. */
bool request_body_read(const struct request_body *body, struct request_members *members, struct error *error);

#endif
