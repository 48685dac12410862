/* The variables are those of https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and
 * .../configuration/sdk-environment-variables/. A value that is wrong is left out whole, with a warning, as they ask.
 */
#include "telemetry/otlp_settings.h"

#include "base/http_url.h"
#include "base/percent.h"
#include "telemetry/trace_ids.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_TIMEOUT_MS 10000
#define MOST_TIMEOUT_MS    60000

/* NULL: unset or empty, which is the same. */
static const char *variable(const char *const *environment, const char *name)
{
    const size_t length = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=' && (*environment)[length + 1])
            return *environment + length + 1;
    return NULL;
}

static void warn(struct otlp_settings *settings, const char *name, const char *text)
{
    char *warning;
    if (settings->warning_count < OTLP_MAX_WARNINGS && asprintf(&warning, "%s: %s", name, text) >= 0)
        settings->warnings[settings->warning_count++] = warning;
}

/* Not for headers, whose values are secrets. */
static void warn_of_value(struct otlp_settings *settings, const char *name, const char *expected, const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "expected %s, got \"%.64s\"; it is left out", expected, value);
    warn(settings, name, text);
}

/* ---- lists of "key=value,key=value", values percent-encoded */

static const char *trim(const char *from, const char *to, size_t *length)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    *length = (size_t)(to - from);
    return from;
}

enum list_end { LIST_READ, LIST_WRONG, LIST_NO_MEMORY };

/* Calls `add` with each key and value, both decoded. */
static enum list_end read_list(const char *text,
                               enum list_end (*add)(void *context, const char *key, const char *value), void *context)
{
    enum list_end end = LIST_READ;
    char *buffer = malloc(strlen(text) + 2);
    if (!buffer)
        return LIST_NO_MEMORY;
    for (const char *at = text; *at && end == LIST_READ;) {
        const char *stop = at + strcspn(at, ","), *equals = memchr(at, '=', (size_t)(stop - at));
        size_t key_length, value_length;
        const char *key = trim(at, equals ? equals : stop, &key_length);
        const char *value = trim(equals ? equals + 1 : stop, stop, &value_length);
        char *decoded = buffer + key_length + 1;
        if (equals && key_length && percent_decode(key, key_length, buffer, key_length + 1) &&
            percent_decode(value, value_length, decoded, value_length + 1))
            end = add(context, buffer, decoded);
        else if (equals || key_length)
            end = LIST_WRONG;
        at = *stop ? stop + 1 : stop;
    }
    free(buffer);
    return end;
}

/* ---- headers */

static enum list_end add_header(void *context, const char *key, const char *value)
{
    struct otlp_settings *settings = context;
    static const char separators[] = "\"(),/:;<=>?@[\\]{} \t";
    for (const char *c = key; *c; c++)
        if (*c <= ' ' || *c >= 0x7F || strchr(separators, *c))
            return LIST_WRONG;
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return LIST_WRONG;
    char **more = realloc(settings->headers, (settings->header_count + 1) * sizeof *more);
    if (!more)
        return LIST_NO_MEMORY;
    settings->headers = more;
    /* A semicolon is how libcurl is told of a header without a value. */
    if (asprintf(&more[settings->header_count], *value ? "%s: %s" : "%s;%s", key, value) < 0)
        return LIST_NO_MEMORY;
    settings->header_count++;
    return LIST_READ;
}

static void drop_headers(struct otlp_settings *settings)
{
    while (settings->header_count)
        free(settings->headers[--settings->header_count]);
    free(settings->headers);
    settings->headers = NULL;
}

/* The variable of traces goes before the general one, in this as in what follows. */
static const char *of_traces(const char *const *environment, const char *traces, const char *general, const char **name)
{
    const char *value = variable(environment, traces);
    *name = value ? traces : general;
    return value ? value : variable(environment, general);
}

static bool read_headers(struct otlp_settings *settings, const char *const *environment)
{
    const char *name,
        *value = of_traces(environment, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", &name);
    const enum list_end end = value ? read_list(value, add_header, settings) : LIST_READ;
    if (end == LIST_WRONG) {
        drop_headers(settings);
        warn(settings, name, "is no list of name=value,name=value with values percent-encoded; it is left out");
    }
    return end != LIST_NO_MEMORY;
}

/* ---- the resource */

static void drop_attributes(struct otlp_resource *resource)
{
    while (resource->count) {
        free(resource->items[--resource->count].key);
        free(resource->items[resource->count].value);
    }
    free(resource->items);
    resource->items = NULL;
}

/* Adds an attribute, or gives it another value. */
static enum list_end set_attribute(void *context, const char *key, const char *value)
{
    struct otlp_resource *resource = context;
    size_t i = 0;
    char *copy = strdup(value);
    while (i < resource->count && strcmp(resource->items[i].key, key) != 0)
        i++;
    if (copy && i == resource->count) {
        struct otlp_attribute *more = realloc(resource->items, (i + 1) * sizeof *more);
        char *name = more ? strdup(key) : NULL;
        resource->items = more ? more : resource->items;
        if (name) {
            more[i] = (struct otlp_attribute){name, NULL};
            resource->count++;
        }
    }
    if (!copy || i == resource->count) {
        free(copy);
        return LIST_NO_MEMORY;
    }
    free(resource->items[i].value);
    resource->items[i].value = copy;
    return LIST_READ;
}

/* A random UUID (RFC 9562, version 4). */
static void make_instance(char instance[37])
{
    const uint64_t a = trace_ids_random(), b = trace_ids_random();
    snprintf(instance, 37, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xFFFF),
             (unsigned)(a & 0xFFF), (unsigned)(0x8000 | (b >> 48 & 0x3FFF)),
             (unsigned long long)(b & UINT64_C(0xFFFFFFFFFFFF)));
}

static bool read_resource(struct otlp_settings *settings, const char *version, const char *const *environment)
{
    const char *attributes = variable(environment, "OTEL_RESOURCE_ATTRIBUTES"),
               *service = variable(environment, "OTEL_SERVICE_NAME");
    struct otlp_resource *resource = &settings->resource;
    char instance[37];
    make_instance(instance);
    for (int pass = 0; pass < 2; pass++) {
        if (set_attribute(resource, "service.name", "attnd") != LIST_READ ||
            set_attribute(resource, "service.version", version) != LIST_READ ||
            set_attribute(resource, "service.instance.id", instance) != LIST_READ)
            return false;
        const enum list_end end = attributes ? read_list(attributes, set_attribute, resource) : LIST_READ;
        if (end == LIST_NO_MEMORY)
            return false;
        if (end == LIST_READ)
            break;
        drop_attributes(resource);
        attributes = NULL;
        warn(settings, "OTEL_RESOURCE_ATTRIBUTES",
             "is no list of key=value,key=value with values percent-encoded; it is left out");
    }
    return !service || set_attribute(resource, "service.name", service) == LIST_READ;
}

/* ---- where to */

static char *join_path(const char *base, const char *path)
{
    char *url;
    size_t length = strlen(base);
    while (length && base[length - 1] == '/')
        length--;
    return asprintf(&url, "%.*s%s", (int)length, base, path) < 0 ? NULL : url;
}

static bool read_url(struct otlp_settings *settings, const char *endpoint, const char *const *environment)
{
    struct error error;
    const char *name,
        *sent = of_traces(environment, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", &name);
    const bool whole = strcmp(name, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == 0; /* it is taken as it is */
    if (!endpoint && sent && !http_url_check(sent, strlen(sent), &error)) {
        warn(settings, name, error.message);
        sent = NULL;
    }
    if (!endpoint && !sent)
        return true;
    settings->url = endpoint ? join_path(endpoint, "/v1/traces") : whole ? strdup(sent) : join_path(sent, "/v1/traces");
    return settings->url != NULL;
}

static void read_timeout(struct otlp_settings *settings, const char *const *environment)
{
    const char *name,
        *value = of_traces(environment, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", &name);
    settings->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!value)
        return;
    char *end;
    errno = 0;
    const long milliseconds = strtol(value, &end, 10);
    if (*end || errno || milliseconds < 1)
        warn_of_value(settings, name, "milliseconds, 1 or more", value);
    else
        settings->timeout_ms = milliseconds < MOST_TIMEOUT_MS ? milliseconds : MOST_TIMEOUT_MS;
}

bool otlp_settings_read(struct otlp_settings *settings, const char *endpoint, const char *version,
                        const char *const *environment)
{
    const char *disabled = variable(environment, "OTEL_SDK_DISABLED"), *name,
               *protocol =
                   of_traces(environment, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", &name);
    memset(settings, 0, sizeof *settings);
    settings->resource.version = version;
    if (disabled && strcasecmp(disabled, "true") == 0)
        return true;
    if (disabled && strcasecmp(disabled, "false") != 0)
        warn_of_value(settings, "OTEL_SDK_DISABLED", "true or false", disabled);
    if (!read_url(settings, endpoint, environment))
        return false;
    if (!settings->url)
        return true;
    if (protocol && strncmp(protocol, "http/", 5) != 0)
        warn(settings, name,
             "asks for a protocol that attnd does not speak; spans go by HTTP, as JSON: name a port that "
             "takes that (4318 as a rule)");
    read_timeout(settings, environment);
    return read_headers(settings, environment) && read_resource(settings, version, environment);
}

void otlp_settings_free(struct otlp_settings *settings)
{
    free(settings->url);
    drop_headers(settings);
    drop_attributes(&settings->resource);
    while (settings->warning_count)
        free(settings->warnings[--settings->warning_count]);
    memset(settings, 0, sizeof *settings);
}
