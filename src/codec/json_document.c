/* Reading with jansson. Any thread.
 *
 * Where jansson 2.14 gets no memory it may name a syntax error that is none, say nothing, or leave a byte out of a
 * string; so its allocations are ours, and a thread notes when one has failed. */
#include "codec/json_document.h"

#include "base/size.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Read in well under a millisecond. */
#define WATCH_BYTES ((size_t)65536)

/* What jansson 2.14 takes, in glibc's chunks: a number 32 bytes, and its place in a list 8, or 24 while the list grows
 * to twice its length; a list 48, room for eight 80, and its first number; an object 96 and as many buckets, 144; a
 * member 80 beside its name, and 48 in buckets that grow, and its number; a string 48 beside its bytes. */
#define LEAST_BYTES  ((size_t)4096)
#define VALUE_BYTES  ((size_t)56)
#define QUOTE_BYTES  ((size_t)32)
#define MEMBER_BYTES ((size_t)160)
#define ARRAY_BYTES  ((size_t)160)
#define OBJECT_BYTES ((size_t)248)

static _Thread_local bool failed;

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    failed |= !memory;
    return memory;
}

static void use_own_memory(void)
{
    json_set_alloc_funcs(allocate, free);
}

bool json_watch_goes_on(struct json_watch *watch)
{
    if (watch && !watch->stopped)
        watch->stopped = !watch->goes_on(watch->context, watch->error);
    return !watch || !watch->stopped;
}

/* A text on its way to jansson, which asks for it in pieces of a KiB. */
struct source {
    const char *at, *end, *watched; /* it was asked up to there whether to go on */
    struct json_watch *watch;
};

static size_t next_piece(void *buffer, size_t capacity, void *context)
{
    struct source *source = context;
    const size_t left = (size_t)(source->end - source->at), length = size_min(capacity, left);
    if (source->at >= source->watched) {
        if (!json_watch_goes_on(source->watch))
            return (size_t)-1;
        source->watched = source->at + size_min(left, WATCH_BYTES);
    }
    memcpy(buffer, source->at, length);
    source->at += length;
    return length;
}

json_t *json_document_read(const char *text, size_t length, struct json_watch *watch, json_error_t *fault,
                           bool *out_of_memory)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct source source = {text, text + length, text, watch};
    pthread_once(&once, use_own_memory);
    failed = false;
    json_t *document = watch ? json_load_callback(next_piece, &source, JSON_REJECT_DUPLICATES, fault)
                             : json_loadb(text, length, JSON_REJECT_DUPLICATES, fault);
    *out_of_memory = failed;
    if (!failed && !(watch && watch->stopped))
        return document;
    json_decref(document);
    return NULL;
}

size_t json_document_bytes(const char *text, size_t length)
{
    size_t commas = 0, quotes = 0, colons = 0, arrays = 0, objects = 0;
    for (size_t i = 0; i < length; i++) {
        commas += text[i] == ',';
        quotes += text[i] == '"';
        colons += text[i] == ':';
        arrays += text[i] == '[';
        objects += text[i] == '{';
    }
    return LEAST_BYTES + 2 * length + commas * VALUE_BYTES + quotes * QUOTE_BYTES + colons * MEMBER_BYTES +
           arrays * ARRAY_BYTES + objects * OBJECT_BYTES;
}
