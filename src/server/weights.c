/* GET /v1/weights and /v1/weights/{name}: the weight sets in memory; POST /v1/weights/{name}/reload: one of them loaded
 * again from its source, by a worker. */
#include "server/context.h"
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/live_sets.h"
#include "telemetry/log.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* RFC 3339, UTC, whole seconds. */
static void date_text(const struct timespec *when, char *text, size_t size)
{
    struct tm utc;
    gmtime_r(&when->tv_sec, &utc);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* NULL when memory ran out. */
static json_t *describe(const struct weight_set *set)
{
    const struct attention_shape *shape = &set->shape;
    char loaded_at[32];
    if (!set->ready)
        return json_pack("{s:s, s:s, s:s, s:s}", "name", set->name, "source", set->source, "state", "failed", "error",
                         set->failure);
    date_text(&set->loaded_at, loaded_at, sizeof loaded_at);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:b, s:s, s:s}", "name", set->name,
                     "source", set->source, "state", "ready", "d_model", (json_int_t)shape->d_model, "num_heads",
                     (json_int_t)shape->num_heads, "num_kv_heads", (json_int_t)shape->num_kv_heads, "d_k",
                     (json_int_t)shape->d_k, "d_v", (json_int_t)shape->d_v, "dtype", "f32", "parameters",
                     (json_int_t)set->parameters, "bytes", (json_int_t)(set->parameters * sizeof(float)), "bias",
                     set->bias, "digest", set->digest, "loaded_at", loaded_at);
}

void weights_list_handle(struct request *request)
{
    const struct weights_registry *registry = request->server->parts.registry;
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = 0; i < registry->count && whole; i++)
        whole = json_array_append_new(list, describe(registry->sets[i])) == 0;
    json_t *document = whole ? json_pack("{s:O}", "weights", list) : NULL;
    json_decref(list);
    request_succeed_document(request, document);
}

void weights_get_handle(struct request *request)
{
    const struct weights_registry *registry = request->server->parts.registry;
    struct error error;
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->sets[i]->name, request->parameters[0]) == 0) {
            request_succeed_document(request, describe(registry->sets[i]));
            return;
        }
    registry_find(registry, request->parameters[0], &error);
    error.has_pointer = false; /* the name stands in the path, not in a document */
    request_fail(request, &error);
}

/* ---- reload */

/* Loading is worth a heavy job, whatever it loads. */
#define RELOAD_FLOP 1e10

static bool find_index(struct request *request, size_t *index, struct error *error)
{
    const struct weights_registry *registry = request->server->parts.registry;
    for (*index = 0; *index < registry->count; ++*index)
        if (strcmp(registry->sets[*index]->name, request->parameters[0]) == 0)
            return true;
    registry_find(registry, request->parameters[0], error);
    error->has_pointer = false;
    return false;
}

static bool reload(struct request *request, size_t index, struct error *error)
{
    const struct server_parts *parts = &request->server->parts;
    struct weight_set *set = weight_set_load(&parts->config->weights[index], error);
    if (!set) {
        if (error->code != ERROR_OUT_OF_MEMORY)
            error->code = ERROR_INVALID; /* the fault is the source's: what was loaded before stays */
        return false;
    }
    json_t *document = describe(set);
    live_sets_reload(request->server->live, index, set);
    if (!registry_replace(parts->registry, index, set, error)) {
        live_sets_reload(request->server->live, index, parts->registry->sets[index]);
        weight_set_free(set);
        json_decref(document);
        return false;
    }
    request_succeed_document(request, document);
    return true;
}

static void run_reload(struct job *job, enum job_end end)
{
    struct request *request = request_of_job(job);
    const char *name = request->parameters[0];
    struct error error;
    size_t index;
    if (end == JOB_DROPPED) {
        error_set(&error, ERROR_DRAINING, "the server is stopping; nothing was loaded");
        request_fail(request, &error);
    } else if (find_index(request, &index, &error) && reload(request, index, &error)) {
        log_event(LOG_INFO, "reload", LOG_STRING("weights", name), LOG_STRING("request_id", request->id));
    } else {
        log_event(LOG_WARNING, "reload", LOG_STRING("weights", name), LOG_STRING("request_id", request->id),
                  LOG_STRING("message", error.message));
        request_fail(request, &error);
    }
    request_resume(request);
}

void weights_reload_handle(struct request *request)
{
    struct error error;
    size_t index;
    if (!find_index(request, &index, &error)) {
        request_fail(request, &error);
        return;
    }
    request->weights = request->server->parts.registry->sets[index]->name;
    request->job.run = run_reload;
    request->job.flop = RELOAD_FLOP;
    request_submit(request);
}
