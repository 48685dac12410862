/* POST /v2/repository/index: the weight sets, those too that could not be loaded. Entered by polling threads. */
#include "server/endpoints.h"

#include "codec/oip_index.h"
#include "server/json_answer.h"
#include "server/oip_model.h"

/* The body is read where it arrived, on a thread that has other connections; it has one member. */
#define MAX_BODY_BYTES 65536

/* NULL when memory ran out. */
static json_t *describe(const struct weight_set *set)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "name", set->name, "version", OIP_MODEL_VERSION, "state",
                     set->ready ? "READY" : "UNAVAILABLE", "reason", set->ready ? "" : set->failure);
}

void oip_index_handle(struct request *request)
{
    const struct weights_registry *registry = &request->generation->registry;
    struct error error;
    bool ready_only;
    if (request->body_length > MAX_BODY_BYTES) {
        error_set(&error, ERROR_TOO_LARGE, "the body is %zu bytes, and %d at most here: {\"ready\": true} or nothing",
                  request->body_length, MAX_BODY_BYTES);
        request_fail(request, &error);
        return;
    }
    if (!oip_index_decode(request->body.base, request->body_length, &ready_only, &error)) {
        request_fail(request, &error);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < registry->count && list; i++) {
        if (ready_only && !registry->sets[i]->ready)
            continue;
        if (json_array_append_new(list, describe(registry->sets[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    request_succeed_document(request, list);
}
