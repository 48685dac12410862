#include "base/error.h"

#include <stdio.h>
#include <string.h>

static const char *const SLUGS[ERROR_CODE_COUNT] = {
#define ERROR_SLUG(code, slug) [code] = slug,
    ERROR_CODES(ERROR_SLUG)
#undef ERROR_SLUG
};

/* A text cut in the middle of a UTF-8 sequence would make the error document itself invalid JSON. */
static void cut_at_character(char *text)
{
    size_t length = strlen(text), at = length;
    while (at > 0 && ((unsigned char)text[at - 1] & 0xC0) == 0x80)
        at--;
    if (at == 0)
        return;
    unsigned char lead = (unsigned char)text[at - 1];
    size_t wanted = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (length - (at - 1) < wanted)
        text[at - 1] = '\0';
}

static void fill(struct error *error, enum error_code code, const char *pointer, const char *format, va_list arguments)
{
    error->code = code;
    error->has_pointer = pointer != NULL;
    error->pointer[0] = '\0';
    if (pointer) {
        snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
        cut_at_character(error->pointer);
    }
    vsnprintf(error->message, sizeof error->message, format, arguments);
    cut_at_character(error->message);
}

bool error_set(struct error *error, enum error_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, code, NULL, format, arguments);
    va_end(arguments);
    return false;
}

bool error_set_at(struct error *error, enum error_code code, const char *pointer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(error, code, pointer, format, arguments);
    va_end(arguments);
    return false;
}

bool error_precede(struct error *error, const char *format, ...)
{
    const struct error old = *error;
    char words[sizeof old.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return error_set_at(error, old.code, old.has_pointer ? old.pointer : NULL, "%s%s", words, old.message);
}

bool error_out_of_memory(struct error *error)
{
    return error_set(error, ERROR_OUT_OF_MEMORY, "memory ran out; try again, or send less at once");
}

bool error_cancelled(struct error *error)
{
    return error_set(error, ERROR_CLIENT_GONE, "The computation was cancelled: nobody waits for its result any more.");
}

const char *error_slug(enum error_code code)
{
    return SLUGS[code];
}
