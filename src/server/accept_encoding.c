#include "server/accept_encoding.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define FULL_WEIGHT 1000

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static const char *trim(const char *begin, const char **end)
{
    while (begin < *end && is_space(*begin))
        begin++;
    while (begin < *end && is_space((*end)[-1]))
        (*end)--;
    return begin;
}

/* "0", "1", "0.25", "1.000": up to three digits behind the point, and nothing above 1. */
static bool read_weight(const char *begin, const char *end, short *weight)
{
    short thousandths, digit_worth = 100;
    if (begin == end || (*begin != '0' && *begin != '1'))
        return false;
    thousandths = (short)((*begin++ - '0') * FULL_WEIGHT);
    if (begin < end && *begin++ != '.')
        return false;
    if (end - begin > 3)
        return false;
    for (; begin < end; begin++, digit_worth /= 10) {
        if (*begin < '0' || *begin > '9')
            return false;
        thousandths = (short)(thousandths + (*begin - '0') * digit_worth);
    }
    if (thousandths > FULL_WEIGHT)
        return false;
    *weight = thousandths;
    return true;
}

/* ";q=0.5", with spaces around the semicolon only; nothing at all is a weight of 1. */
static bool read_parameter(const char *begin, const char *end, short *weight)
{
    *weight = FULL_WEIGHT;
    if (begin == end)
        return true;
    begin = trim(begin + 1, &end);
    return end - begin > 2 && (*begin == 'q' || *begin == 'Q') && begin[1] == '=' &&
           read_weight(begin + 2, end, weight);
}

static bool is_name(const char *begin, const char *end, const char *name)
{
    return (size_t)(end - begin) == strlen(name) && strncasecmp(begin, name, strlen(name)) == 0;
}

/* One element between commas. */
static void read_element(struct accept_encoding *accepted, const char *begin, const char *end)
{
    const char *semicolon = memchr(begin, ';', (size_t)(end - begin)), *name_end = semicolon ? semicolon : end;
    short weight;
    if (!read_parameter(name_end, end, &weight))
        return;
    begin = trim(begin, &name_end);
    if (is_name(begin, name_end, "gzip") || is_name(begin, name_end, "x-gzip"))
        accepted->gzip = weight;
    else if (is_name(begin, name_end, "identity"))
        accepted->identity = weight;
    else if (is_name(begin, name_end, "*"))
        accepted->any = weight;
}

void accept_encoding_read(struct accept_encoding *accepted, const char *value, size_t length)
{
    const char *end = value + length;
    while (value < end) {
        const char *comma = memchr(value, ',', (size_t)(end - value)), *element_end = comma ? comma : end;
        value = trim(value, &element_end);
        read_element(accepted, value, element_end);
        value = comma ? comma + 1 : end;
    }
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
