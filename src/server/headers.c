/* One walk over the headers: see headers.h. On the polling thread. */
#include "server/headers.h"

#include <strings.h>

static const struct {
    const char *name;
    size_t length;
} KNOWN[HEADER_COUNT] = {
#define KNOWN_HEADER(code, name) [code] = {name, sizeof name - 1},
    HEADERS(KNOWN_HEADER)
#undef KNOWN_HEADER
};

static enum header find(const char *name, size_t length)
{
    unsigned header = 0;
    while (header < HEADER_COUNT && (KNOWN[header].length != length || strcasecmp(KNOWN[header].name, name) != 0))
        header++;
    return (enum header)header;
}

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *name, size_t name_length,
                               const char *value, size_t value_length)
{
    struct headers *headers = context;
    const enum header header = find(name, name_length);
    (void)kind;
    if (header == HEADER_COUNT) {
        guard_look_at_name(&headers->strange, name, name_length);
        return MHD_YES;
    }
    struct header_lines *lines = &headers->lines[header];
    lines->last = value ? value : "";
    lines->last_length = value ? value_length : 0;
    if (lines->count++ == 0)
        lines->first = lines->last;
    if (header == HEADER_ACCEPT)
        accept_read(&headers->accept, lines->last);
    if (header == HEADER_ACCEPT_ENCODING)
        accept_encoding_read(&headers->accept_encoding, lines->last, lines->last_length);
    return MHD_YES;
}

void headers_read(struct headers *headers, struct MHD_Connection *mhd)
{
    headers->accept_encoding = ACCEPT_ENCODING_NONE;
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, look_at, headers);
}
