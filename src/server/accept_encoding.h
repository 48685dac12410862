/* What codings a client takes: the header Accept-Encoding (RFC 9110, section 12.5.3), as far as gzip and none at all
 * are concerned. */
#ifndef ATTND_SERVER_ACCEPT_ENCODING_H
#define ATTND_SERVER_ACCEPT_ENCODING_H

#include <stddef.h>

/* Weights in thousandths of what has been read of the header. */
struct accept_encoding {
    short gzip, identity, any; /* -1: not named */
};

#define ACCEPT_ENCODING_NONE ((struct accept_encoding){-1, -1, -1})

/* Reads one header line of several, `value` [length]. What is no element of such a list is passed over; of what is
 * named twice the last counts. */
void accept_encoding_read(struct accept_encoding *accepted, const char *value, size_t length);

enum accepted_coding {
    ACCEPTED_IDENTITY, /* as it is: gzip is not wanted, or less than that */
    ACCEPTED_GZIP,     /* gzip, where it pays */
    ACCEPTED_ONLY_GZIP /* not as it is, but gzip */
};

/* Without a header, and where neither is accepted, it is as it is. */
enum accepted_coding accept_encoding_choose(const struct accept_encoding *accepted);

#endif
