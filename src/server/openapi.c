/* GET /openapi.json: the description of what is built, embedded at build time. */
#include "openapi_json.h"
#include "server/endpoints.h"

void openapi_handle(struct request *request)
{
    request_succeed(request, "application/json", (const char *)OPENAPI_JSON, sizeof OPENAPI_JSON);
}
