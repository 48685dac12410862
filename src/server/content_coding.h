/* Compressed bodies in and compressed answers out: which codings a request has and takes, and where the work is done.
 */
#ifndef ATTND_SERVER_CONTENT_CODING_H
#define ATTND_SERVER_CONTENT_CODING_H

#include "base/error.h"
#include "codec/gzip.h"
#include "server/accept_encoding.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

struct request;

struct content_coding {
    enum coding body;              /* what the body is wrapped in; CODING_IDENTITY once it is not any more */
    enum accepted_coding accepted; /* of the answer */
    bool refused;                  /* the body has a coding that is not supported */
    bool decoding;                 /* a worker decompresses the body */
};

/* On the polling thread, once the headers are here: reads what the client accepts. */
void content_coding_see_headers(struct request *request);
/* The same for a route that takes a body: ERROR_UNSUPPORTED_MEDIA_TYPE for a coding that is not supported. */
bool content_coding_check_body(struct request *request, struct error *error);

/* The body is whole: makes it what the client had before it compressed it. True when the body is ready; else the
 * request was failed, or suspended and queued, and then is to be taken up again when it is resumed. On the polling
 * thread. */
bool content_coding_open_body(struct request *request);
/* The request was resumed: whether its body is ready now, and it is to be handled as if it had just come. */
bool content_coding_opened(struct request *request);

/* Compresses a filled answer where the client takes it so and it pays; for lack of memory it stays as it is. By whoever
 * has the request, and once: what was tried is not tried again. */
void content_coding_shorten_answer(struct request *request);
/* The same on the polling thread, unless that takes too long for it. */
void content_coding_shorten_here(struct request *request);
/* On the polling thread, where it does take too long: true when the request was suspended and a worker is to do it; the
 * answer is to be sent when it is resumed. */
bool content_coding_shorten_later(struct request *request);

/* Whether an answer of `length` bytes is to be sent in gzip. */
bool content_coding_wanted(const struct request *request, size_t length);
/* What that is worth beside a computation. */
double content_coding_flop(const struct request *request, size_t length);
/* The answer, which is static, in gzip as the caller has it. */
void content_coding_replace_answer(struct request *request, const void *packed, size_t length);

/* Adds Content-Encoding, Vary and Accept-Encoding where they belong. */
enum MHD_Result content_coding_add_headers(const struct request *request, struct MHD_Response *response);

#endif
