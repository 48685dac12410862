/* Whole JSON documents as jansson's trees: what has no tensors as text in it, and is looked at member by member. */
#ifndef ATTND_CODEC_JSON_DOCUMENT_H
#define ATTND_CODEC_JSON_DOCUMENT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Asked now and then while a long text is read, whether anybody still waits for it; *error says why not. */
struct json_watch {
    bool (*goes_on)(void *context, struct error *error);
    void *context;
    struct error *error;
    bool stopped; /* it did not go on */
};

bool json_watch_goes_on(struct json_watch *watch);

/* The document, in which no object has a member twice; json_decref it. NULL: *fault says what is wrong with the text,
 * or memory ran out, which *out_of_memory tells, or `watch` has stopped it (NULL: it is not watched). Any thread. */
json_t *json_document_read(const char *text, size_t length, struct json_watch *watch, json_error_t *fault,
                           bool *out_of_memory);

/* The most memory that the document of a text takes while it is read. */
size_t json_document_bytes(const char *text, size_t length);

#endif
