#include "server/routes.h"

#include "server/endpoints.h"

#include <stdlib.h>
#include <string.h>

struct route {
    const char *method; /* "GET" answers HEAD too */
    const char *pattern;
    route_handler *handle;
    bool takes_tensors; /* a body may be safetensors */
};

/* clang-format off */
static const struct route ROUTES[] = {
    {"POST", "/v1/forward", forward_handle, true},
    {"POST", "/v1/heads/importance", importance_handle, true},
    {"GET", "/v1/weights", weights_list_handle, false},
    {"GET", "/v1/weights/{name}", weights_get_handle, false},
    {"GET", "/healthz", healthz_handle, false},
    {"GET", "/readyz", readyz_handle, false},
    {"GET", "/openapi.json", openapi_handle, false},
};
/* clang-format on */

/* The path of an origin-form ("/a?b") or absolute-form ("http://host/a?b") target. */
static const char *path_of(const char *target, size_t *length)
{
    const char *scheme_end = target[0] == '/' ? NULL : strstr(target, "://");
    if (scheme_end) {
        target = strchr(scheme_end + 3, '/');
        if (!target)
            target = "/";
    }
    *length = strcspn(target, "?#");
    return target;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decodes one path segment into fresh memory. NULL for a broken escape or a NUL (*valid false), or when memory
 * ran out. */
static char *decode_segment(const char *segment, size_t length, bool *valid)
{
    char *decoded = malloc(length + 1), *to = decoded;
    *valid = true;
    if (!decoded)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        int value = (unsigned char)segment[i];
        if (segment[i] == '%') {
            int high = length - i > 2 ? hex_value(segment[i + 1]) : -1;
            int low = length - i > 2 ? hex_value(segment[i + 2]) : -1;
            value = high < 0 || low < 0 ? 0 : high << 4 | low;
            i += 2;
        }
        if (value == 0) {
            free(decoded);
            *valid = false;
            return NULL;
        }
        *to++ = (char)value;
    }
    *to = '\0';
    return decoded;
}

/* Whether `path` fits `pattern`; the part that stands for {name} is returned through *part (NULL: the pattern has
 * none). */
static bool matches(const char *pattern, const char *path, size_t length, const char **part, size_t *part_length)
{
    const char *brace = strchr(pattern, '{');
    size_t fixed = brace ? (size_t)(brace - pattern) : strlen(pattern);
    *part = NULL;
    if (length < fixed || memcmp(pattern, path, fixed) != 0)
        return false;
    if (!brace)
        return length == fixed;
    *part = path + fixed;
    *part_length = length - fixed;
    return *part_length > 0 && !memchr(*part, '/', *part_length);
}

bool route_find(struct request *request, const char *method, struct error *error)
{
    size_t length, part_length = 0;
    const char *path = path_of(request->target, &length), *part = NULL;
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
        if (!matches(ROUTES[i].pattern, path, length, &part, &part_length))
            continue;
        bool valid = true;
        char *parameter = part ? decode_segment(part, part_length, &valid) : NULL;
        if (!valid)
            break;
        if (part && !parameter)
            return error_out_of_memory(error);
        free(request->parameter);
        request->parameter = parameter;
        request->route = &ROUTES[i];
        if (strcmp(ROUTES[i].method, wanted) != 0)
            return error_set(error, ERROR_METHOD_NOT_ALLOWED, "%s is not allowed on %s; allowed: %s", method,
                             ROUTES[i].pattern, route_allow(&ROUTES[i]));
        return true;
    }
    return error_set(error, ERROR_UNKNOWN_ROUTE, "no route %s %.*s; GET /openapi.json lists what there is", method,
                     (int)(length < 200 ? length : 200), path);
}

const char *route_pattern(const struct route *route)
{
    return route->pattern;
}

const char *route_allow(const struct route *route)
{
    return strcmp(route->method, "GET") == 0 ? "GET, HEAD" : route->method;
}

bool route_takes_body(const struct route *route)
{
    return strcmp(route->method, "POST") == 0;
}

bool route_takes(const struct route *route, enum media_type type)
{
    return type == MEDIA_JSON || (type == MEDIA_SAFETENSORS && route->takes_tensors);
}

bool route_is_probe(const struct route *route)
{
    return route->handle == healthz_handle || route->handle == readyz_handle;
}

void route_handle(struct request *request)
{
    request->route->handle(request);
}
