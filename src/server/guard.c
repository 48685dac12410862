#include "server/guard.h"

#include "server/headers.h"

#include <limits.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *name, size_t length)
{
    static const bool in_token[UCHAR_MAX + 1] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true, ['#'] = true, ['$'] = true,
        ['%'] = true,         ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true, ['-'] = true,
        ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true, ['|'] = true, ['~'] = true};
    size_t i = 0;
    while (i < length && in_token[(unsigned char)name[i]])
        i++;
    return i == length && length > 0;
}

/* Whether `name` is `known` and more behind it. */
static bool begins_with(const char *name, const char *known)
{
    size_t length = strlen(known);
    return strncasecmp(name, known, length) == 0 && name[length] != '\0';
}

void guard_look_at_name(struct strange_names *strange, const char *name, size_t length)
{
    if (!is_token(name, length) && !strange->bad[0]) {
        size_t kept = length < sizeof strange->bad - 1 ? length : sizeof strange->bad - 1;
        for (size_t i = 0; i < kept; i++)
            strange->bad[i] = name[i] > ' ' && name[i] < 0x7F ? name[i] : '?';
        if (!kept)
            strange->bad[0] = '?';
    }
    /* libmicrohttpd 0.9.75 glues a continuation line to the name: "Content-Length:\r\n 5" arrives as Content-Length5.
     */
    strange->folded |=
        begins_with(name, MHD_HTTP_HEADER_CONTENT_LENGTH) || begins_with(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

bool guard_check(const struct headers *headers, const char *version, struct error *error)
{
    const struct header_lines *lengths = &headers->lines[HEADER_CONTENT_LENGTH],
                              *codings = &headers->lines[HEADER_TRANSFER_ENCODING];
    const unsigned hosts = headers->lines[HEADER_HOST].count;
    const bool is_1_1 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    if (headers->strange.bad[0])
        return error_set(
            error, ERROR_BAD_FRAMING,
            "the header name \"%s\" holds a character that no name has; there is no space before the colon",
            headers->strange.bad);
    if (headers->strange.folded)
        return error_set(error, ERROR_BAD_FRAMING,
                         "Content-Length or Transfer-Encoding goes on behind its name or on a "
                         "further line; send each on one line");
    if (lengths->count > 1)
        return error_set(error, ERROR_BAD_FRAMING, "%u Content-Length headers; send one", lengths->count);
    if (lengths->count && codings->count)
        return error_set(error, ERROR_BAD_FRAMING, "Content-Length beside Transfer-Encoding; send one of them");
    if (lengths->count && (lengths->last_length == 0 || strspn(lengths->last, "0123456789") != lengths->last_length))
        return error_set(error, ERROR_BAD_FRAMING, "Content-Length is not a number");
    if (codings->count > 1 ||
        (codings->count && (codings->last_length != strlen("chunked") || strcasecmp(codings->last, "chunked") != 0)))
        return error_set(error, ERROR_BAD_FRAMING, "the only Transfer-Encoding that is taken is chunked, once");
    if (codings->count && !is_1_1)
        return error_set(error, ERROR_BAD_FRAMING, "chunks do not exist in %s; send a Content-Length", version);
    if (is_1_1 && hosts != 1)
        return error_set(error, ERROR_BAD_FRAMING, "HTTP/1.1 needs exactly one Host header, there are %u", hosts);
    return true;
}
