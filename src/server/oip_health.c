/* GET /v2/health/live, /v2/health/ready and a model's ready: what /healthz and /readyz say, for the clients of the Open
 * Inference Protocol. Entered by polling threads. */
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/oip_model.h"

void oip_live_handle(struct request *request)
{
    static const char body[] = "{\"live\":true}";
    request_succeed(request, "application/json", body, sizeof body - 1);
}

/* The required weight sets are in memory since before there was a server. */
void oip_ready_handle(struct request *request)
{
    static const char body[] = "{\"ready\":true}";
    struct error error;
    if (atomic_load(&request->server->state) == SERVER_RUNNING) {
        request_succeed(request, "application/json", body, sizeof body - 1);
        return;
    }
    error_set(&error, ERROR_DRAINING, "the server is stopping; send new requests to another replica");
    request_fail(request, &error);
}

void oip_model_ready_handle(struct request *request)
{
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (set)
        request_succeed_document(request, json_pack("{s:s, s:b}", "name", set->name, "ready", 1));
    else
        request_fail(request, &error);
}
