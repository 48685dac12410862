/* Entered by polling threads. Owns nothing beyond the call. */
#include "server/json_answer.h"

#include <string.h>

void request_succeed_document(struct request *request, json_t *document)
{
    char *body = document ? json_dumps(document, JSON_COMPACT) : NULL;
    json_decref(document);
    if (body) {
        request_succeed_owned(request, "application/json", body, strlen(body));
        return;
    }
    struct error error;
    error_out_of_memory(&error);
    request_fail(request, &error);
}
