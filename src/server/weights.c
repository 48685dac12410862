/* GET /v1/weights and /v1/weights/{name}: the weight sets in memory; POST /v1/weights/{name}/reload: one of them loaded
 * again from its source. */
#include "server/weights.h"

#include "base/size.h"
#include "server/context.h"
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/live_query.h"
#include "telemetry/log.h"

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

/* The names of the members that its tokens may come as. */
static json_t *describe_inputs(const struct model_shape *model)
{
    if (!model)
        return json_pack("[s, s, s, s]", "input", "query", "key", "value");
    const struct embeddings_shape *embeddings = &model->embeddings;
    if (embeddings->patch_size)
        return json_pack("[s, s]", "input", "pixel_values");
    if (!embeddings->vocabulary)
        return json_pack("[s, s]", "input", "position_ids");
    return embeddings->types
               ? json_pack("[s, s, s, s, s]", "input", "input_ids", "inputs_embeds", "token_type_ids", "position_ids")
               : json_pack("[s, s, s, s]", "input", "input_ids", "inputs_embeds", "position_ids");
}

/* How many tokens a sequence may have; 0: as many as there are. */
static size_t most_positions(const struct weight_set *set)
{
    const struct model_shape *model = weight_set_model(set);
    const struct position_rule *position = &set->rules.rules.position;
    const size_t learned = position->kind == POSITION_LEARNED ? position->table_rows - position->offset : 0;
    if (!model || !model->embeddings.positions)
        return learned;
    const struct embeddings_shape *embeddings = &model->embeddings;
    const size_t begun =
        embeddings->count_padding_id ? (size_t)embeddings->padding_id + 1 : embeddings->position_offset;
    return embeddings->positions - size_min(begun, embeddings->positions);
}

/* Adds what it takes: tokens of which kinds, and how many. */
static bool add_inputs(json_t *description, const struct weight_set *set)
{
    const struct model_shape *model = weight_set_model(set);
    const size_t vocabulary = model ? model->embeddings.vocabulary : 0, positions = most_positions(set);
    return json_object_set_new(description, "inputs", describe_inputs(model)) == 0 &&
           (vocabulary == 0 ||
            json_object_set_new(description, "vocab_size", json_integer((json_int_t)vocabulary)) == 0) &&
           (positions == 0 ||
            json_object_set_new(description, "max_positions", json_integer((json_int_t)positions)) == 0);
}

void weights_log_unused(const struct weight_set *set)
{
    if (set->unused)
        log_event(LOG_INFO, "unused_tensors", LOG_STRING("weights", set->name), LOG_STRING("source", set->source),
                  LOG_STRING("tensors", set->unused));
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
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:b, s:s, s:s}", "name", set->name,
                  "source", set->source, "state", "ready", "num_layers", (json_int_t)set->num_layers, "d_model",
                  (json_int_t)shape->d_model, "num_heads", (json_int_t)shape->num_heads, "num_kv_heads",
                  (json_int_t)shape->num_kv_heads, "d_k", (json_int_t)shape->d_k, "d_v", (json_int_t)shape->d_v,
                  "dtype", weight_set_dtype(set), "parameters", (json_int_t)set->parameters, "bytes", (json_int_t)weight_set_bytes(set),
                  "bias", set->bias, "digest", set->digest, "loaded_at", loaded_at);
    if (description && !(add_inputs(description, set) && add_rules(description, set))) {
        json_decref(description);
        description = NULL;
    }
    return description;
}

/* The same columns whatever became of the set: what a failed one lacks is null, as is the error of one that is ready.
 */
static json_t *describe_row(const struct weight_set *set)
{
    static const char *const columns[] = {"name",         "source", "state", "num_layers", "d_model",       "num_heads",
                                          "num_kv_heads", "d_k",    "d_v",   "vocab_size", "max_positions", "dtype",
                                          "parameters",   "bytes",  "bias",  "digest",     "loaded_at",     "error"};
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
