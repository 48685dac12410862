/* What spans are made of: one request as it was, in a structure of fixed size that points to nothing but static texts.
 * Filled by the thread that ends the request, read by the exporter. Allocates nothing. */
#ifndef ATTND_TELEMETRY_TRACE_RECORD_H
#define ATTND_TELEMETRY_TRACE_RECORD_H

#include "telemetry/trace_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_stage { TRACE_PARSE, TRACE_QUEUE, TRACE_COMPUTE, TRACE_ENCODE, TRACE_STAGES };

/* Nanoseconds since the epoch. began 0: it was not reached. */
struct trace_interval {
    uint64_t began, ended;
};

/* Texts that the client or the configuration chose, cut where they are too long. */
enum trace_text {
    TRACE_TEXT_METHOD, /* as sent, where it is none of the known ones */
    TRACE_TEXT_PATH,
    TRACE_TEXT_QUERY,
    TRACE_TEXT_HOST,
    TRACE_TEXT_PEER,
    TRACE_TEXT_USER_AGENT,
    TRACE_TEXT_REQUEST_ID,
    TRACE_TEXT_WEIGHTS,
    TRACE_TEXT_STATE,
    TRACE_TEXTS
};

struct trace_record {
    struct trace_context context;
    struct trace_interval request, stages[TRACE_STAGES];
    const char *method; /* NULL: TRACE_TEXT_METHOD */
    const char *route;  /* its pattern; NULL: none */
    const char *scheme, *version;
    const char *error;             /* why it failed; NULL: it did not */
    unsigned status;               /* of the answer; 0: none was sent */
    bool failed;                   /* by the server's fault, or in mid-answer */
    unsigned host_port, peer_port; /* 0: not known */
    size_t bytes_in, bytes_out;    /* of the bodies */
    size_t tokens, batch;          /* query positions; requests computed together; 0: it was not computed */
    struct {
        uint16_t at, length;
    } texts[TRACE_TEXTS];
    size_t used;
    char text[2560]; /* [used] */
};

/* Takes a text, which may be NULL (none), up to a length that is fixed for each. */
void trace_record_take(struct trace_record *record, enum trace_text which, const char *text, size_t length);

/* How many spans are made of it. */
size_t trace_record_spans(const struct trace_record *record);

#endif
