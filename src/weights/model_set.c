/* Owns the order of things: the source is opened and checked, its rules are read, then its numbers. One thread. */
#include "weights/model_set.h"

#include "base/size.h"
#include "base/text.h"
#include "weights/blocks_source.h"
#include "weights/digest.h"
#include "weights/huggingface_source.h"
#include "weights/layer_rules.h"
#include "weights/load_threads.h"
#include "weights/model_digest.h"
#include "weights/model_load.h"
#include "weights/model_svd.h"

/* `counting`: tensors of the layers' own rules are looked up, and not read; their bytes in *bytes. */
static bool open_blocks(const struct weights_config *config, bool counting, struct model_source *source,
                        struct set_rules *rules, size_t *bytes, struct error *error)
{
    const struct blocks_config blocks = {.entry = config,
                                         .num_layers = config->num_layers,
                                         .layer = config->layer,
                                         .layers = config->layers,
                                         .embeddings = config->embeddings,
                                         .final_norm = config->final_norm};
    struct layer_rules layers;
    if (!layer_rules_begin(&layers, config, rules, counting, error))
        return false;
    const struct blocks_rules interface = layer_rules_interface(&layers);
    const bool opened = blocks_source_open(&blocks, &interface, source, error);
    *bytes = layers.files.bytes;
    if (layer_rules_end(&layers, opened, error) && opened)
        return true;
    if (opened)
        model_source_free(source);
    return false;
}

static bool open_source(const struct weights_config *config, bool counting, struct model_source *source,
                        struct set_rules *rules, size_t *bytes, struct error *error)
{
    *bytes = 0;
    if (!(config->source == WEIGHTS_BLOCKS ? open_blocks(config, counting, source, rules, bytes, error)
                                           : huggingface_source_open(config->path, source, error)))
        return false;
    source->shape.precision = config->precision == WEIGHTS_BF16 ? PRECISION_BF16 : PRECISION_F32;
    return true;
}

/* What the source's own rules point to becomes the set's, which lives longer. */
static bool keep_tables(struct model_source *source, struct set_rules *rules, struct error *error)
{
    const struct position_rule *position = &source->position;
    if (source->table) {
        if (!rule_tensors_add(&rules->tensors, NULL, source->table,
                              position->table_rows * source->shape.attention.num_heads))
            return error_out_of_memory(error);
        source->table = NULL;
    }
    if (source->frequencies) {
        if (!rule_tensors_add(&rules->tensors, NULL, source->frequencies,
                              (position->dims ? position->dims : source->shape.attention.d_k) / 2))
            return error_out_of_memory(error);
        source->frequencies = NULL;
    }
    return true;
}

/* The names of the tensors that neither the model nor a rule has a use for; NULL: all are used. */
static bool list_unused(const struct model_source *source, const struct set_rules *rules, char **unused,
                        struct error *error)
{
    struct text names = {0};
    for (size_t i = 0; i < rules->tensors.count; i++) {
        const char *name = rules->tensors.items[i].name;
        struct model_tensor *tensor = NULL;
        if (name && !model_files_find(&source->files, NULL, name, &tensor, error))
            return false;
        if (tensor)
            tensor->used = true;
    }
    model_files_unused(&source->files, &names);
    if (!names.failed && names.length > 0)
        *unused = text_copy(names.data, names.length);
    const bool listed = !names.failed && (names.length == 0 || *unused);
    text_free(&names);
    return listed || error_out_of_memory(error);
}

/* What the set says of itself. */
static void describe(const struct model_shape *shape, struct weight_set *set)
{
    set->shape = shape->attention;
    set->num_layers = shape->num_layers;
    for (size_t i = 0; i < model_tensors(shape); i++) {
        const struct slot_extent extent = model_slot_extent(shape, model_tensor(shape, i));
        set->parameters += extent.rows * extent.columns; /* no overflow: they are in memory */
    }
    for (size_t n = 0; n < shape->num_layers; n++) {
        const struct layer_shape *layer = &shape->layers[n];
        set->bias = set->bias || layer->bias_q || layer->bias_k || layer->bias_v || layer->bias_o;
    }
}

/* The model of lower rank, where the set's rules say so. */
static bool load_svd(struct weight_set *set, struct error *error)
{
    const struct low_rank_rule *rule = &set->rules.rules.low_rank;
    if (rule->kind != LOW_RANK_SVD)
        return true;
    set->svd_model = model_svd_make(set->model, rule, load_threads(), error);
    return set->svd_model != NULL;
}

bool model_set_load(const struct weights_config *config, struct weight_set *set, struct error *error)
{
    struct model_source source = {0};
    size_t bytes;
    bool done = false;
    if (!open_source(config, false, &source, &set->rules, &bytes, error))
        return false;
    if (!keep_tables(&source, &set->rules, error) ||
        !set_rules_load(config, &source.shape.attention, &source, &set->rules, error) ||
        !list_unused(&source, &set->rules, &set->unused, error))
        goto fail;
    set->model = model_load(&source, load_threads(), set->digest, error);
    if (!set->model || !load_svd(set, error))
        goto fail;
    set->rules.defaults.model = model_shape_of(set->model);
    describe(set->rules.defaults.model, set);
    digest_add_rules(set->rules.defaults.model, &set->rules, set->digest);
    done = true;
fail:
    model_source_free(&source);
    return done;
}

static bool svd_need(const struct model_shape *shape, const struct low_rank_rule *rule, size_t *bytes, size_t *scratch,
                     struct error *error)
{
    *bytes = *scratch = 0;
    return rule->kind != LOW_RANK_SVD || model_svd_need(shape, rule, load_threads(), bytes, scratch, error);
}

bool model_set_need(const struct weights_config *config, struct weight_set_need *need, struct error *error)
{
    struct set_rules layer_rules = {0};
    struct model_source source = {0};
    struct low_rank_rule low_rank;
    size_t layers, rules, bytes, scratch, svd, svd_scratch;
    bool done = false;
    if (!open_source(config, true, &source, &layer_rules, &layers, error)) {
        set_rules_free(&layer_rules);
        return false;
    }
    if (!set_rules_need(config, &source.shape.attention, &source, &low_rank, &rules, error))
        goto fail;
    if (!model_shape_bytes(&source.shape, &bytes) || !size_add(bytes, layers, &bytes) ||
        !size_add(bytes, rules, &bytes)) {
        error_out_of_memory(error);
        goto fail;
    }
    if (!svd_need(&source.shape, &low_rank, &svd, &svd_scratch, error))
        goto fail;
    done = (model_load_scratch_bytes(&source, load_threads(), &scratch) && size_add(bytes, svd, &need->loaded) &&
            size_add(need->loaded, size_max(scratch, svd_scratch), &need->loading)) ||
           error_out_of_memory(error);
fail:
    set_rules_free(&layer_rules);
    model_source_free(&source);
    return done;
}
