/* Pure: any thread. */
#include "server/live_query.h"

#include "analysis/live_similarity.h"
#include "base/nearest.h"
#include "base/percent.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value, decoded. Lists of all heads of a large set fit. */
#define VALUE_BYTES 8192

#define PARAMETER_NAME(code, name) name,
static const char *const names[LIVE_PARAMETER_COUNT] = {LIVE_PARAMETERS(PARAMETER_NAME)};

static bool wrong(enum live_parameter parameter, const char *value, struct error *error, const char *expected)
{
    return error_set(error, ERROR_INVALID, "query parameter %s: expected %s, got \"%.100s\"", names[parameter],
                     expected, value);
}

static bool read_number(enum live_parameter parameter, const char *value, double least, double most,
                        const char *expected, double *number, struct error *error)
{
    char *end;
    const double read = strtod(value, &end);
    if (end == value || *end || isspace((unsigned char)*value) || strpbrk(value, "xXnN") || !isfinite(read) ||
        read < least || read > most)
        return wrong(parameter, value, error, expected);
    *number = read;
    return true;
}

static bool read_count(enum live_parameter parameter, const char *value, double most, const char *expected,
                       double *count, struct error *error)
{
    double read;
    if (!read_number(parameter, value, 0, most, expected, &read, error))
        return false;
    if (read != floor(read))
        return wrong(parameter, value, error, expected);
    *count = read;
    return true;
}

static bool read_metric(const char *value, struct live_query *query, struct error *error)
{
    for (int i = 0; i < SIMILARITY_METRIC_COUNT; i++) {
        const enum similarity_metric metric = (enum similarity_metric)i;
        if (strcmp(similarity_metric_name(metric), value) != 0)
            continue;
        if (!live_similarity_has(metric))
            return error_set(error, ERROR_INVALID,
                             "query parameter metric: \"%s\" does not follow from sums over traffic; expected cosine, "
                             "pearson or centered (POST /v1/heads/similarity has the others)",
                             value);
        query->similarity.metric = metric;
        return true;
    }
    static const char *const known[] = {"cosine", "pearson", "centered"};
    const char *nearest = nearest_name(value, known, 3);
    return error_set(error, ERROR_INVALID,
                     "query parameter metric: expected cosine, pearson or centered, got \"%.100s\"%s%s%s", value,
                     nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* "5m", "300s", "300": a multiple of a slice, up to the whole window. */
static bool read_window(const char *value, const struct config *config, struct live_query *query, struct error *error)
{
    const double slice = config->live.window_s / 10;
    char *end;
    double seconds = strtod(value, &end);
    const double unit = *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
    const bool known = end != value && isdigit((unsigned char)*value) && !strpbrk(value, "xXeE") &&
                       (!*end || (strchr("hms", *end) && !end[1]));
    const double slices = known ? seconds * unit / slice : 0;
    if (!(known && slices >= 0.999 && slices <= 10.001 && fabs(slices - round(slices)) < 1e-6))
        return error_set(error, ERROR_INVALID,
                         "query parameter window: expected a multiple of %gs (a slice) up to %gs (live.window_s), as "
                         "5m or 30s, got \"%.100s\"",
                         slice, config->live.window_s, value);
    query->slices = (unsigned)round(slices);
    return true;
}

static bool read_heads(const char *value, uint32_t *heads, struct live_query *query, struct error *error)
{
    query->heads = heads;
    for (const char *at = value;; at++) {
        char *end = NULL;
        const unsigned long head = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : ULONG_MAX;
        if (head > UINT32_MAX || (*end && *end != ','))
            return wrong(LIVE_PARAMETER_HEADS, value, error, "heads with commas between them, as 0,3");
        for (size_t i = 0; i < query->n_heads; i++)
            if (query->heads[i] == head)
                return error_set(error, ERROR_INVALID, "query parameter include_heads: head %lu is named twice", head);
        query->heads[query->n_heads++] = (uint32_t)head;
        at = end;
        if (!*at)
            return true;
    }
}

/* With the nearest known name or, where none is near, all of them. `behind`: what the message says behind the name. */
static bool unknown_name(enum error_code code, const char *before, const char *name, const char *behind,
                         const char *const *known, size_t count, struct error *error)
{
    const char *nearest = nearest_name(name, known, count);
    char list[512] = "";
    if (nearest)
        return error_set(error, code, "%s \"%.60s\"%s; did you mean \"%s\"?", before, name, behind, nearest);
    for (size_t i = 0, at = 0; i < count && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", known[i]);
    return error_set(error, code, "%s \"%.60s\"%s; there are %s", before, name, behind, list);
}

static bool unknown_statistic(const char *name, struct error *error)
{
    const char *known[HEAD_STATISTIC_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++) {
        if (head_statistic_kinds[i].live)
            known[count++] = head_statistic_kinds[i].name;
        else if (strcmp(head_statistic_kinds[i].name, name) == 0)
            return error_set(error, ERROR_INVALID,
                             "query parameter statistics: \"%s\" does not follow from sums over traffic (POST "
                             "/v1/heads/stats has it)",
                             name);
    }
    return unknown_name(ERROR_INVALID, "query parameter statistics: no live statistic", name, "", known, count, error);
}

static bool read_statistics(char *value, struct live_query *query, struct error *error)
{
    char *rest = value, *name;
    memset(query->statistics, 0, sizeof query->statistics);
    while ((name = strsep(&rest, ","))) {
        size_t i = 0;
        while (i < HEAD_STATISTIC_COUNT &&
               !(head_statistic_kinds[i].live && strcmp(head_statistic_kinds[i].name, name) == 0))
            i++;
        if (i == HEAD_STATISTIC_COUNT)
            return unknown_statistic(name, error);
        query->statistics[i] = true;
    }
    return true;
}

static bool read_value(enum live_parameter parameter, char *value, const struct config *config, uint32_t *heads,
                       struct live_query *query, struct error *error)
{
    double number = 0;
    switch (parameter) {
    case LIVE_PARAMETER_WEIGHTS:
        if (!*value || strlen(value) >= sizeof query->weights)
            return wrong(parameter, value, error, "the name of a weight set");
        strcpy(query->weights, value);
        return true;
    case LIVE_PARAMETER_FORMAT:
        query->rows = strcmp(value, "rows") == 0;
        return query->rows || strcmp(value, "matrix") == 0 || wrong(parameter, value, error, "matrix or rows");
    case LIVE_PARAMETER_WINDOW:
        return read_window(value, config, query, error);
    case LIVE_PARAMETER_METRIC:
        return read_metric(value, query, error);
    case LIVE_PARAMETER_THRESHOLD:
        return query->of_drift ? read_number(parameter, value, 0, 1e6, "a number of standard errors from 0 up",
                                             &query->drift.threshold, error)
                               : read_number(parameter, value, -1, 1, "a similarity from -1 to 1",
                                             &query->similarity.threshold, error);
    case LIVE_PARAMETER_MAX_PAIRS:
        if (!read_count(parameter, value, 1e9, "an integer from 0 up", &number, error))
            return false;
        query->similarity.max_pairs = (size_t)number;
        return true;
    case LIVE_PARAMETER_HEADS:
        return read_heads(value, heads, query, error);
    case LIVE_PARAMETER_STATISTICS:
        return read_statistics(value, query, error);
    case LIVE_PARAMETER_MIN_EFFECT:
        return read_number(parameter, value, 0, 1e6, "a number from 0 up", &query->drift.min_effect, error);
    case LIVE_PARAMETER_MIN_SEQUENCES:
        return read_count(parameter, value, 1e15, "an integer from 0 up", &query->drift.min_sequences, error);
    case LIVE_PARAMETER_COUNT:
        break;
    }
    return true;
}

static bool unknown_parameter(const char *name, unsigned allowed, struct error *error)
{
    const char *known[LIVE_PARAMETER_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < LIVE_PARAMETER_COUNT; i++)
        if (allowed >> i & 1)
            known[count++] = names[i];
    return unknown_name(ERROR_UNKNOWN_MEMBER, "query parameter", name, " is not known here", known, count, error);
}

static bool read_parameter(const char *at, size_t length, unsigned allowed, unsigned *seen, const struct config *config,
                           uint32_t *heads, struct live_query *query, struct error *error)
{
    char name[64], value[VALUE_BYTES];
    const char *equals = memchr(at, '=', length), *behind = equals ? equals + 1 : at + length;
    const size_t name_length = (size_t)((equals ? equals : at + length) - at);
    if (!percent_decode(at, name_length, name, sizeof name))
        return error_set(error, ERROR_INVALID, "a query parameter's name is broken or too long");
    size_t i = 0;
    while (i < LIVE_PARAMETER_COUNT && !((allowed >> i & 1) && strcmp(names[i], name) == 0))
        i++;
    if (i == LIVE_PARAMETER_COUNT)
        return unknown_parameter(name, allowed, error);
    if (*seen >> i & 1)
        return error_set(error, ERROR_INVALID, "query parameter %s is given twice", name);
    *seen |= 1u << i;
    if (!percent_decode(behind, (size_t)(at + length - behind), value, sizeof value))
        return error_set(error, ERROR_INVALID, "query parameter %s: the value is broken or too long", name);
    return read_value((enum live_parameter)i, value, config, heads, query, error);
}

size_t live_query_heads(const char *target)
{
    return strlen(target) / 2 + 1; /* a digit and a comma each */
}

bool live_query_read(const char *target, unsigned allowed, const struct config *config, uint32_t *heads,
                     struct live_query *query, struct error *error)
{
    const char *at = target + strcspn(target, "?#");
    unsigned seen = 0;
    *query = (struct live_query){.of_drift = allowed >> LIVE_PARAMETER_MIN_EFFECT & 1,
                                 .similarity = {SIMILARITY_COSINE, 0.9, 100},
                                 .drift = DRIFT_LIMITS_DEFAULT};
    for (size_t i = 0; i < HEAD_STATISTIC_COUNT; i++)
        query->statistics[i] = head_statistic_kinds[i].live;
    if (*at != '?')
        return true;
    do {
        const size_t length = strcspn(++at, "&#");
        if (length && !read_parameter(at, length, allowed, &seen, config, heads, query, error))
            return false;
        at += length;
    } while (*at == '&');
    return true;
}

bool live_query_check_heads(const struct live_query *query, size_t num_heads, struct error *error)
{
    for (size_t i = 0; i < query->n_heads; i++)
        if (query->heads[i] >= num_heads)
            return error_set(error, ERROR_INVALID,
                             "query parameter include_heads: there is no head %u; the set has %zu (0 to %zu)",
                             query->heads[i], num_heads, num_heads - 1);
    return true;
}

bool live_query_check_answer(const struct config *config, size_t bytes, struct error *error)
{
    if (bytes <= (size_t)config->limits.max_response_bytes)
        return true;
    return error_set(
        error, ERROR_TOO_LARGE,
        "the answer would take up to %zu bytes, over limits.max_response_bytes (%lld); ask for fewer heads, "
        "or raise the setting",
        bytes, (long long)config->limits.max_response_bytes);
}
