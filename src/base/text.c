#include "base/text.h"

#include "base/size.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_init_fixed(struct text *text, char *buffer, size_t capacity)
{
    *text = (struct text){.data = buffer, .capacity = capacity, .fixed = true};
}

char *text_reserve_more(struct text *text, size_t more)
{
    size_t needed;
    if (text->failed)
        return NULL;
    if (!size_add(text->length, more, &needed) || needed > (text->fixed ? text->capacity : PTRDIFF_MAX / 2)) {
        text->failed = true;
        return NULL;
    }
    if (needed > text->capacity) {
        size_t capacity = size_max(needed, size_max(2 * text->capacity, 256));
        char *data = realloc(text->data, capacity);
        if (!data) {
            text->failed = true;
            return NULL;
        }
        text->data = data;
        text->capacity = capacity;
    }
    return text->data + text->length;
}

void text_append_size(struct text *text, size_t value)
{
    char digits[20]; /* 2^64 - 1 has so many */
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    text_append(text, digits + at, sizeof digits - at);
}

void text_append_format(struct text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    /* As a rule it fits, and is formatted once. */
    const size_t room = text->failed ? 0 : text->capacity - text->length;
    const int length = vsnprintf(room ? text->data + text->length : NULL, room, format, arguments);
    if (length >= 0 && (size_t)length < room) {
        text->length += (size_t)length;
    } else {
        char *to = length < 0 ? NULL : text_reserve(text, (size_t)length + 1);
        if (to) {
            vsnprintf(to, (size_t)length + 1, format, again);
            text->length += (size_t)length;
        }
    }
    va_end(again);
    va_end(arguments);
}

static void append_escaped(struct text *text, unsigned char c)
{
    switch (c) {
    case '"':
        text_append(text, "\\\"", 2);
        break;
    case '\\':
        text_append(text, "\\\\", 2);
        break;
    case '\n':
        text_append(text, "\\n", 2);
        break;
    case '\r':
        text_append(text, "\\r", 2);
        break;
    case '\t':
        text_append(text, "\\t", 2);
        break;
    default:
        text_append_format(text, "\\u%04x", c);
    }
}

static bool is_escaped(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

void text_append_json(struct text *text, const char *string, size_t length)
{
    text_append(text, "\"", 1);
    for (size_t i = 0, begin; i < length; i++) {
        size_t bytes = 0;
        for (begin = i; i < length && !is_escaped(string[i]) && (bytes = utf8_sequence(string + i, length - i));)
            i += bytes;
        text_append(text, string + begin, i - begin);
        if (i == length)
            break;
        if (is_escaped(string[i]))
            append_escaped(text, (unsigned char)string[i]);
        else
            text_append(text, "\xEF\xBF\xBD", 3);
    }
    text_append(text, "\"", 1);
}

const char *text_terminate(struct text *text)
{
    char *end = text_reserve(text, 1);
    if (!end)
        return NULL;
    *end = '\0';
    return text->data;
}

void text_free(struct text *text)
{
    if (!text->fixed)
        free(text->data);
    *text = (struct text){0};
}

char *text_copy(const char *from, size_t length)
{
    char *copy = length < SIZE_MAX ? malloc(length + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, from, length);
    copy[length] = '\0';
    return copy;
}
