/* PUT /v1/weights/{name}/head_importance: the numbers that keep_heads goes by, until the set is loaded again. Entered
 * by polling threads. */
#include "server/endpoints.h"

#include "codec/head_importance.h"
#include "server/context.h"
#include "server/json_answer.h"
#include "server/weights.h"

#include <stdlib.h>

/* The body is read where it arrived, on a thread that has other connections: a number and its comma for each head of
 * the largest set there can be, as they are usually written. */
#define MAX_BODY_BYTES ((size_t)64 << 10)

static bool put(const struct request *request, const struct weight_set *set, struct error *error)
{
    const size_t count = set->num_layers * set->shape.num_heads; /* of layers in memory */
    if (request->body_length > MAX_BODY_BYTES)
        return error_set(error, ERROR_TOO_LARGE, "the body is %zu bytes, and %zu at most here: a number for each head",
                         request->body_length, MAX_BODY_BYTES);
    double *values = calloc(count, sizeof *values);
    if (!values)
        return error_out_of_memory(error);
    const bool done = head_importance_read(NULL, request->body.base ? request->body.base : "", request->body_length,
                                           set->num_layers, set->shape.num_heads, values, error) &&
                      (importance_store_put(set->rules.importance, values, count, true) || error_out_of_memory(error));
    free(values);
    return done;
}

void head_importance_handle(struct request *request)
{
    struct error error;
    const struct weight_set *set = registry_find(&request->generation->registry, request->parameters[0], &error);
    if (!set) {
        error.has_pointer = false; /* the name stands in the path, not in a document */
        request_fail(request, &error);
        return;
    }
    request->weights = set->name;
    if (put(request, set, &error))
        request_succeed_document(request, weights_describe(set));
    else
        request_fail(request, &error);
}
