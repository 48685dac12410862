#include "server/guard.h"

#include <string.h>
#include <strings.h>

struct framing {
    unsigned hosts, content_lengths, transfer_encodings;
    bool chunked;      /* the Transfer-Encoding is exactly that */
    bool digits_only;  /* the Content-Length is */
    bool folded;       /* a name that begins like one of these and goes on */
    char bad_name[48]; /* a header name with a character that no name has; "": none */
};

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c <= ' ' || c >= 0x7F || strchr("\"(),/:;<=>?@[\\]{}", c))
            return false;
    }
    return length > 0;
}

/* Whether `name` is `known` and more behind it. */
static bool begins_with(const char *name, const char *known)
{
    size_t length = strlen(known);
    return strncasecmp(name, known, length) == 0 && name[length] != '\0';
}

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                               const char *value, size_t value_length)
{
    struct framing *framing = context;
    (void)kind;
    if (!is_token(name, name_length) && !framing->bad_name[0]) {
        size_t kept = name_length < sizeof framing->bad_name - 1 ? name_length : sizeof framing->bad_name - 1;
        for (size_t i = 0; i < kept; i++)
            framing->bad_name[i] = name[i] > ' ' && name[i] < 0x7F ? name[i] : '?';
        if (!kept)
            framing->bad_name[0] = '?';
    }
    /* libmicrohttpd 0.9.75 glues a continuation line to the name: "Content-Length:\r\n 5" arrives as Content-Length5.
     */
    framing->folded |= begins_with(name, "Content-Length") || begins_with(name, "Transfer-Encoding");
    if (strcasecmp(name, "Host") == 0)
        framing->hosts++;
    if (strcasecmp(name, "Content-Length") == 0) {
        framing->content_lengths++;
        framing->digits_only = value_length > 0 && value && strspn(value, "0123456789") == value_length;
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->transfer_encodings++;
        framing->chunked = value && value_length == strlen("chunked") && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

bool guard_check(struct MHD_Connection *mhd, const char *version, struct error *error)
{
    struct framing framing = {0};
    bool is_1_1 = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, look_at, &framing);
    if (framing.bad_name[0])
        return error_set(
            error, ERROR_BAD_FRAMING,
            "the header name \"%s\" holds a character that no name has; there is no space before the colon",
            framing.bad_name);
    if (framing.folded)
        return error_set(error, ERROR_BAD_FRAMING,
                         "Content-Length or Transfer-Encoding goes on behind its name or on a "
                         "further line; send each on one line");
    if (framing.content_lengths > 1)
        return error_set(error, ERROR_BAD_FRAMING, "%u Content-Length headers; send one", framing.content_lengths);
    if (framing.content_lengths && framing.transfer_encodings)
        return error_set(error, ERROR_BAD_FRAMING, "Content-Length beside Transfer-Encoding; send one of them");
    if (framing.content_lengths && !framing.digits_only)
        return error_set(error, ERROR_BAD_FRAMING, "Content-Length is not a number");
    if (framing.transfer_encodings > 1 || (framing.transfer_encodings && !framing.chunked))
        return error_set(error, ERROR_BAD_FRAMING, "the only Transfer-Encoding that is taken is chunked, once");
    if (framing.transfer_encodings && !is_1_1)
        return error_set(error, ERROR_BAD_FRAMING, "chunks do not exist in %s; send a Content-Length", version);
    if (is_1_1 && framing.hosts != 1)
        return error_set(error, ERROR_BAD_FRAMING, "HTTP/1.1 needs exactly one Host header, there are %u",
                         framing.hosts);
    return true;
}
