/* GET /openapi.json: the description of what is built, embedded at build time as it is and compressed. */
#include "openapi_json.h"
#include "server/content_coding.h"
#include "server/endpoints.h"

void openapi_handle(struct request *request)
{
    request_succeed(request, "application/json", (const char *)OPENAPI_JSON, sizeof OPENAPI_JSON);
    if (content_coding_wanted(request, sizeof OPENAPI_JSON))
        content_coding_replace_answer(request, (const char *)OPENAPI_JSON_GZIP, sizeof OPENAPI_JSON_GZIP);
}
