#include "base/http_url.h"

#include <string.h>
#include <strings.h>

static bool begins(const char *text, size_t length, const char *scheme, size_t *skip)
{
    *skip = strlen(scheme);
    return length >= *skip && strncasecmp(text, scheme, *skip) == 0;
}

bool http_url_check(const char *text, size_t length, struct error *error)
{
    size_t skip;
    if (!begins(text, length, "http://", &skip) && !begins(text, length, "https://", &skip))
        return error_set(error, ERROR_INVALID,
                         "\"%.*s\" is no address of a server; expected http://HOST:PORT or https://HOST:PORT",
                         (int)(length < 200 ? length : 200), text);
    for (size_t i = skip; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7F || text[i] == '?' || text[i] == '#')
            return error_set(
                error, ERROR_INVALID,
                "the address \"%.*s\" holds a character that it may not hold, behind %zu others; expected a "
                "host, a port and a path, without query and spaces",
                (int)(length < 200 ? length : 200), text, i);
    if (length == skip || text[skip] == '/' || text[skip] == ':')
        return error_set(error, ERROR_INVALID, "the address \"%.*s\" names no host; expected http://HOST:PORT",
                         (int)(length < 200 ? length : 200), text);
    return true;
}
