/* GET /healthz: the process is alive. GET /readyz: it wants traffic. */
#include "server/endpoints.h"

#define JSON "application/json"

void healthz_handle(struct request *request)
{
    static const char body[] = "{\"status\":\"ok\"}";
    request_succeed(request, JSON, body, sizeof body - 1);
}

void readyz_handle(struct request *request)
{
    static const char body[] = "{\"status\":\"ready\"}";
    struct error error;
    if (atomic_load(&request->server->state) == SERVER_RUNNING) {
        request_succeed(request, JSON, body, sizeof body - 1);
        return;
    }
    error_set(&error, ERROR_DRAINING, "the server is stopping; send new requests to another replica");
    request_fail(request, &error);
}
