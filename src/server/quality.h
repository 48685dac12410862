/* Elements and weights of headers that are lists of what a client takes (RFC 9110, sections 5.6.1 and 12.4.2). */
#ifndef ATTND_SERVER_QUALITY_H
#define ATTND_SERVER_QUALITY_H

#include <stdbool.h>

#define QUALITY_FULL 1000

/* A piece of a header's text. */
struct header_part {
    const char *begin, *end;
};

/* Cuts the first part off *rest, up to `separator` (outside of quotes) or the end, without the spaces around it. False
 * when nothing is left. */
bool header_next_part(struct header_part *rest, char separator, struct header_part *part);

/* Whether the part is this text, in any case. */
bool header_part_is(const struct header_part *part, const char *text);

/* "q=0", "q=1", "Q=0.25", "q=1.000" as thousandths: up to three digits behind the point, and nothing above 1. False for
 * anything else. */
bool quality_read(const struct header_part *parameter, short *weight);

#endif
