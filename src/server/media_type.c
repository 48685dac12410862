/* Which of our media types a header means. Pure functions: any thread. */
#include "server/media_type.h"

#include "server/quality.h"

#include <string.h>

static const char *const NAMES[MEDIA_TYPE_COUNT] = {
#define MEDIA_TYPE_NAME(code, name) [code] = name,
    MEDIA_TYPES(MEDIA_TYPE_NAME)
#undef MEDIA_TYPE_NAME
};

/* How precisely a range of Accept names a type. */
enum { NOT_NAMED, ANY_TYPE, ANY_APPLICATION, THIS_TYPE, WITH_PARAMETERS };

const char *media_type_name(enum media_type type)
{
    return NAMES[type];
}

enum media_type media_type_of(const char *content_type)
{
    struct header_part rest = {content_type, content_type + strlen(content_type)}, name;
    unsigned type = 0;
    if (!header_next_part(&rest, ';', &name))
        return MEDIA_TYPE_COUNT;
    while (type < MEDIA_TYPE_COUNT && !header_part_is(&name, NAMES[type]))
        type++;
    return (enum media_type)type;
}

bool media_type_is_octets(const char *content_type)
{
    struct header_part rest = {content_type, content_type + strlen(content_type)}, name;
    return header_next_part(&rest, ';', &name) && header_part_is(&name, "application/octet-stream");
}

/* The q of a range among its parameters; the number of others is added to *others. */
static bool read_parameters(struct header_part rest, short *weight, unsigned *others)
{
    struct header_part parameter;
    *weight = QUALITY_FULL;
    while (header_next_part(&rest, ';', &parameter)) {
        struct header_part whole = parameter, name;
        if (!header_next_part(&parameter, '=', &name))
            continue;
        if (!header_part_is(&name, "q"))
            ++*others;
        else if (!quality_read(&whole, weight))
            return false;
    }
    return true;
}

static void read_range(struct accept *accept, struct header_part rest)
{
    struct header_part range;
    short weight;
    unsigned parameters = 0;
    if (!header_next_part(&rest, ';', &range) || !read_parameters(rest, &weight, &parameters))
        return;
    for (unsigned type = 0; type < MEDIA_TYPE_COUNT; type++) {
        unsigned precision = header_part_is(&range, NAMES[type])       ? (parameters ? WITH_PARAMETERS : THIS_TYPE)
                             : header_part_is(&range, "application/*") ? ANY_APPLICATION
                             : header_part_is(&range, "*/*")           ? ANY_TYPE
                                                                       : NOT_NAMED;
        if (precision == NOT_NAMED || precision < accept->types[type].precision)
            continue;
        accept->types[type].precision = precision;
        accept->types[type].weight = weight;
    }
}

void accept_read(struct accept *accept, const char *value)
{
    struct header_part rest = {value, value + strlen(value)}, range;
    while (header_next_part(&rest, ',', &range))
        read_range(accept, range);
}

enum media_type accept_choose(const struct accept *accept)
{
    enum media_type best = MEDIA_JSON;
    for (unsigned type = MEDIA_JSON + 1; type < MEDIA_TYPE_COUNT; type++) {
        short weight = accept->types[type].weight, least = accept->types[best].weight;
        if (weight > least ||
            (weight == least && weight > 0 && accept->types[type].precision > accept->types[best].precision))
            best = (enum media_type)type;
    }
    return best;
}
