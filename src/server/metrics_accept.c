#include "server/metrics_accept.h"

#include "server/quality.h"

#include <string.h>

enum { NOT_NAMED, ANY_TYPE, ANY_SUBTYPE, THIS_TYPE, THIS_VERSION };

static const struct {
    const char *type, *any, *version;
} FORMATS[] = {
    [EXPOSITION_PROMETHEUS] = {"text/plain", "text/*", "0.0.4"},
    [EXPOSITION_OPENMETRICS] = {"application/openmetrics-text", "application/*", "1.0.0"},
};

/* Its q, and its version or nothing; other parameters say what we do anyway. */
static bool read_parameters(struct header_part rest, short *weight, struct header_part *version)
{
    struct header_part parameter;
    *weight = QUALITY_FULL;
    *version = (struct header_part){NULL, NULL};
    while (header_next_part(&rest, ';', &parameter)) {
        struct header_part whole = parameter, name;
        if (!header_next_part(&parameter, '=', &name))
            continue;
        if (header_part_is(&name, "version"))
            *version = parameter;
        else if (header_part_is(&name, "q") && !quality_read(&whole, weight))
            return false;
    }
    return true;
}

static unsigned precision_of(const struct header_part *range, const struct header_part *version, unsigned format)
{
    if (header_part_is(range, FORMATS[format].type))
        return !version->begin                                    ? THIS_TYPE
               : header_part_is(version, FORMATS[format].version) ? THIS_VERSION
                                                                  : NOT_NAMED;
    return header_part_is(range, FORMATS[format].any) ? ANY_SUBTYPE
           : header_part_is(range, "*/*")             ? ANY_TYPE
                                                      : NOT_NAMED;
}

void metrics_accept_read(struct metrics_accept *accept, const char *value)
{
    struct header_part rest = {value, value + strlen(value)}, element, range, version;
    short weight;
    while (header_next_part(&rest, ',', &element)) {
        if (!header_next_part(&element, ';', &range) || !read_parameters(element, &weight, &version))
            continue;
        for (unsigned format = 0; format < sizeof FORMATS / sizeof *FORMATS; format++) {
            const unsigned precision = precision_of(&range, &version, format);
            if (precision == NOT_NAMED || precision < accept->formats[format].precision)
                continue;
            accept->formats[format].precision = precision;
            accept->formats[format].weight = weight;
        }
    }
}

enum exposition_format metrics_accept_choose(const struct metrics_accept *accept)
{
    const short text = accept->formats[EXPOSITION_PROMETHEUS].weight,
                open = accept->formats[EXPOSITION_OPENMETRICS].weight;
    const bool preferred = open > text || (open == text && open > 0 &&
                                           accept->formats[EXPOSITION_OPENMETRICS].precision >
                                               accept->formats[EXPOSITION_PROMETHEUS].precision);
    /* A whole family of types is no wish for this one. */
    return preferred && accept->formats[EXPOSITION_OPENMETRICS].precision >= THIS_TYPE ? EXPOSITION_OPENMETRICS
                                                                                       : EXPOSITION_PROMETHEUS;
}
