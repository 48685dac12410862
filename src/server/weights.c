/* GET /v1/weights and /v1/weights/{name}: the weight sets in memory; POST /v1/weights/{name}/reload: one of them loaded
 * again from its source. */
#include "server/weights.h"

#include "server/context.h"
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/live_query.h"

#include <string.h>
#include <time.h>

/* RFC 3339, UTC, whole seconds. */
static void date_text(const struct timespec *when, char *text, size_t size)
{
    struct tm utc;
    gmtime_r(&when->tv_sec, &utc);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* [num_heads], or [num_layers, num_heads]; NULL when memory ran out. */
static json_t *describe_importance(const struct weight_set *set, const struct head_importance *importance)
{
    const size_t heads = set->shape.num_heads;
    json_t *layers = json_array();
    for (size_t layer = 0; layer < set->num_layers && layers; layer++) {
        json_t *row = json_array();
        for (size_t head = 0; head < heads && row; head++)
            if (json_array_append_new(row, json_real(importance->values[layer * heads + head])) != 0) {
                json_decref(row);
                row = NULL;
            }
        if (set->num_layers == 1) {
            json_decref(layers);
            return row;
        }
        if (json_array_append_new(layers, row) != 0) {
            json_decref(layers);
            layers = NULL;
        }
    }
    return layers;
}

/* Adds what the set does where a request says nothing, as it was configured, and what is stored for it. */
static bool add_rules(json_t *description, const struct weight_set *set)
{
    const struct set_rules *rules = &set->rules;
    bool whole = !rules->defaults.causal || json_object_set_new(description, "causal", json_true()) == 0;
    for (unsigned i = 0; i < RULE_COUNT && whole; i++)
        if (rules->texts[i])
            whole = json_object_set_new(description, rules_name((enum rule_index)i),
                                        json_loads(rules->texts[i], 0, NULL)) == 0;
    struct head_importance *stored = importance_store_hold(rules->importance);
    if (stored && whole)
        whole = json_object_set_new(description, "head_importance", describe_importance(set, stored)) == 0;
    head_importance_release(stored);
    return whole;
}

/* NULL when memory ran out. */
json_t *weights_describe(const struct weight_set *set)
{
    const struct attention_shape *shape = &set->shape;
    char loaded_at[32];
    if (!set->ready)
        return json_pack("{s:s, s:s, s:s, s:s}", "name", set->name, "source", set->source, "state", "failed", "error",
                         set->failure);
    date_text(&set->loaded_at, loaded_at, sizeof loaded_at);
    json_t *description =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:b, s:s, s:s}", "name", set->name, "source",
                  set->source, "state", "ready", "d_model", (json_int_t)shape->d_model, "num_heads",
                  (json_int_t)shape->num_heads, "num_kv_heads", (json_int_t)shape->num_kv_heads, "d_k",
                  (json_int_t)shape->d_k, "d_v", (json_int_t)shape->d_v, "dtype", "f32", "parameters",
                  (json_int_t)set->parameters, "bytes", (json_int_t)(set->parameters * sizeof(float)), "bias",
                  set->bias, "digest", set->digest, "loaded_at", loaded_at);
    if (description && !add_rules(description, set)) {
        json_decref(description);
        description = NULL;
    }
    return description;
}

/* The same columns whatever became of the set: what a failed one lacks is null, as is the error of one that is ready.
 */
static json_t *describe_row(const struct weight_set *set)
{
    static const char *const columns[] = {"name",         "source", "state",  "d_model",   "num_heads",
                                          "num_kv_heads", "d_k",    "d_v",    "dtype",     "parameters",
                                          "bytes",        "bias",   "digest", "loaded_at", "error"};
    json_t *described = weights_describe(set), *row = described ? json_object() : NULL;
    for (size_t i = 0; row && i < sizeof columns / sizeof *columns; i++) {
        json_t *value = json_object_get(described, columns[i]);
        if (json_object_set_new(row, columns[i], value ? json_incref(value) : json_null()) != 0) {
            json_decref(row);
            row = NULL;
        }
    }
    json_decref(described);
    return row;
}

void weights_list_handle(struct request *request)
{
    const struct weights_registry *registry = &request->generation->registry;
    struct live_query query;
    struct error error;
    if (!live_query_read(request->target, 1u << LIVE_PARAMETER_FORMAT, request->generation->config, NULL, &query,
                         &error)) {
        request_fail(request, &error);
        return;
    }
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = 0; i < registry->count && whole; i++)
        whole = json_array_append_new(list, query.rows ? describe_row(registry->sets[i])
                                                       : weights_describe(registry->sets[i])) == 0;
    json_t *document = !whole ? NULL : query.rows ? json_incref(list) : json_pack("{s:O}", "weights", list);
    json_decref(list);
    request_succeed_document(request, document);
}

void weights_get_handle(struct request *request)
{
    const struct weights_registry *registry = &request->generation->registry;
    struct error error;
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->sets[i]->name, request->parameters[0]) == 0) {
            request_succeed_document(request, weights_describe(registry->sets[i]));
            return;
        }
    registry_find(registry, request->parameters[0], &error);
    error.has_pointer = false; /* the name stands in the path, not in a document */
    request_fail(request, &error);
}

void weights_reload_handle(struct request *request)
{
    const struct weight_set *set = registry_named(&request->generation->registry, request->parameters[0]);
    struct error error;
    if (set) {
        request->weights = set->name;
        reload_weights(request);
        return;
    }
    registry_find(&request->generation->registry, request->parameters[0], &error);
    error.has_pointer = false; /* the name stands in the path, not in a document */
    request_fail(request, &error);
}
