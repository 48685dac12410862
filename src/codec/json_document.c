/* Reading with jansson. Any thread.
 *
 * Where jansson 2.14 gets no memory it may name a syntax error that is none, say nothing, or leave a byte out of a
 * string; so its allocations are ours, and a thread notes when one has failed. */
#include "codec/json_document.h"

#include <pthread.h>
#include <stdlib.h>

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

json_t *json_document_read(const char *text, size_t length, json_error_t *fault, bool *out_of_memory)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_own_memory);
    failed = false;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, fault);
    *out_of_memory = failed;
    if (!failed)
        return document;
    json_decref(document);
    return NULL;
}
