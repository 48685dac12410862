/* On polling threads. */
#include "server/cors.h"

#include "server/request.h"
#include "server/routes.h"

#include <string.h>

/* Of requests, beside those that every page may send; of answers, beside those that every page may read. */
#define REQUEST_HEADERS                                                                                            \
    "Authorization, Content-Encoding, Content-Type, If-None-Match, Inference-Header-Content-Length, traceparent, " \
    "tracestate, x-request-id"
#define ANSWER_HEADERS \
    "ETag, Inference-Header-Content-Length, Retry-After, server-timing, traceresponse, WWW-Authenticate, x-request-id"

/* For so long a browser need not ask again; browsers have limits of their own. */
#define MAX_AGE_S "7200"

static const struct config *config_of(const struct request *request)
{
    return request->generation->config;
}

static bool allows_all(const struct config *config)
{
    return config->cors.allowed_origins_count == 1 && strcmp(config->cors.allowed_origins[0], "*") == 0;
}

/* What Access-Control-Allow-Origin says; NULL: nothing. */
static const char *allowed_origin(const struct request *request)
{
    const struct config *config = config_of(request);
    const char *origin = header_value(&request->headers, HEADER_ORIGIN);
    if (allows_all(config))
        return "*";
    for (size_t i = 0; i < config->cors.allowed_origins_count && origin; i++)
        if (strcmp(config->cors.allowed_origins[i], origin) == 0)
            return config->cors.allowed_origins[i];
    return NULL;
}

const char *cors_wanted_method(const struct request *request)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD);
}

bool cors_is_preflight(const struct request *request)
{
    return config_of(request)->cors.allowed_origins_count && strcmp(request->method, MHD_HTTP_METHOD_OPTIONS) == 0 &&
           header_value(&request->headers, HEADER_ORIGIN) && cors_wanted_method(request) && allowed_origin(request);
}

void cors_answer_preflight(struct request *request)
{
    request->answer = (struct answer){.status = MHD_HTTP_NO_CONTENT, .body = ""};
}

static enum MHD_Result add_preflight(const struct request *request, struct MHD_Response *response)
{
    enum MHD_Result ok =
        MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, route_allow(request->route));
    ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
    return ok;
}

enum MHD_Result cors_add_headers(const struct request *request, struct MHD_Response *response)
{
    const struct config *config = config_of(request);
    if (config->cors.allowed_origins_count == 0)
        return MHD_YES;
    const char *origin = allowed_origin(request);
    enum MHD_Result ok = MHD_YES;
    if (!allows_all(config)) /* caches may not give one origin's answer to another, nor to none */
        ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    if (!origin)
        return ok;
    ok &= MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    ok &= request->answer.status == MHD_HTTP_NO_CONTENT
              ? add_preflight(request, response)
              : MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
    return ok;
}
