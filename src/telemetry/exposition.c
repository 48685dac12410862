/* Both formats are lines of the same samples; they differ in the names of families, in units, exemplars and the end.
 * See https://prometheus.io/docs/instrumenting/exposition_formats/ and the OpenMetrics specification, version 1.0.
 * Pure: any thread with an exposition of its own. */
#include "telemetry/exposition.h"

#include "json/number.h"

#include <math.h>

#define KIND_NAMES_COUNTER   "counter", "_total"
#define KIND_NAMES_GAUGE     "gauge", ""
#define KIND_NAMES_HISTOGRAM "histogram", ""
#define KIND_NAMES_INFO      "info", "_info"

static const struct {
    const char *family, *unit, *labels, *help;
    const char *kind, *suffix; /* in OpenMetrics; of its samples */
} METRIC_TABLE[METRIC_COUNT] = {
#define METRIC_ROW(code, kind, family, unit, labels, help) \
    [METRIC_##code] = {family, unit, labels, help, KIND_NAMES_##kind},
    METRICS(METRIC_ROW)
#undef METRIC_ROW
};

const char *exposition_media_type(enum exposition_format format)
{
    return format == EXPOSITION_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
}

const char *metric_family(enum metric metric)
{
    return METRIC_TABLE[metric].family;
}

/* "# WORD NAME REST" */
static void comment(struct exposition *exposition, const char *word, const char *rest)
{
    struct text *text = exposition->text;
    text_append_string(text, "# ");
    text_append_string(text, word);
    text_append(text, " ", 1);
    text_append_string(text, METRIC_TABLE[exposition->metric].family);
    if (exposition->format == EXPOSITION_PROMETHEUS)
        text_append_string(text, METRIC_TABLE[exposition->metric].suffix);
    text_append(text, " ", 1);
    text_append_string(text, rest);
    text_append(text, "\n", 1);
}

void exposition_family(struct exposition *exposition, enum metric metric)
{
    const bool open = exposition->format == EXPOSITION_OPENMETRICS;
    const char *kind = METRIC_TABLE[metric].kind, *unit = METRIC_TABLE[metric].unit;
    exposition->metric = metric;
    comment(exposition, "HELP", METRIC_TABLE[metric].help);
    comment(exposition, "TYPE", !open && strcmp(kind, "info") == 0 ? "gauge" : kind);
    if (open && *unit)
        comment(exposition, "UNIT", unit);
}

/* What ends a value, a line or a letter of its own. */
static void append_escaped(struct text *text, const char *value)
{
    for (const char *at = value;;) {
        const size_t plain = strcspn(at, "\\\"\n");
        text_append(text, at, plain);
        at += plain;
        if (!*at)
            return;
        text_append_string(text, *at == '\n' ? "\\n" : *at == '"' ? "\\\"" : "\\\\");
        at++;
    }
}

/* The name and its labels, and those with another one. */
static void begin_sample(struct exposition *exposition, const char *suffix, const char *const *values,
                         const char *bound)
{
    struct text *text = exposition->text;
    const char *name = METRIC_TABLE[exposition->metric].labels, *separator = "{";
    text_append_string(text, METRIC_TABLE[exposition->metric].family);
    text_append_string(text, suffix);
    for (size_t i = 0; *name; i++) {
        const size_t length = strcspn(name, ",");
        text_append(text, separator, 1);
        text_append(text, name, length);
        text_append(text, "=\"", 2);
        append_escaped(text, values[i]);
        text_append(text, "\"", 1);
        separator = ",";
        name += length + (name[length] == ',');
    }
    if (bound) {
        text_append(text, separator, 1);
        text_append(text, "le=\"", 4);
        text_append_string(text, bound);
        text_append(text, "\"", 1);
        separator = ",";
    }
    text_append_string(text, *separator == ',' ? "} " : " ");
}

/* Below this a number has nine places behind the point, those of a nanosecond: far cheaper than the shortest text that
 * reads back as the same, and as good for a sum. What grows never falls by its rounding. */
#define FIXED_BELOW  1e15
#define FIXED_PLACES 9
#define FIXED_UNIT   UINT64_C(1000000000)

static void append_fixed(struct text *text, double value)
{
    uint64_t whole = (uint64_t)value, part = (uint64_t)((value - (double)whole) * (double)FIXED_UNIT + 0.5);
    char digits[1 + FIXED_PLACES] = ".";
    size_t length = sizeof digits;
    if (part == FIXED_UNIT) {
        whole++;
        part = 0;
    }
    for (size_t i = FIXED_PLACES; i > 0; i--, part /= 10)
        digits[i] = (char)('0' + part % 10);
    while (length > 2 && digits[length - 1] == '0')
        length--;
    text_append_size(text, whole);
    text_append(text, digits, length);
}

static void append_number(struct text *text, double value)
{
    if (fabs(value) < FIXED_BELOW) {
        if (value < 0)
            text_append(text, "-", 1);
        append_fixed(text, fabs(value));
    } else if (isfinite(value)) {
        char *to = text_reserve(text, 32);
        text->length += to ? (size_t)(number_write_f64(to, value) - to) : 0;
    } else {
        text_append_string(text, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
}

static void end_integer(struct exposition *exposition, uint64_t value)
{
    text_append_size(exposition->text, value);
    text_append(exposition->text, "\n", 1);
}

static void end_number(struct exposition *exposition, double value)
{
    append_number(exposition->text, value);
    text_append(exposition->text, "\n", 1);
}

void exposition_integer(struct exposition *exposition, const char *const *values, uint64_t value)
{
    begin_sample(exposition, METRIC_TABLE[exposition->metric].suffix, values, NULL);
    end_integer(exposition, value);
}

void exposition_number(struct exposition *exposition, const char *const *values, double value)
{
    begin_sample(exposition, METRIC_TABLE[exposition->metric].suffix, values, NULL);
    end_number(exposition, value);
}

static void append_exemplar(struct text *text, const struct exemplar *exemplar, double per_unit)
{
    text_append_string(text, " # {trace_id=\"");
    text_append_string(text, exemplar->trace_id);
    text_append_string(text, "\"} ");
    append_number(text, (double)exemplar->value / per_unit);
    text_append_format(text, " %.3f", (double)exemplar->at / 1e9);
}

void exposition_histogram(struct exposition *exposition, const char *const *values, const struct histogram_scale *scale,
                          const struct histogram *histogram, const struct exemplar *exemplars)
{
    uint64_t below = 0;
    for (unsigned i = 0; i <= scale->count; i++) {
        below += histogram->buckets[i];
        begin_sample(exposition, "_bucket", values, i < scale->count ? scale->text[i] : "+Inf");
        text_append_size(exposition->text, below);
        if (exposition->format == EXPOSITION_OPENMETRICS && exemplars && exemplars[i].trace_id[0])
            append_exemplar(exposition->text, &exemplars[i], scale->per_unit);
        text_append(exposition->text, "\n", 1);
    }
    begin_sample(exposition, "_sum", values, NULL);
    end_number(exposition, (double)histogram->sum / scale->per_unit);
    begin_sample(exposition, "_count", values, NULL);
    end_integer(exposition, below);
}

void exposition_end(struct exposition *exposition)
{
    if (exposition->format == EXPOSITION_OPENMETRICS)
        text_append_string(exposition->text, "# EOF\n");
}
