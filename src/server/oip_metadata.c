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

#define MAX_DIMENSIONS 5

struct listed_tensor {
    const char *name, *datatype;
    size_t rank;
    json_int_t shape[MAX_DIMENSIONS];
    bool optional; /* an input: it may be left out */
};

/* A list while it is made. [batch, tokens, ...] throughout: without the batch axis tensors are taken too, which the
 * protocol cannot say. */
#define MAX_TENSORS 10
struct listing {
    struct listed_tensor items[MAX_TENSORS];
    size_t count;
};

static void list(struct listing *listing, struct listed_tensor tensor)
{
    listing->items[listing->count++] = tensor;
}

/* What a model embeds, the first of which is needed. */
static void list_embedded(struct listing *listing, const struct embeddings_shape *shape)
{
    const json_int_t side = (json_int_t)shape->image_size;
    if (shape->patch_size)
        list(listing,
             (struct listed_tensor){"pixel_values", "FP32", 4, {ANY, (json_int_t)shape->channels, side, side}, false});
    if (!shape->vocabulary)
        return;
    list(listing, (struct listed_tensor){"input_ids", "INT64", 2, {ANY, ANY}, false});
    if (shape->types)
        list(listing, (struct listed_tensor){"token_type_ids", "INT64", 2, {ANY, ANY}, true});
    list(listing, (struct listed_tensor){"inputs_embeds", "FP32", 3, {ANY, ANY, (json_int_t)shape->width}, true});
}

static void list_inputs(const struct weight_set *set, struct listing *listing)
{
    const struct model_shape *model = weight_set_model(set);
    const json_int_t d_model = (json_int_t)set->shape.d_model, heads = (json_int_t)set->shape.num_heads,
                     layers = (json_int_t)set->num_layers;
    *listing = (struct listing){.count = 0};
    if (model)
        list_embedded(listing, &model->embeddings);
    list(listing, (struct listed_tensor){"input", "FP32", 3, {ANY, ANY, d_model}, listing->count > 0});
    if (!model) {
        list(listing, (struct listed_tensor){"query", "FP32", 3, {ANY, ANY, d_model}, true});
        list(listing, (struct listed_tensor){"key", "FP32", 3, {ANY, ANY, d_model}, true});
        list(listing, (struct listed_tensor){"value", "FP32", 3, {ANY, ANY, d_model}, true});
    }
    list(listing, (struct listed_tensor){"attention_mask", "INT64", 2, {ANY, ANY}, true});
    if (model && !model->embeddings.patch_size)
        list(listing, (struct listed_tensor){"position_ids", "INT64", 2, {ANY, ANY}, true});
    list(listing, (struct listed_tensor){"bias", "FP32", 3, {heads, ANY, ANY}, true});
    list(listing, layers > 1 ? (struct listed_tensor){"head_mask", "FP32", 2, {layers, heads}, true}
                             : (struct listed_tensor){"head_mask", "FP32", 1, {heads}, true});
}

/* [batch, layers where there are many, heads, tokens, `last`]. */
static struct listed_tensor of_heads(const struct weight_set *set, const char *name, const char *datatype,
                                     json_int_t last)
{
    const json_int_t layers = (json_int_t)set->num_layers, heads = (json_int_t)set->shape.num_heads;
    return layers > 1 ? (struct listed_tensor){name, datatype, 5, {ANY, layers, heads, ANY, last}, false}
                      : (struct listed_tensor){name, datatype, 4, {ANY, heads, ANY, last}, false};
}

static void list_outputs(const struct weight_set *set, struct listing *listing)
{
    const struct attention_shape *shape = weight_set_default_shape(set);
    const json_int_t d_model = (json_int_t)shape->d_model, d_k = (json_int_t)shape->d_k, d_v = (json_int_t)shape->d_v,
                     states = (json_int_t)set->num_layers + 1;
    *listing = (struct listing){.count = 0};
    list(listing, (struct listed_tensor){"output", "FP32", 3, {ANY, ANY, d_model}, false});
    list(listing, of_heads(set, "attention", "FP32", ANY));
    list(listing, of_heads(set, "heads", "FP32", d_v));
    list(listing, of_heads(set, "query", "FP32", d_k));
    list(listing, of_heads(set, "key", "FP32", d_k));
    list(listing, of_heads(set, "value", "FP32", d_v));
    list(listing, of_heads(set, "attention_keys", "INT32", ANY));
    list(listing, of_heads(set, "attention_weights", "FP32", ANY));
    if (shape->projected)
        list(listing, (struct listed_tensor){"hidden_states", "FP32", 4, {ANY, states, ANY, d_model}, false});
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

static json_t *describe_all(const struct listing *listing, json_t *(*describe)(const struct listed_tensor *))
{
    json_t *all = json_array();
    for (size_t i = 0; i < listing->count; i++)
        if (json_array_append_new(all, describe(&listing->items[i])) != 0) {
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
    struct listing inputs, outputs;
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (!set) {
        request_fail(request, &error);
        return;
    }
    list_inputs(set, &inputs);
    list_outputs(set, &outputs);
    request_succeed_document(request,
                             json_pack("{s:s, s:[s], s:s, s:o, s:o}", "name", set->name, "versions", OIP_MODEL_VERSION,
                                       "platform", PLATFORM, "inputs", describe_all(&inputs, describe_metadata),
                                       "outputs", describe_all(&outputs, describe_metadata)));
}

/* Triton's parameters: {"NAME": {"string_value": "VALUE"}}. */
static json_t *describe_parameters(const struct weight_set *set)
{
    const struct attention_shape *shape = &set->shape;
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"num_layers", set->num_layers},       {"d_model", shape->d_model}, {"num_heads", shape->num_heads},
                   {"num_kv_heads", shape->num_kv_heads}, {"d_k", shape->d_k},         {"d_v", shape->d_v}};
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
    struct listing inputs, outputs;
    struct error error;
    const struct weight_set *set = oip_model_find(request, &error);
    if (!set) {
        request_fail(request, &error);
        return;
    }
    list_inputs(set, &inputs);
    list_outputs(set, &outputs);
    request_succeed_document(request, json_pack("{s:s, s:s, s:s, s:{s:{s:i}}, s:i, s:o, s:o, s:[], s:o}", "name",
                                                set->name, "platform", PLATFORM, "backend", "attnd", "version_policy",
                                                "latest", "num_versions", 1, "max_batch_size", 0, "input",
                                                describe_all(&inputs, describe_input), "output",
                                                describe_all(&outputs, describe_output), "instance_group", "parameters",
                                                describe_parameters(set)));
}
