#include "server/accept_encoding.h"

#include "server/quality.h"

#include <stdbool.h>
#include <string.h>

/* One element between commas. Its only parameter is the weight, which is 1 where it is not there. */
static void read_element(struct accept_encoding *accepted, struct header_part element)
{
    struct header_part name, parameter;
    short weight = QUALITY_FULL;
    const bool alone = !memchr(element.begin, ';', (size_t)(element.end - element.begin));
    if (!header_next_part(&element, ';', &name))
        return;
    if (!alone && (!header_next_part(&element, ';', &parameter) || element.begin < element.end ||
                   !quality_read(&parameter, &weight)))
        return;
    if (header_part_is(&name, "gzip") || header_part_is(&name, "x-gzip"))
        accepted->gzip = weight;
    else if (header_part_is(&name, "identity"))
        accepted->identity = weight;
    else if (header_part_is(&name, "*"))
        accepted->any = weight;
}

void accept_encoding_read(struct accept_encoding *accepted, const char *value, size_t length)
{
    struct header_part rest = {value, value + length}, element;
    while (header_next_part(&rest, ',', &element))
        read_element(accepted, element);
}

enum accepted_coding accept_encoding_choose(const struct accept_encoding *accepted)
{
    const short gzip = accepted->gzip >= 0 ? accepted->gzip : accepted->any;
    const short identity = accepted->identity >= 0 ? accepted->identity : accepted->any;
    if (gzip <= 0)
        return ACCEPTED_IDENTITY;
    if (identity == 0)
        return ACCEPTED_ONLY_GZIP;
    /* Not named, it is acceptable, and everything that is named is wanted more. */
    return gzip >= identity ? ACCEPTED_GZIP : ACCEPTED_IDENTITY;
}
