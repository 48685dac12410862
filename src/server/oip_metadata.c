/* GET /v2, /v2/models, a model and its config: what the Open Inference Protocol says of the server and of a weight set,
 * in the form of Triton's documents. Entered by polling threads. */
#include "server/endpoints.h"
#include "server/json_answer.h"
#include "server/oip_model.h"
#include "version.h"

#include <stdio.h>

#define PLATFORM "attnd_multi_head_attention"

/* A dimension that is the request's to choose. */
#define ANY (-1)

#define MAX_DIMENSIONS 4

struct listed_tensor {
    const char *name, *datatype;
    size_t rank;
    json_int_t shape[MAX_DIMENSIONS];
    bool optional; /* an input: it may be left out */
};

/* [batch, tokens, ...] throughout: without the batch axis tensors are taken too, which the protocol cannot say. */
#define MAX_INPUTS 7
static size_t list_inputs(const struct attention_shape *shape, struct listed_tensor list[MAX_INPUTS])
{
    const json_int_t d_model = (json_int_t)shape->d_model, heads = (json_int_t)shape->num_heads;
    const struct listed_tensor all[MAX_INPUTS] = {
        {"input", "FP32", 3, {ANY, ANY, d_model}, false}, {"query", "FP32", 3, {ANY, ANY, d_model}, true},
        {"key", "FP32", 3, {ANY, ANY, d_model}, true},    {"value", "FP32", 3, {ANY, ANY, d_model}, true},
        {"attention_mask", "INT64", 2, {ANY, ANY}, true}, {"bias", "FP32", 3, {heads, ANY, ANY}, true},
        {"head_mask", "FP32", 1, {heads}, true},
    };
    for (size_t i = 0; i < MAX_INPUTS; i++)
        list[i] = all[i];
    return MAX_INPUTS;
}

#define MAX_OUTPUTS 8
static size_t list_outputs(const struct attention_shape *shape, struct listed_tensor list[MAX_OUTPUTS])
{
    const json_int_t d_model = (json_int_t)shape->d_model, heads = (json_int_t)shape->num_heads,
                     d_k = (json_int_t)shape->d_k, d_v = (json_int_t)shape->d_v;
    const struct listed_tensor all[MAX_OUTPUTS] = {
        {"output", "FP32", 3, {ANY, ANY, d_model}, false},
        {"attention", "FP32", 4, {ANY, heads, ANY, ANY}, false},
        {"heads", "FP32", 4, {ANY, heads, ANY, d_v}, false},
        {"query", "FP32", 4, {ANY, heads, ANY, d_k}, false},
        {"key", "FP32", 4, {ANY, heads, ANY, d_k}, false},
        {"value", "FP32", 4, {ANY, heads, ANY, d_v}, false},
        {"attention_keys", "INT32", 4, {ANY, heads, ANY, ANY}, false},
        {"attention_weights", "FP32", 4, {ANY, heads, ANY, ANY}, false},
    };
    for (size_t i = 0; i < MAX_OUTPUTS; i++)
        list[i] = all[i];
    return MAX_OUTPUTS;
}

/* NULL when memory ran out, as all of these. */
static json_t *shape_of(const struct listed_tensor *tensor)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

/* {"name", "datatype", "shape"} */
static json_t *describe_metadata(const struct listed_tensor *tensor)
{
    return json_pack("{s:s, s:s, s:o}", "name", tensor->name, "datatype", tensor->datatype, "shape", shape_of(tensor));
}

static json_t *describe_input(const struct listed_tensor *tensor)
{
    char type[24];
    snprintf(type, sizeof type, "TYPE_%s", tensor->datatype);
    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:b, s:b}", "name", tensor->name, "data_type", type, "format",
                     "FORMAT_NONE", "dims", shape_of(tensor), "is_shape_tensor", 0, "allow_ragged_batch", 0, "optional",
                     (int)tensor->optional);
}

static json_t *describe_output(const struct listed_tensor *tensor)
{
    char type[24];
    snprintf(type, sizeof type, "TYPE_%s", tensor->datatype);
    return json_pack("{s:s, s:s, s:o, s:s, s:b}", "name", tensor->name, "data_type", type, "dims", shape_of(tensor),
                     "label_filename", "", "is_shape_tensor", 0);
}

static json_t *describe_all(const struct listed_tensor *list, size_t count,
                            json_t *(*describe)(const struct listed_tensor *))
{
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(all, describe(&list[i])) != 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

void oip_server_handle(struct request *request)
{
    request_succeed_document(request, json_pack("{s:s, s:s, s:[s, s, s, s]}", "name", "attnd", "version", ATTND_VERSION,
                                                "extensions", "binary_tensor_data", "model_configuration", "statistics",
                                                "parameters"));
}

void oip_models_handle(struct request *request)
{
    const struct weights_registry *registry = &request->generation->registry;
    json_t *names = json_array();
    for (size_t i = 0; i < registry->count; i++)
        if (json_array_append_new(names, json_string(registry->sets[i]->name)) != 0) {
            json_decref(names);
            names = NULL;
        }
    request_succeed_document(request, json_pack("{s:o}", "models", names));
}

void oip_model_handle(struct request *request)
{
    struct listed_tensor inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (!set) {
        request_fail(request, &error);
        return;
    }
    const size_t n_inputs = list_inputs(&set->shape, inputs), n_outputs = list_outputs(&set->shape, outputs);
    request_succeed_document(request, json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", set->name, "versions",
                                                OIP_MODEL_VERSION, "platform", PLATFORM, "inputs",
                                                describe_all(inputs, n_inputs, describe_metadata), "outputs",
                                                describe_all(outputs, n_outputs, describe_metadata)));
}

/* Triton's parameters: {"NAME": {"string_value": "VALUE"}}. */
static json_t *describe_parameters(const struct weight_set *set)
{
    const struct attention_shape *shape = &set->shape;
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"d_model", shape->d_model},
                   {"num_heads", shape->num_heads},
                   {"num_kv_heads", shape->num_kv_heads},
                   {"d_k", shape->d_k},
                   {"d_v", shape->d_v}};
    json_t *all =
        json_pack("{s:{s:s}, s:{s:s}}", "digest", "string_value", set->digest, "source", "string_value", set->source);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && all; i++) {
        char text[24];
        snprintf(text, sizeof text, "%zu", numbers[i].value);
        if (json_object_set_new(all, numbers[i].name, json_pack("{s:s}", "string_value", text)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* max_batch_size 0: the dims have the batch axis. */
void oip_config_handle(struct request *request)
{
    struct listed_tensor inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (!set) {
        request_fail(request, &error);
        return;
    }
    const size_t n_inputs = list_inputs(&set->shape, inputs), n_outputs = list_outputs(&set->shape, outputs);
    request_succeed_document(request, json_pack("{s:s, s:s, s:s, s:{s:{s:i}}, s:i, s:o, s:o, s:[], s:o}", "name",
                                                set->name, "platform", PLATFORM, "backend", "attnd", "version_policy",
                                                "latest", "num_versions", 1, "max_batch_size", 0, "input",
                                                describe_all(inputs, n_inputs, describe_input), "output",
                                                describe_all(outputs, n_outputs, describe_output), "instance_group",
                                                "parameters", describe_parameters(set)));
}
