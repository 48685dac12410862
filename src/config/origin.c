/* Origins are compared byte by byte with what browsers send, so what no browser would send is refused here. */
#include "config/origin.h"

#include "config/excerpt.h"

#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

bool origin_check(const char *text, size_t length, struct error *error)
{
    char excerpt[EXCERPT_BYTES];
    if (length == 1 && text[0] == '*')
        return true;
    const char *slashes = memmem(text, length, "://", 3);
    const size_t scheme = slashes ? (size_t)(slashes - text) : 0, host = scheme + 3;
    bool right = slashes && scheme > 0 && host < length && strspn(text, LOWER DIGITS "+-.") == scheme;
    for (size_t i = host; i < length && right; i++)
        right = text[i] && strchr(LOWER DIGITS "-._:[]", text[i]);
    if (right)
        return true;
    excerpt_write(excerpt, text, length);
    return error_set(error, ERROR_INVALID,
                     "expected an origin as browsers send it, such as https://app.example or http://localhost:3000 (in "
                     "small letters, without a path), or *, got \"%s\"",
                     excerpt);
}
