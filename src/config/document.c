/* The JSON reader made to go on after a wrong value. One thread. */
#include "config/document.h"

#include "base/nearest.h"
#include "base/text.h"
#include "config/excerpt.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The longest pointer here is "/weights/", an index, "/tensors/" and a name that the file chose. */
#define POINTER_BYTES 512

void document_init(struct document *document, const char *file, const char *text, size_t length, struct faults *faults)
{
    *document = (struct document){.file = file, .faults = faults, .counted = text, .counted_line = 1};
    json_reader_init(&document->reader, text, length);
}

size_t document_line(struct document *document, const char *place)
{
    if (place < document->counted) {
        document->counted = document->reader.begin;
        document->counted_line = 1;
    }
    for (const char *at = document->counted; (at = memchr(at, '\n', (size_t)(place - at))); at++)
        document->counted_line++;
    document->counted = place;
    return document->counted_line;
}

void document_fault(struct document *document, const char *place, const char *pointer, const char *format, ...)
{
    char buffer[POINTER_BYTES];
    va_list arguments;
    if (!pointer)
        pointer = json_pointer(&document->reader, buffer, sizeof buffer);
    va_start(arguments, format);
    faults_add_list(document->faults, document->file, document_line(document, place), *pointer ? pointer : NULL, format,
                    arguments);
    va_end(arguments);
}

bool document_stop(struct document *document, const struct error *error)
{
    if (error->code == ERROR_OUT_OF_MEMORY) {
        document->faults->out_of_memory = true;
        return false;
    }
    const char *pointer = error->has_pointer && error->pointer[0] ? error->pointer : NULL;
    faults_add(document->faults, document->file, document_line(document, document->reader.at), pointer, "%s",
               error->message);
    return false;
}

enum json_step document_next_member(struct document *document, struct json_key *key)
{
    struct error error;
    const char *begin, *end;
    enum json_step step;
    while ((step = json_next_member(&document->reader, key, &error)) == JSON_FAILED) {
        if (error.code != ERROR_DUPLICATE_MEMBER) {
            document_stop(document, &error);
            return JSON_FAILED;
        }
        document_fault(document, document->reader.at, error.has_pointer ? error.pointer : NULL, "%s", error.message);
        if (!document_skip(document, &begin, &end))
            return JSON_FAILED;
    }
    return step;
}

bool document_skip(struct document *document, const char **begin, const char **end)
{
    struct error error;
    return json_skip(&document->reader, begin, end, &error) || document_stop(document, &error);
}

bool document_expect(struct document *document, enum json_type type, const char *place, bool *stopped)
{
    enum json_type found = json_peek(&document->reader);
    const char *begin, *end;
    char shown[EXCERPT_BYTES];
    *stopped = false;
    if (found == type)
        return true;
    if (!document_skip(document, &begin, &end)) {
        *stopped = true;
        return false;
    }
    document_shown(shown, begin, end);
    document_fault(document, place, NULL, "expected %s, got %s", json_type_name(type), shown);
    return false;
}

bool document_string(struct document *document, const char *place, char **string)
{
    struct error error;
    const char *begin, *end;
    bool stopped;
    *string = NULL;
    if (!document_expect(document, JSON_STRING, place, &stopped))
        return !stopped;
    if (json_read_string(&document->reader, string, NULL, &error))
        return true;
    *string = NULL;
    if (error.code != ERROR_INVALID)
        return document_stop(document, &error);
    /* It holds a NUL. The reader still stands before it. */
    document_fault(document, place, NULL, "%s", error.message);
    return document_skip(document, &begin, &end);
}

void document_shown(char *shown, const char *begin, const char *end)
{
    const char *text = *begin == '{' ? json_type_name(JSON_OBJECT) : *begin == '[' ? json_type_name(JSON_ARRAY) : begin;
    excerpt_write(shown, text, text == begin ? (size_t)(end - begin) : strlen(text));
}

bool document_unknown_key(struct document *document, const struct json_key *key, const char *const *known, size_t count)
{
    struct text list = {0};
    char *name = json_key_copy(key, NULL);
    if (!name) {
        document->faults->out_of_memory = true;
        return false;
    }
    const char *near = nearest_name(name, known, count);
    free(name);
    if (near) {
        document_fault(document, key->raw, NULL, "unknown key; did you mean \"%s\"?", near);
        return true;
    }
    for (size_t i = 0; i < count; i++)
        text_append_format(&list, "%s%s", i ? ", " : "", known[i]);
    const char *names = text_terminate(&list);
    if (names)
        document_fault(document, key->raw, NULL, "unknown key; the known ones here are %s", names);
    else
        document->faults->out_of_memory = true;
    text_free(&list);
    return names != NULL;
}
