/* Formatting of log lines: see log_format.h. Entered by every thread that logs, on its own stack. */
#include "telemetry/log_format.h"

#include "base/utf8.h"

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

static void put(struct line *line, const char *bytes, size_t length)
{
    if (length > line->capacity - line->length) {
        line->full = true;
        return;
    }
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* At least `digits` digits, with leading zeros. */
static void put_digits(struct line *line, uint64_t value, unsigned digits)
{
    char text[20]; /* 2^64 - 1 has 20 digits */
    size_t at = sizeof text;
    for (; value || digits; value /= 10, digits -= digits > 0)
        text[--at] = (char)('0' + value % 10);
    put(line, text + at, sizeof text - at);
}

static void put_integer(struct line *line, int64_t value)
{
    if (value < 0)
        put_text(line, "-");
    put_digits(line, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
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
    uint64_t whole = (uint64_t)fabs(value);
    unsigned fraction = (unsigned)((fabs(value) - (double)whole) * 1000 + 0.5), digits = 3;
    whole += fraction == 1000;
    fraction %= 1000;
    if (value < 0 && (whole || fraction))
        put_text(line, "-");
    put_digits(line, whole, 1);
    if (!fraction)
        return;
    for (; fraction % 10 == 0; fraction /= 10)
        digits--;
    put_text(line, ".");
    put_digits(line, fraction, digits);
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
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
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
    bool json = line->format == LOG_JSON;
    put_text(line, json ? ",\"" : " ");
    put_text(line, field->name);
    put_text(line, json ? "\":" : "=");
    put_value(line, field);
}

/* "2026-01-31T12:00:00.123Z". Not gmtime_r, which may read the time zone's file first. */
static void put_time(struct line *line, const struct timespec *now)
{
    uint64_t seconds = now->tv_sec > 0 ? (uint64_t)now->tv_sec : 0, day = seconds / 86400, second = seconds % 86400;
    unsigned year = 1970, month = 0;
    bool leap;
    for (;; year++) {
        leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        if (day < 365U + leap)
            break;
        day -= 365U + leap;
    }
    const unsigned month_days[12] = {31, 28U + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (; day >= month_days[month]; month++)
        day -= month_days[month];
    put_digits(line, year, 4);
    put_text(line, "-");
    put_digits(line, month + 1, 2);
    put_text(line, "-");
    put_digits(line, day + 1, 2);
    put_text(line, "T");
    put_digits(line, second / 3600, 2);
    put_text(line, ":");
    put_digits(line, second / 60 % 60, 2);
    put_text(line, ":");
    put_digits(line, second % 60, 2);
    put_text(line, ".");
    put_digits(line, (uint64_t)now->tv_nsec / 1000000, 3);
    put_text(line, "Z");
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
