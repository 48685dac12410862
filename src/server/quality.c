/* Lists in headers, piece by piece. Pure functions: any thread. */
#include "server/quality.h"

#include <string.h>
#include <strings.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

bool header_next_part(struct header_part *rest, char separator, struct header_part *part)
{
    const char *at = rest->begin, *begin = at;
    bool quoted = false;
    if (at == rest->end)
        return false;
    for (; at < rest->end && (quoted || *at != separator); at++) {
        if (*at == '"')
            quoted = !quoted;
        else if (quoted && *at == '\\' && at + 1 < rest->end)
            at++;
    }
    rest->begin = at < rest->end ? at + 1 : at;
    while (begin < at && is_space(*begin))
        begin++;
    while (begin < at && is_space(at[-1]))
        at--;
    *part = (struct header_part){begin, at};
    return true;
}

bool header_part_is(const struct header_part *part, const char *text)
{
    const size_t length = strlen(text);
    return (size_t)(part->end - part->begin) == length && strncasecmp(part->begin, text, length) == 0;
}

bool quality_read(const struct header_part *parameter, short *weight)
{
    const char *at = parameter->begin, *end = parameter->end;
    short thousandths, digit_worth = 100;
    if (end - at < 3 || (*at != 'q' && *at != 'Q') || at[1] != '=' || (at[2] != '0' && at[2] != '1'))
        return false;
    thousandths = (short)((at[2] - '0') * QUALITY_FULL);
    at += 3;
    if (at < end && *at++ != '.')
        return false;
    if (end - at > 3)
        return false;
    for (; at < end; at++, digit_worth /= 10) {
        if (*at < '0' || *at > '9')
            return false;
        thousandths = (short)(thousandths + (*at - '0') * digit_worth);
    }
    if (thousandths > QUALITY_FULL)
        return false;
    *weight = thousandths;
    return true;
}
