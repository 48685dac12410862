/* The place of a fault in a JSON text, and the errors that carry it. Entered by the reader's thread. */
#include "base/utf8.h"
#include "json/escape.h"
#include "json/reader.h"

#include <stdio.h>
#include <string.h>

struct output {
    char *to;
    size_t room; /* for text: the NUL's byte is set aside; 0 from the first piece on that did not fit */
};

static void append(struct output *output, const char *text, size_t length)
{
    if (length > output->room) {
        output->room = 0;
        return;
    }
    memcpy(output->to, text, length);
    output->to += length;
    output->room -= length;
}

static void append_character(struct output *output, const char *utf8, size_t bytes)
{
    if (utf8[0] == '~')
        append(output, "~0", 2);
    else if (utf8[0] == '/')
        append(output, "~1", 2);
    else if (utf8[0] == '\0')
        append(output, "\xEF\xBF\xBD", 3); /* the pointer is a C string */
    else
        append(output, utf8, bytes);
}

static void append_name(struct output *output, const struct json_key *key)
{
    const char *at = key->raw, *end = key->raw + key->length;
    while (at < end && output->room) {
        char utf8[4];
        size_t bytes = escape_next(&at, utf8);
        append_character(output, utf8, bytes);
    }
}

char *json_pointer(const struct json_reader *r, char *buffer, size_t size)
{
    struct output output = {buffer, size - 1};
    for (unsigned i = 0; i < r->depth && output.room; i++) {
        const struct json_level *level = &r->level[i];
        if (!level->inside)
            break;
        append(&output, "/", 1);
        if (level->is_object) {
            append_name(&output, &level->key);
        } else {
            char index[24];
            append(&output, index, (size_t)snprintf(index, sizeof index, "%zu", level->index));
        }
    }
    *output.to = '\0';
    return buffer;
}

char *json_pointer_of(const char *name, char *buffer, size_t size)
{
    struct output output = {buffer, size - 1};
    append(&output, "/", 1);
    for (; *name && output.room; name++)
        append_character(&output, name, 1);
    *output.to = '\0';
    return buffer;
}

size_t json_line(const struct json_reader *r, const char *place)
{
    size_t line = 1;
    for (const char *at = r->begin; at < place; at++)
        line += *at == '\n';
    return line;
}

bool json_error(const struct json_reader *r, struct error *error, enum error_code code, const char *format, ...)
{
    char pointer[sizeof error->pointer], message[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return error_set_at(error, code, json_pointer(r, pointer, sizeof pointer), "%s", message);
}

static bool is_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at == end;
}

static bool starts_with(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

bool json_syntax_error(const struct json_reader *r, struct error *error, const char *place, const char *expected)
{
    size_t offset = (size_t)(place - r->begin), bytes = utf8_sequence(place, (size_t)(r->end - place));
    if (is_blank(r->begin, r->end))
        return json_error(r, error, ERROR_NOT_JSON, "not JSON: the text is empty");
    if (place == r->end)
        return json_error(r, error, ERROR_NOT_JSON, "not JSON: the text ends at byte %zu; expected %s", offset,
                          expected);
    if (offset == 0 && starts_with(place, r->end, "\xEF\xBB\xBF"))
        return json_error(r, error, ERROR_NOT_JSON, "not JSON: the text begins with a byte order mark; leave it out");
    if (starts_with(place, r->end, "NaN") || starts_with(place, r->end, "nan") || starts_with(place, r->end, "Inf") ||
        starts_with(place, r->end, "inf"))
        return json_error(r, error, ERROR_NOT_JSON, "not JSON: NaN and Infinity are not JSON numbers, at byte %zu",
                          offset);
    if (bytes == 0 || (unsigned char)*place < 0x20 || *place == 0x7F)
        return json_error(r, error, ERROR_NOT_JSON, "not JSON: expected %s at byte %zu, got the byte 0x%02X", expected,
                          offset, (unsigned char)*place);
    return json_error(r, error, ERROR_NOT_JSON, "not JSON: expected %s at byte %zu, got %s%.*s%s", expected, offset,
                      *place == '\'' ? "\"" : "'", (int)bytes, place, *place == '\'' ? "\"" : "'");
}
