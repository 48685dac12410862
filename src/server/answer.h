/* The answer to a request, and the forms in which its bytes are held until they are sent. */
#ifndef ATTND_SERVER_ANSWER_H
#define ATTND_SERVER_ANSWER_H

#include "base/error.h"
#include "codec/answer_pieces.h"
#include "engine/parallel.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

struct request;

/* An answer that is sent in place has at most this many pieces. */
#define ANSWER_MAX_RAW_PIECES 32

enum answer_form {
    ANSWER_WHOLE,    /* `body` */
    ANSWER_IN_PLACE, /* the pieces are bytes, and are sent from where they lie */
    ANSWER_READ,     /* of known length: the polling thread writes the pieces into what it sends */
    ANSWER_STREAMED  /* of unknown length: workers write them */
};

struct answer {
    unsigned status;          /* 0: none yet */
    enum error_code error;    /* ERROR_NONE for a success */
    const char *content_type; /* static */
    enum answer_form form;
    const char *body;             /* [length] */
    size_t length;                /* of the body; of a streamed answer, of what was read so far */
    size_t json_length;           /* where bytes stand behind JSON: what of the whole is JSON; 0: no bytes */
    char etag[32];                /* without quotes; "": none. A compressed body has another */
    bool owned;                   /* body is malloc's and the answer's own; else it is static or the request's memory */
    bool gzip;                    /* the body is */
    bool coding_tried;            /* whether to compress it was looked at already */
    struct answer_pieces *pieces; /* of the other forms; the request's memory */
    struct answer_cursor next;    /* ANSWER_READ: what comes next */
    struct answer_stream *stream;
};

/* Fills request->answer, a success but for its content type, with the answer that these pieces make: written whole
 * where it is short, or its length has to be known and is not. ERROR_BUDGET_FULL or ERROR_OUT_OF_MEMORY when there is
 * no memory for the form.
 *
 * `began`: when the pieces' making began (clock_ns). `memory` is where they lie; what is left of it may be used for the
 * text. True in *keep where the answer still needs what the pieces point to. */
bool answer_from_pieces(struct request *request, struct answer_pieces *pieces, uint64_t began, struct arena *memory,
                        const struct parallel *parallel, bool *keep, struct error *error);

/* libmicrohttpd's view of it. NULL when memory ran out. */
struct MHD_Response *answer_response(struct request *request);

/* Microseconds that were spent in writing the pieces so far. */
double answer_written_us(const struct answer *answer);

#endif
