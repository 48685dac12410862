/* Owns a set from its source to the packed layer: shape, tensors, digest, packing; only the packed layer stays. A set
 * is made by one thread and afterwards only read, by any. */
#include "weights/weight_set.h"

#include "base/size.h"
#include "base/utf8.h"
#include "config/weights_keys.h"
#include "weights/digest.h"
#include "weights/layer_shape.h"
#include "weights/layer_tensors.h"
#include "weights/load_threads.h"
#include "weights/model_set.h"
#include "weights/numpy_source.h"
#include "weights/safetensors_source.h"
#include "weights/svd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(WEIGHT_SET_DIGEST_BYTES == DIGEST_TEXT_BYTES, "a set holds a digest");

/* The last name of a path, of `length` characters: slashes behind a folder's name are none of it. */
static const char *file_name(const char *path, int *length)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    *length = (int)(end - begin);
    return path + begin;
}

/* What answers call the source: never a path. Fresh memory, NULL when there is none. */
static char *source_text(const struct weights_config *config)
{
    const char *kind = weights_source_names[config->source];
    char *text;
    int length;
    if (config->source == WEIGHTS_NUMPY || config->source == WEIGHTS_IDENTITY)
        return strdup(kind);
    const char *name = file_name(config->path ? config->path : "", &length);
    if (asprintf(&text, "%s:%.*s", kind, length, name) < 0)
        return NULL;
    utf8_mend(text); /* a file may be called anything, but it goes into JSON and metrics */
    return text;
}

/* A set with its name and source and nothing else. */
static struct weight_set *begin_set(const struct weights_config *config)
{
    struct weight_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    atomic_init(&set->holders, 1);
    set->name = strdup(config->name ? config->name : "");
    set->source = source_text(config);
    if (!set->name || !set->source) {
        weight_set_free(set);
        return NULL;
    }
    return set;
}

/* The shape and the float32 tensors (to be freed) that the configuration's source gives. */
static bool load_tensors(const struct weights_config *config, struct attention_shape *shape,
                         struct layer_tensors *tensors, struct error *error)
{
    if (config->source == WEIGHTS_SAFETENSORS)
        return safetensors_source_load(config, shape, tensors, error);

    struct attention_shape made;
    if (!layer_shape_make(config, config->d_model, &made, error))
        return false;
    struct layer_tensors loaded = layer_tensors_describe(&made, 0);
    if (config->source == WEIGHTS_NUMPY &&
        (!layer_tensors_allocate(&loaded, error) || !numpy_source_fill(config, &loaded, error))) {
        layer_tensors_free(&loaded);
        return false;
    }
    *shape = made;
    *tensors = loaded;
    return true;
}

/* A list of the one layer there is; NULL with an error. */
static struct attention_layer **pack(const struct attention_shape *shape, const struct layer_tensors *tensors,
                                     struct error *error)
{
    const struct attention_matrices matrices = {
        .w_q = tensors->items[LAYER_W_Q].data,
        .w_k = tensors->items[LAYER_W_K].data,
        .w_v = tensors->items[LAYER_W_V].data,
        .w_o = tensors->items[LAYER_W_O].data,
        .b_q = tensors->items[LAYER_B_Q].data,
        .b_k = tensors->items[LAYER_B_K].data,
        .b_v = tensors->items[LAYER_B_V].data,
        .b_o = tensors->items[LAYER_B_O].data,
    };
    struct attention_layer **layers = calloc(1, sizeof *layers);
    if (!layers) {
        error_out_of_memory(error);
        return NULL;
    }
    layers[0] = attention_layer_create(shape, &matrices, error);
    if (!layers[0]) {
        free(layers);
        return NULL;
    }
    return layers;
}

/* The layers of lower rank, where the set's rules say so. */
static bool pack_svd(struct weight_set *set, const struct layer_tensors *tensors, struct error *error)
{
    struct attention_shape shape;
    struct layer_tensors made;
    if (set->rules.rules.low_rank.kind != LOW_RANK_SVD)
        return true;
    if (!svd_layer_make(&set->shape, tensors, &set->rules.rules.low_rank, load_threads(), &shape, &made, error))
        return false;
    set->svd_layers = pack(&shape, &made, error);
    layer_tensors_free(&made);
    return set->svd_layers != NULL;
}

/* Puts the file's name in front, so that the text is complete wherever it is shown. */
static void name_file(const struct weights_config *config, struct error *error)
{
    int length;
    const char *name = config->path ? file_name(config->path, &length) : NULL;
    if (name)
        error_precede(error, "%.*s: ", length, name);
}

/* One layer without anything around it. */
static bool load_bare(const struct weights_config *config, struct weight_set *set, struct error *error)
{
    struct layer_tensors tensors = {0};
    if (!load_tensors(config, &set->shape, &tensors, error) ||
        !set_rules_load(config, &set->shape, NULL, &set->rules, error)) {
        layer_tensors_free(&tensors);
        return false;
    }
    digest_write(&set->shape, &tensors, &set->rules, set->digest);
    set->parameters = layer_tensors_count(&tensors);
    for (unsigned kind = LAYER_B_Q; kind <= LAYER_B_O; kind++)
        set->bias = set->bias || tensors.items[kind].rows;
    set->num_layers = 1;
    const bool packed = (set->layers = pack(&set->shape, &tensors, error)) && pack_svd(set, &tensors, error);
    layer_tensors_free(&tensors);
    return packed;
}

struct weight_set *weight_set_load(const struct weights_config *config, struct error *error)
{
    struct weight_set *set = begin_set(config);
    if (!set) {
        error_out_of_memory(error);
    } else if (model_set_is(config) ? model_set_load(config, set, error) : load_bare(config, set, error)) {
        clock_gettime(CLOCK_REALTIME, &set->loaded_at);
        set->ready = true;
        return set;
    }
    weight_set_free(set);
    name_file(config, error);
    return NULL;
}

struct weight_set *weight_set_failed(const struct weights_config *config, const char *failure)
{
    struct weight_set *set = begin_set(config);
    if (!set)
        return NULL;
    set->failure = strdup(failure);
    if (!set->failure) {
        weight_set_free(set);
        return NULL;
    }
    utf8_mend(set->failure); /* it may name files and tensors, and have cut their names anywhere */
    return set;
}

/* Bytes of the tensors of lower rank, and of what making them takes besides. */
static bool svd_need(const struct attention_shape *shape, const struct layer_tensors *tensors,
                     const struct low_rank_rule *rule, size_t *bytes, size_t *scratch, struct error *error)
{
    struct attention_shape made;
    *bytes = *scratch = 0;
    if (rule->kind != LOW_RANK_SVD)
        return true;
    if (!svd_layer_shape(shape, rule, &made, error))
        return false;
    const struct layer_tensors lower = svd_layer_describe(&made, tensors);
    return (size_multiply(layer_tensors_count(&lower), sizeof(float), bytes) &&
            svd_layer_scratch(shape, rule, load_threads(), scratch)) ||
           error_out_of_memory(error);
}

static bool bare_need(const struct weights_config *config, struct weight_set_need *need, struct error *error)
{
    struct attention_shape shape;
    const bool known = config->source == WEIGHTS_SAFETENSORS ? safetensors_source_shape(config, &shape, error)
                                                             : layer_shape_make(config, config->d_model, &shape, error);
    if (!known)
        return false;
    const struct layer_tensors all = layer_tensors_describe(&shape, ~0U);
    struct low_rank_rule low_rank;
    size_t rules, svd, scratch;
    if (!set_rules_need(config, &shape, NULL, &low_rank, &rules, error) ||
        !svd_need(&shape, &all, &low_rank, &svd, &scratch, error))
        return false;
    if (!size_multiply(layer_tensors_count(&all), sizeof(float), &need->loaded) ||
        !size_add(need->loaded, svd, &need->loaded) || !size_multiply(need->loaded, 2, &need->loading) ||
        !size_add(need->loading, rules, &need->loading) || !size_add(need->loading, scratch, &need->loading) ||
        !size_add(need->loaded, rules, &need->loaded))
        return error_out_of_memory(error);
    return true;
}

bool weight_set_need(const struct weights_config *config, struct weight_set_need *need, struct error *error)
{
    if (model_set_is(config) ? model_set_need(config, need, error) : bare_need(config, need, error))
        return true;
    name_file(config, error);
    return false;
}

const struct attention_layer *weight_set_layer(const struct weight_set *set, const struct attention_rules *rules)
{
    if (set->model)
        return NULL;
    return (rules && rules->low_rank.kind == LOW_RANK_SVD ? set->svd_layers : set->layers)[0];
}

struct weight_set *weight_set_hold(struct weight_set *set)
{
    atomic_fetch_add(&set->holders, 1);
    return set;
}

const struct model *weight_set_model_under(const struct weight_set *set, const struct attention_rules *rules)
{
    return rules && rules->low_rank.kind == LOW_RANK_SVD ? set->svd_model : set->model;
}

const struct attention_shape *weight_set_default_shape(const struct weight_set *set)
{
    const struct attention_layer *layer = weight_set_layer(set, set->rules.defaults.rules);
    const struct model *model = weight_set_model_under(set, set->rules.defaults.rules);
    return model ? &model_shape_of(model)->attention : attention_layer_shape(layer);
}

static void free_layers(struct attention_layer **layers, size_t count)
{
    for (size_t i = 0; layers && i < count; i++)
        attention_layer_free(layers[i]);
    free(layers);
}

void weight_set_free(struct weight_set *set)
{
    if (!set || atomic_fetch_sub(&set->holders, 1) > 1)
        return;
    free_layers(set->layers, set->num_layers);
    free_layers(set->svd_layers, set->num_layers);
    model_free(set->svd_model);
    model_free(set->model);
    free(set->unused);
    set_rules_free(&set->rules);
    free(set->failure);
    free(set->source);
    free(set->name);
    free(set);
}
