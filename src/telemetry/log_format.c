/* Formatting of log lines: see log_format.h. Entered by every thread that logs, on its own stack. */
#include "telemetry/log_format.h"

#include "base/utf8.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS    "\xE2\x80\xA6"
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

struct line {
    char *bytes;
    size_t length, capacity;
    bool full; /* something did not fit; what is there is incomplete */
    enum log_format format;
    size_t string_bytes; /* a string's bytes in the line, without quotes and ellipsis, are at most this */
};

/* Room for `length` bytes more, which become part of the line; NULL: there is none. */
static char *take(struct line *line, size_t length)
{
    if (length > line->capacity - line->length) {
        line->full = true;
        return NULL;
    }
    char *to = line->bytes + line->length;
    line->length += length;
    return to;
}

static void put(struct line *line, const char *bytes, size_t length)
{
    char *to = take(line, length);
    if (to)
        memcpy(to, bytes, length);
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Writes at least `digits` digits, with leading zeros, up to `end`; returns where they begin. 2^64 - 1 has 20. */
static char *write_digits(char *end, uint64_t value, unsigned digits)
{
    for (; value || digits; value /= 10, digits -= digits > 0)
        *--end = (char)('0' + value % 10);
    return end;
}

static void put_integer(struct line *line, int64_t value)
{
    char text[21], *end = text + sizeof text;
    char *begin = write_digits(end, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
    if (value < 0)
        *--begin = '-';
    put(line, begin, (size_t)(end - begin));
}

static void put_number(struct line *line, double value)
{
    if (!isfinite(value)) {
        put_text(line, "null");
        return;
    }
    if (fabs(value) >= 1e15) { /* its decimals are noise, and it may not fit in 64 bits */
        char text[312];        /* 309 digits, the sign, the NUL */
        snprintf(text, sizeof text, "%.0f", value);
        put_text(line, text);
        put_text(line, ".0"); /* readers refuse a long number that looks like an integer */
        return;
    }
    char text[20], *end = text + sizeof text, *begin = end; /* the sign, 15 digits, the point, 3 digits */
    uint64_t whole = (uint64_t)fabs(value);
    unsigned fraction = (unsigned)((fabs(value) - (double)whole) * 1000 + 0.5), digits = 3;
    whole += fraction == 1000;
    fraction %= 1000;
    if (fraction) {
        for (; fraction % 10 == 0; fraction /= 10)
            digits--;
        begin = write_digits(begin, fraction, digits);
        *--begin = '.';
    }
    begin = write_digits(begin, whole, 1);
    if (value < 0 && (whole || fraction))
        *--begin = '-';
    put(line, begin, (size_t)(end - begin));
}

/* What stands for the character at `string`, which is not its end: returns its bytes in the line and stores how many of
 * the string it takes. */
static size_t escape(const char *string, const char **bytes, char own[6], size_t *taken)
{
    static const char HEX[] = "0123456789abcdef";
    unsigned char c = (unsigned char)*string;
    *taken = 1;
    if (c >= 0x80) {
        size_t sequence = utf8_sequence(string, 4); /* it ends at a NUL, which continues nothing */
        *bytes = sequence ? string : REPLACEMENT;
        *taken = sequence ? sequence : 1;
        return sequence ? sequence : strlen(REPLACEMENT);
    }
    *bytes = own;
    if (c == '"' || c == '\\') {
        own[0] = '\\';
        own[1] = (char)c;
        return 2;
    }
    if (c >= 0x20 && c != 0x7F) {
        *bytes = string;
        return 1;
    }
    const char *letter = strchr("\bb\ff\nn\rr\tt", c);
    own[0] = '\\';
    if (letter) {
        own[1] = letter[1];
        return 2;
    }
    memcpy(own + 1, "u00", 3);
    own[4] = HEX[c >> 4];
    own[5] = HEX[c & 15];
    return 6;
}

static bool is_plain(unsigned char c)
{
    static const bool plain[UCHAR_MAX + 1] = {[' ' ... '!'] = true, ['#' ... '['] = true, [']' ... '~'] = true};
    return plain[c];
}

static void put_escaped(struct line *line, const char *string)
{
    for (size_t written = 0; *string;) {
        size_t room = line->string_bytes - written, plain = 0;
        while (plain < room && is_plain((unsigned char)string[plain]))
            plain++;
        put(line, string, plain);
        written += plain;
        string += plain;
        if (!*string)
            return;
        const char *bytes;
        char own[6];
        size_t taken, length = escape(string, &bytes, own, &taken);
        if (length > line->string_bytes - written) {
            put_text(line, ELLIPSIS);
            return;
        }
        put(line, bytes, length);
        written += length;
        string += taken;
    }
}

/* In text, a value stands bare when it cannot be mistaken for two, for a list or for an escape. */
static bool needs_quotes(const struct line *line, const char *string)
{
    size_t i = 0;
    while (i < line->string_bytes && is_plain((unsigned char)string[i]) && !strchr(" =,", string[i]))
        i++;
    return i == 0 || (string[i] != '\0' && i < line->string_bytes);
}

static void put_string(struct line *line, const char *string)
{
    if (!string) {
        put_text(line, "null");
        return;
    }
    bool quotes = line->format == LOG_JSON || needs_quotes(line, string);
    if (quotes)
        put_text(line, "\"");
    put_escaped(line, string);
    if (quotes)
        put_text(line, "\"");
}

static void put_value(struct line *line, const struct log_field *field)
{
    bool json = line->format == LOG_JSON;
    switch (field->kind) {
    case LOG_KIND_STRING:
        put_string(line, field->string);
        break;
    case LOG_KIND_INTEGER:
        put_integer(line, field->integer);
        break;
    case LOG_KIND_NUMBER:
        put_number(line, field->number);
        break;
    case LOG_KIND_BOOL:
        put_text(line, field->boolean ? "true" : "false");
        break;
    case LOG_KIND_STRINGS:
        put_text(line, json ? "[" : "");
        for (size_t i = 0; i < field->strings.count && !line->full; i++) {
            put_text(line, i ? "," : "");
            put_string(line, field->strings.items[i]);
        }
        put_text(line, json ? "]" : "");
        break;
    }
}

static bool is_absent(const struct log_field *field)
{
    return (field->kind == LOG_KIND_STRING && !field->string) ||
           (field->kind == LOG_KIND_STRINGS && !field->strings.items);
}

static void put_field(struct line *line, const struct log_field *field)
{
    const size_t length = strlen(field->name);
    const bool json = line->format == LOG_JSON;
    char *to = take(line, length + (json ? 4 : 2));
    if (!to)
        return;
    *to++ = json ? ',' : ' ';
    if (json)
        *to++ = '"';
    memcpy(to, field->name, length);
    to += length;
    if (json)
        *to++ = '"';
    *to = json ? ':' : '=';
    put_value(line, field);
}

/* The date, `day` days after 1970-01-01. By years of 365 days that begin with March, so that a leap day is the last of
 * its year, in cycles of 400 years. */
static char *write_date(char *end, uint64_t day)
{
    const uint64_t cycle_days = 146097, shifted = day + 719468, cycle = shifted / cycle_days,
                   in_cycle = shifted % cycle_days;
    const uint64_t year_in_cycle = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / (cycle_days - 1)) / 365;
    const uint64_t in_year = in_cycle - (365 * year_in_cycle + year_in_cycle / 4 - year_in_cycle / 100);
    const uint64_t from_march = (5 * in_year + 2) / 153; /* months of 31, 30, 31, 30, 31 days, and again */
    const uint64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
    end = write_digits(end, in_year - (153 * from_march + 2) / 5 + 1, 2);
    *--end = '-';
    end = write_digits(end, month, 2);
    *--end = '-';
    return write_digits(end, year_in_cycle + 400 * cycle + (month <= 2), 4);
}

/* "2026-01-31T12:00:00.123Z". Not gmtime_r, which may read the time zone's file first. */
static void put_time(struct line *line, const struct timespec *now)
{
    const uint64_t seconds = now->tv_sec > 0 ? (uint64_t)now->tv_sec : 0, second = seconds % 86400;
    char text[40], *end = text + sizeof text, *begin = end;
    *--begin = 'Z';
    begin = write_digits(begin, (uint64_t)now->tv_nsec / 1000000, 3);
    *--begin = '.';
    begin = write_digits(begin, second % 60, 2);
    *--begin = ':';
    begin = write_digits(begin, second / 60 % 60, 2);
    *--begin = ':';
    begin = write_digits(begin, second / 3600, 2);
    *--begin = 'T';
    begin = write_date(begin, seconds / 86400);
    put(line, begin, (size_t)(end - begin));
}

static void put_head(struct line *line, const struct timespec *now, enum log_level level, const char *event)
{
    bool json = line->format == LOG_JSON;
    put_text(line, json ? "{\"ts\":\"" : "");
    put_time(line, now);
    put_text(line, json ? "\",\"level\":\"" : " ");
    put_text(line, log_level_name(level));
    put_text(line, json ? "\",\"event\":" : " ");
    put_string(line, event);
}

/* With `leave_out`, a field that does not fit is taken back; without, it leaves the line full. */
static void put_line(struct line *line, size_t string_bytes, bool leave_out, const struct timespec *now,
                     enum log_level level, const char *event, const struct log_field *fields, size_t count)
{
    line->length = 0;
    line->full = false;
    line->string_bytes = string_bytes;
    put_head(line, now, level, event);
    for (size_t i = 0; i < count && !line->full; i++) {
        size_t before = line->length;
        if (!is_absent(&fields[i]))
            put_field(line, &fields[i]);
        if (line->full && leave_out) {
            line->length = before;
            line->full = false;
        }
    }
}

size_t log_format_line(char *bytes, enum log_format format, const struct timespec *now, enum log_level level,
                       const char *event, const struct log_field *fields, size_t count)
{
    const char *end = format == LOG_JSON ? "}\n" : "\n";
    struct line line = {.bytes = bytes, .capacity = LOG_LINE_BYTES - strlen(end), .format = format};
    put_line(&line, LOG_LINE_BYTES, false, now, level, event, fields, count);
    if (line.full) {
        /* The longest strings are those above the largest limit with which the line fits. */
        size_t fits = 16, too_long = LOG_LINE_BYTES;
        while (too_long - fits > 1) {
            size_t middle = fits + (too_long - fits) / 2;
            put_line(&line, middle, false, now, level, event, fields, count);
            *(line.full ? &too_long : &fits) = middle;
        }
        put_line(&line, fits, true, now, level, event, fields, count);
    }
    line.capacity += strlen(end);
    put_text(&line, end);
    return line.length;
}

static const char *const LEVEL_NAMES[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARNING] = "warning", [LOG_ERROR] = "error"};
static const char *const FORMAT_NAMES[] = {[LOG_JSON] = "json", [LOG_TEXT] = "text"};

const char *log_level_name(enum log_level level)
{
    return LEVEL_NAMES[level];
}

static bool find_name(const char *const *names, unsigned count, const char *name, unsigned *found)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            *found = i;
            return true;
        }
    }
    return false;
}

bool log_level_from_name(const char *name, enum log_level *level)
{
    unsigned found;
    if (!find_name(LEVEL_NAMES, sizeof LEVEL_NAMES / sizeof *LEVEL_NAMES, name, &found))
        return false;
    *level = (enum log_level)found;
    return true;
}

bool log_format_from_name(const char *name, enum log_format *format)
{
    unsigned found;
    if (!find_name(FORMAT_NAMES, sizeof FORMAT_NAMES / sizeof *FORMAT_NAMES, name, &found))
        return false;
    *format = (enum log_format)found;
    return true;
}
