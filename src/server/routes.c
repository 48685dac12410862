#include "server/routes.h"

#include "base/percent.h"
#include "server/admin.h"
#include "server/endpoints.h"

#include <string.h>

struct route {
    const char *method; /* "GET" answers HEAD too */
    const char *pattern;
    route_handler *handle;
    route_acceptor *accept; /* NULL: nothing but what holds for all */
    enum {
        UNUSED, /* what a body may be: nothing that matters */
        JSON,
        TENSORS, /* or safetensors */
        OCTETS   /* with bytes behind it */
    } body;
};

/* The first that fits is taken: what is spelled out stands before a {name} in its place. */
/* clang-format off */
static const struct route ROUTES[] = {
    {"POST", "/v1/forward", forward_handle, NULL, TENSORS},
    {"POST", "/v1/heads/importance", importance_handle, NULL, TENSORS},
    {"POST", "/v1/heads/stats", stats_handle, NULL, TENSORS},
    {"POST", "/v1/heads/similarity", similarity_handle, NULL, TENSORS},
    {"POST", "/v1/heads/links", links_handle, NULL, TENSORS},
    {"POST", "/v1/heads/rollout", rollout_handle, NULL, TENSORS},
    {"GET", "/v1/heads/similarity", live_similarity_handle, admin_accept_reader, JSON},
    {"GET", "/v1/heads/stats", live_stats_handle, admin_accept_reader, JSON},
    {"GET", "/v1/heads/drift", live_drift_handle, admin_accept_reader, JSON},
    {"GET", "/v1/heads/state", live_state_handle, admin_accept_reader, JSON},
    {"POST", "/v1/heads/merge", live_merge_handle, NULL, JSON},
    {"POST", "/v1/heads/reset", live_reset_handle, admin_accept, UNUSED},
    {"GET", "/v1/weights", weights_list_handle, NULL, JSON},
    {"GET", "/v1/weights/{name}", weights_get_handle, NULL, JSON},
    {"POST", "/v1/weights/{name}/reload", weights_reload_handle, admin_accept, UNUSED},
    {"PUT", "/v1/weights/{name}/head_importance", head_importance_handle, admin_accept, JSON},
    {"GET", "/healthz", healthz_handle, NULL, JSON},
    {"GET", "/readyz", readyz_handle, NULL, JSON},
    {"GET", "/metrics", metrics_handle, admin_accept_scrape, JSON},
    {"GET", "/openapi.json", openapi_handle, NULL, JSON},
    {"GET", "/v2", oip_server_handle, NULL, JSON},
    {"GET", "/v2/health/live", oip_live_handle, NULL, JSON},
    {"GET", "/v2/health/ready", oip_ready_handle, NULL, JSON},
    {"POST", "/v2/models/{model}/infer", oip_infer_handle, oip_infer_accept, OCTETS},
    {"POST", "/v2/models/{model}/versions/{version}/infer", oip_infer_handle, oip_infer_accept, OCTETS},
    {"GET", "/v2/models", oip_models_handle, NULL, JSON},
    {"GET", "/v2/models/stats", oip_all_statistics_handle, NULL, JSON},
    {"GET", "/v2/models/{model}", oip_model_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/ready", oip_model_ready_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/config", oip_config_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/stats", oip_statistics_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/versions/{version}", oip_model_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/versions/{version}/ready", oip_model_ready_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/versions/{version}/config", oip_config_handle, NULL, JSON},
    {"GET", "/v2/models/{model}/versions/{version}/stats", oip_statistics_handle, NULL, JSON},
    {"POST", "/v2/repository/index", oip_index_handle, NULL, OCTETS},
};
/* clang-format on */

const char *route_path(const char *target, size_t *length)
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

/* Part of a path. */
struct span {
    const char *at;
    size_t length;
};

/* Whether the path fits `pattern`; what stands for each {name} is put into `spans`, which has length 0 behind the last.
 */
static bool matches(const char *pattern, struct span path, struct span spans[REQUEST_MAX_PARAMETERS])
{
    const char *at = path.at, *end = path.at + path.length;
    unsigned count = 0;
    memset(spans, 0, REQUEST_MAX_PARAMETERS * sizeof *spans);
    while (*pattern) {
        if (*pattern != '{') {
            if (at == end || *at++ != *pattern++)
                return false;
            continue;
        }
        const char *slash = memchr(at, '/', (size_t)(end - at));
        struct span *span = &spans[count++];
        *span = (struct span){at, (size_t)((slash ? slash : end) - at)};
        if (span->length == 0)
            return false;
        at += span->length;
        pattern = strchr(pattern, '}') + 1;
    }
    return at == end;
}

/* Fills request->parameters, behind the target. False for what cannot be decoded. */
static bool take_parameters(struct request *request, const struct span spans[REQUEST_MAX_PARAMETERS])
{
    char *to = request->target + strlen(request->target) + 1;
    for (unsigned i = 0; i < REQUEST_MAX_PARAMETERS && spans[i].length; i++) {
        char *behind = percent_decode(spans[i].at, spans[i].length, to, spans[i].length + 1);
        if (!behind)
            return false;
        request->parameters[i] = to;
        to = behind;
    }
    return true;
}

/* The route of the same pattern that has this method, or NULL. */
static const struct route *with_method(const struct route *route, const char *method)
{
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++)
        if (strcmp(ROUTES[i].pattern, route->pattern) == 0 && strcmp(ROUTES[i].method, method) == 0)
            return &ROUTES[i];
    return NULL;
}

bool route_find(struct request *request, const char *method, struct error *error)
{
    struct span path, spans[REQUEST_MAX_PARAMETERS];
    path.at = route_path(request->target, &path.length);
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
        if (!matches(ROUTES[i].pattern, path, spans))
            continue;
        if (!take_parameters(request, spans))
            break;
        const struct route *route = with_method(&ROUTES[i], wanted);
        request->route = route ? route : &ROUTES[i];
        if (!route)
            return error_set(error, ERROR_METHOD_NOT_ALLOWED, "%s is not allowed on %s; allowed: %s", method,
                             ROUTES[i].pattern, route_allow(&ROUTES[i]));
        return true;
    }
    return error_set(error, ERROR_UNKNOWN_ROUTE, "no route %s %.*s; GET /openapi.json lists what there is", method,
                     (int)(path.length < 200 ? path.length : 200), path.at);
}

enum problem_form route_problem_form(const char *target)
{
    static const char root[] = "/v2";
    size_t length;
    const char *path = route_path(target, &length);
    const bool under = length >= sizeof root - 1 && memcmp(path, root, sizeof root - 1) == 0 &&
                       (length == sizeof root - 1 || path[sizeof root - 1] == '/');
    return under ? PROBLEM_OPEN_INFERENCE : PROBLEM_DETAILS;
}

const char *route_pattern(const struct route *route)
{
    return route->pattern;
}

_Static_assert(sizeof ROUTES / sizeof *ROUTES <= ROUTES_MOST, "what is kept for each route has room for it");

const struct route *route_at(size_t index)
{
    return index < sizeof ROUTES / sizeof *ROUTES ? &ROUTES[index] : NULL;
}

size_t route_index(const struct route *route)
{
    return (size_t)(route - ROUTES);
}

const char *route_method(const struct route *route)
{
    return route->method;
}

const char *route_allow(const struct route *route)
{
    if (!with_method(route, "GET"))
        return route->method;
    return with_method(route, "POST") ? "GET, HEAD, POST" : "GET, HEAD";
}

bool route_takes_body(const struct route *route)
{
    return strcmp(route->method, "POST") == 0 || strcmp(route->method, "PUT") == 0;
}

bool route_takes(const struct route *route, enum media_type type)
{
    return type == MEDIA_JSON || (type == MEDIA_SAFETENSORS && route->body == TENSORS);
}

bool route_needs_no_body(const struct route *route)
{
    return route->body == UNUSED;
}

bool route_takes_octets(const struct route *route)
{
    return route->body == OCTETS;
}

bool route_accept(struct request *request, struct error *error)
{
    return admin_accept_place(request, error) && (!request->route->accept || request->route->accept(request, error));
}

bool route_is_admin(const struct route *route)
{
    return route->accept == admin_accept || route->accept == admin_accept_reader ||
           route->accept == admin_accept_scrape;
}

bool route_is_probe(const struct route *route)
{
    return route->handle == healthz_handle || route->handle == readyz_handle || route->handle == oip_live_handle ||
           route->handle == oip_ready_handle || route->handle == oip_model_ready_handle;
}

bool route_is_unobserved(const struct route *route)
{
    return route_is_probe(route) || route->handle == metrics_handle;
}

void route_handle(struct request *request)
{
    request->route->handle(request);
}
