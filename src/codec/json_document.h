/* Whole JSON documents as jansson's trees: what has no tensors as text in it, and is looked at member by member. */
#ifndef ATTND_CODEC_JSON_DOCUMENT_H
#define ATTND_CODEC_JSON_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The document, in which no object has a member twice; json_decref it. NULL: *fault says what is wrong with the text,
 * or memory ran out, which *out_of_memory tells. Any thread. */
json_t *json_document_read(const char *text, size_t length, json_error_t *fault, bool *out_of_memory);

#endif
