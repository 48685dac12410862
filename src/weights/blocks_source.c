/* Owns what the members of a block stand for: which tensors of the file, of which shape. One thread. */
#include "weights/blocks_source.h"

#include "weights/blocks_members.h"
#include "weights/layer_shape.h"
#include "weights/tensor_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    const struct blocks_config *config;
    const struct blocks_rules *rules;
    struct model_source *source;
    struct layer_shape *shapes; /* [num_layers] */
    struct tensor_search search;
    struct text name; /* the last one that was made */
    struct error *error;
};

#define NO_HEAD SIZE_MAX

static bool fault_at(struct build *build, const struct block_name *member)
{
    struct error *error = build->error;
    if (error->code != ERROR_OUT_OF_MEMORY) {
        error->has_pointer = true;
        snprintf(error->pointer, sizeof error->pointer, "%s", member->pointer);
    }
    return false;
}

/* The name with its marks replaced, in build->name; NULL with the error. */
static const char *write_name(struct build *build, const struct block_name *member, size_t layer, size_t head)
{
    static const char layer_mark[] = "{layer}", head_mark[] = "{head}";
    char *plain = json_key_copy(&member->name, NULL);
    build->name.length = 0;
    for (const char *at = plain; at && *at;) {
        const bool is_layer = strncmp(at, layer_mark, sizeof layer_mark - 1) == 0;
        const bool is_head = head != NO_HEAD && strncmp(at, head_mark, sizeof head_mark - 1) == 0;
        if (is_layer || is_head) {
            text_append_size(&build->name, is_layer ? layer : head);
            at += (is_layer ? sizeof layer_mark : sizeof head_mark) - 1;
        } else {
            text_append(&build->name, at++, 1);
        }
    }
    const char *name = plain ? text_terminate(&build->name) : NULL;
    free(plain);
    if (!name)
        error_out_of_memory(build->error);
    return name;
}

static bool no_tensor(struct build *build, const struct block_name *member, const char *name)
{
    const char *nearest = model_files_nearest(build->search.files, NULL, name);
    if (nearest)
        error_set(build->error, ERROR_INVALID, "it has no tensor \"%s\"; did you mean \"%s\"?", name, nearest);
    else
        error_set(build->error, ERROR_INVALID, "it has no tensor \"%s\" among its %zu", name,
                  build->search.files->tensor_count);
    return fault_at(build, member);
}

/* What came of a search: a tensor that is not there is an error here. */
static bool found(struct build *build, const struct block_name *member, const char *name, bool searched)
{
    if (!searched)
        return fault_at(build, member);
    return build->search.missing_count == 0 || no_tensor(build, member, name);
}

static bool find_matrix(struct build *build, const struct block_name *member, size_t layer, size_t head,
                        struct extent rows, struct extent columns, struct tensor_place *place)
{
    const char *name = write_name(build, member, layer, head);
    return name && found(build, member, name,
                         tensor_search_matrix(&build->search, name, build->config->entry->layout, rows, columns, place,
                                              build->error));
}

static bool find_vector(struct build *build, const struct block_name *member, size_t layer, size_t head,
                        struct extent columns, struct tensor_place *place)
{
    const char *name = write_name(build, member, layer, head);
    return name && found(build, member, name, tensor_search_vector(&build->search, name, columns, place, build->error));
}

/* A matrix, or the bias of one (`is_bias`), that may be one tensor for each head. */
static bool find_part(struct build *build, const struct block_name *member, size_t layer, bool is_bias,
                      struct extent rows, struct extent head_columns, size_t heads, const char *words,
                      struct tensor_place *place)
{
    if (!memmem(member->name.raw, member->name.length, "{head}", strlen("{head}"))) {
        const struct extent columns = {heads * head_columns.size, words};
        return is_bias ? find_vector(build, member, layer, NO_HEAD, columns, place)
                       : find_matrix(build, member, layer, NO_HEAD, rows, columns, place);
    }
    struct tensor_place *places = calloc(heads, sizeof *places);
    if (!places)
        return error_out_of_memory(build->error);
    for (size_t h = 0; h < heads; h++)
        if (!(is_bias ? find_vector(build, member, layer, h, head_columns, &places[h])
                      : find_matrix(build, member, layer, h, rows, head_columns, &places[h]))) {
            free(places);
            return false;
        }
    *place = (struct tensor_place){.file = places->file,
                                   .entry = places->entry,
                                   .rows = is_bias ? 1 : rows.size,
                                   .columns = heads * head_columns.size,
                                   .heads = places,
                                   .head_count = heads};
    return true;
}

/* The tensors of the attention from W_QKV, or from b_QKV (`is_bias`): queries, keys, values side by side. */
static bool fill_fused(struct build *build, const struct block_name *member, size_t layer, bool is_bias,
                       struct tensor_place *places)
{
    const struct attention_shape *shape = &build->source->shape.attention;
    const size_t columns[] = {shape->num_heads * shape->d_k, shape->num_kv_heads * shape->d_k,
                              shape->num_kv_heads * shape->d_v};
    const struct extent all = {columns[0] + columns[1] + columns[2],
                               "(num_heads + num_kv_heads) * d_k + num_kv_heads * d_v"};
    struct tensor_place whole;
    if (!(is_bias
              ? find_vector(build, member, layer, NO_HEAD, all, &whole)
              : find_matrix(build, member, layer, NO_HEAD, (struct extent){shape->d_model, "d_model"}, all, &whole)))
        return false;
    for (size_t i = 0, first = 0; i < 3; first += columns[i++])
        places[i] = tensor_place_columns(&whole, first, columns[i]);
    return true;
}

/* Matrices, or biases: slots in the order of queries, keys, values and output. */
static bool fill_tensors(struct build *build, const struct block_layer *layer, size_t n, bool is_bias,
                         struct tensor_place places[4])
{
    static const enum weight_tensor apart[2][3] = {{TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V},
                                                   {TENSOR_B_Q, TENSOR_B_K, TENSOR_B_V}};
    const struct attention_shape *shape = &build->source->shape.attention;
    const struct extent d_model = {shape->d_model, "d_model"}, d_k = {shape->d_k, "d_k"}, d_v = {shape->d_v, "d_v"},
                        joined = {shape->num_heads * shape->d_v, "num_heads * d_v"};
    const struct block_name *fused = &layer->tensors[is_bias ? TENSOR_B_QKV : TENSOR_W_QKV],
                            *output = &layer->tensors[is_bias ? TENSOR_B_O : TENSOR_W_O];
    if (fused->name.raw && !fill_fused(build, fused, n, is_bias, places))
        return false;
    for (size_t i = 0; i < 3; i++) {
        static const char *const words[] = {"num_heads * d_k", "num_kv_heads * d_k", "num_kv_heads * d_v"};
        const struct block_name *member = &layer->tensors[apart[is_bias][i]];
        if (member->name.raw && !find_part(build, member, n, is_bias, d_model, i == 2 ? d_v : d_k,
                                           i ? shape->num_kv_heads : shape->num_heads, words[i], &places[i]))
            return false;
    }
    return !output->name.raw || (is_bias ? find_vector(build, output, n, NO_HEAD, d_model, &places[3])
                                         : find_matrix(build, output, n, NO_HEAD, joined, d_model, &places[3]));
}

static bool fill_norm(struct build *build, const struct block_norm *norm, size_t n, struct extent width,
                      struct norm_shape *shape, struct tensor_place *gain, struct tensor_place *bias)
{
    if (norm->kind == NORM_NONE)
        return true;
    *shape = (struct norm_shape){.kind = norm->kind, .bias = norm->bias.name.raw != NULL, .eps = (float)norm->eps};
    return find_vector(build, &norm->gain, n, NO_HEAD, width, gain) &&
           (!shape->bias || find_vector(build, &norm->bias, n, NO_HEAD, width, bias));
}

/* The extent of a matrix's tensor that the configuration does not say: its columns or its rows (`of_rows`). */
static bool look_at_extent(struct build *build, const struct block_name *member, size_t n, enum weights_layout layout,
                           bool of_rows, size_t *extent)
{
    const char *name = write_name(build, member, n, 0);
    struct model_tensor *tensor;
    if (!name || !model_files_find(build->search.files, NULL, name, &tensor, build->error))
        return false;
    if (!tensor)
        return no_tensor(build, member, name);
    if (tensor->entry->rank == 2 && tensor->entry->count > 0) {
        *extent = tensor->entry->shape[of_rows == (layout == LAYOUT_OUT_IN)];
        return true;
    }
    error_set(build->error, ERROR_INVALID, "tensor \"%.200s\" has %u axes and %zu numbers, expected a matrix", name,
              tensor->entry->rank, tensor->entry->count);
    return fault_at(build, member);
}

static bool fill_ffn(struct build *build, const struct block_ffn *ffn, size_t n, struct ffn_shape *shape,
                     struct tensor_place *places)
{
    const struct extent d_model = {build->source->shape.attention.d_model, "d_model"};
    struct extent d_ff = {0, "the feed-forward's width"};
    if (ffn->kind == FFN_NONE)
        return true;
    if (!look_at_extent(build, &ffn->w_1, n, build->config->entry->layout, false, &d_ff.size))
        return false;
    *shape = (struct ffn_shape){.kind = ffn->kind,
                                .d_ff = d_ff.size,
                                .bias_1 = ffn->b_1.name.raw != NULL,
                                .bias_gate = ffn->b_gate.name.raw != NULL,
                                .bias_2 = ffn->b_2.name.raw != NULL};
    return find_matrix(build, &ffn->w_1, n, NO_HEAD, d_model, d_ff, &places[SLOT_W_1]) &&
           (!shape->bias_1 || find_vector(build, &ffn->b_1, n, NO_HEAD, d_ff, &places[SLOT_B_1])) &&
           (!ffn->w_gate.name.raw ||
            find_matrix(build, &ffn->w_gate, n, NO_HEAD, d_model, d_ff, &places[SLOT_W_GATE])) &&
           (!shape->bias_gate || find_vector(build, &ffn->b_gate, n, NO_HEAD, d_ff, &places[SLOT_B_GATE])) &&
           find_matrix(build, &ffn->w_2, n, NO_HEAD, d_ff, d_model, &places[SLOT_W_2]) &&
           (!shape->bias_2 || find_vector(build, &ffn->b_2, n, NO_HEAD, d_model, &places[SLOT_B_2]));
}

/* The layer's own rules. */
static bool fill_rules(struct build *build, struct block_layer *layer, struct layer_shape *shape)
{
    const struct attention_shape *attention = &build->source->shape.attention;
    const struct blocks_rules *rules = build->rules;
    shape->own_causal = layer->has_causal;
    shape->causal = layer->causal;
    shape->scale = layer->has_scale ? (float)layer->scale : attention->scale;
    shape->own_position = layer->position.given;
    shape->own_pattern = layer->pattern.given;
    return (!shape->own_position || json_peek(&layer->position.at) == JSON_NULL ||
            rules->position(rules->context, &layer->position.at, attention, &shape->position, build->error)) &&
           (!shape->own_pattern || json_peek(&layer->pattern.at) == JSON_NULL ||
            rules->pattern(rules->context, &layer->pattern.at, attention, &shape->pattern, build->error));
}

static bool fill_layer(struct build *build, struct block_layer *layer, size_t n)
{
    struct layer_shape *shape = &build->shapes[n];
    struct tensor_place *places = build->source->layers[n];
    const struct extent d_model = {build->source->shape.attention.d_model, "d_model"};

    shape->placement = layer->placement;
    shape->residual = layer->residual;
    if (!fill_tensors(build, layer, n, false, &places[SLOT_W_Q]) ||
        !fill_tensors(build, layer, n, true, &places[SLOT_B_Q]))
        return false;
    shape->bias_q = places[SLOT_B_Q].file != NULL;
    shape->bias_k = places[SLOT_B_K].file != NULL;
    shape->bias_v = places[SLOT_B_V].file != NULL;
    shape->bias_o = places[SLOT_B_O].file != NULL;
    return fill_norm(build, &layer->norm1, n, d_model, &shape->norm1, &places[SLOT_NORM1_GAIN],
                     &places[SLOT_NORM1_BIAS]) &&
           fill_ffn(build, &layer->ffn, n, &shape->ffn, places) &&
           /* It stands around the feed-forward, and falls away with it. */
           (layer->ffn.kind == FFN_NONE || fill_norm(build, &layer->norm2, n, d_model, &shape->norm2,
                                                     &places[SLOT_NORM2_GAIN], &places[SLOT_NORM2_BIAS])) &&
           fill_rules(build, layer, shape);
}

static bool fill_embeddings(struct build *build)
{
    const struct weights_text *text = &build->config->embeddings;
    struct model_source *source = build->source;
    struct embeddings_shape *shape = &source->shape.embeddings;
    struct block_embeddings read;
    struct json_reader r;
    struct extent width = {0, "the embeddings' width"}, count = {0, "rows"};
    const struct extent d_model = {source->shape.attention.d_model, "d_model"};

    if (!text->text)
        return true;
    json_reader_init_member(&r, "embeddings", text->text, text->length);
    if (!block_embeddings_read(&r, &read, build->error))
        return false;
    if (!read.projection_w.name.raw)
        width = d_model;
    else if (!look_at_extent(build, &read.token, 0, LAYOUT_IN_OUT, false, &width.size))
        return false;
    shape->present = true;
    shape->width = width.size;
    shape->scale = (float)read.scale;
    shape->position_offset = read.position_offset;

    const struct {
        const struct block_name *member;
        enum model_slot slot;
        size_t *rows;
    } tables[] = {{&read.token, SLOT_TOKEN, &shape->vocabulary},
                  {&read.position, SLOT_POSITION, &shape->positions},
                  {&read.type, SLOT_TYPE, &shape->types}};
    for (size_t i = 0; i < 3; i++) {
        const struct block_name *member = tables[i].member;
        if (!member->name.raw)
            continue;
        if (!look_at_extent(build, member, 0, LAYOUT_IN_OUT, true, &count.size))
            return false;
        *tables[i].rows = count.size;
        const char *name = write_name(build, member, 0, NO_HEAD);
        if (!name || !found(build, member, name,
                            tensor_search_matrix(&build->search, name, LAYOUT_IN_OUT, count, width,
                                                 &source->model[tables[i].slot], build->error)))
            return false;
    }
    if (read.position.name.raw && read.position_offset >= shape->positions)
        return error_set_at(build->error, ERROR_INVALID, "/embeddings/position_offset",
                            "positions begin at row %zu of a table of %zu rows", read.position_offset,
                            shape->positions);
    if (!fill_norm(build, &read.norm, 0, width, &shape->norm, &source->model[SLOT_EMBEDDING_GAIN],
                   &source->model[SLOT_EMBEDDING_BIAS]))
        return false;
    shape->projection = read.projection_w.name.raw != NULL;
    shape->projection_bias = read.projection_b.name.raw != NULL;
    return (!shape->projection ||
            find_matrix(build, &read.projection_w, 0, NO_HEAD, width, d_model, &source->model[SLOT_PROJECTION_W])) &&
           (!shape->projection_bias ||
            find_vector(build, &read.projection_b, 0, NO_HEAD, d_model, &source->model[SLOT_PROJECTION_B]));
}

static bool fill_final_norm(struct build *build)
{
    const struct weights_text *text = &build->config->final_norm;
    struct model_source *source = build->source;
    struct block_norm norm;
    struct json_reader r;
    if (!text->text)
        return true;
    json_reader_init_member(&r, "final_norm", text->text, text->length);
    return block_norm_read(&r, &norm, build->error) &&
           fill_norm(build, &norm, 0, (struct extent){source->shape.attention.d_model, "d_model"},
                     &source->shape.final_norm, &source->model[SLOT_FINAL_GAIN], &source->model[SLOT_FINAL_BIAS]);
}

/* What every layer is made of, before its own entry in `layers`. */
static bool read_layer(struct build *build, struct block_layer *layer)
{
    struct json_reader r;
    *layer = block_layer_default();
    if (!build->config->layer.text)
        return error_set_at(build->error, ERROR_INVALID, "", "missing \"layer\"");
    json_reader_init_member(&r, "layer", build->config->layer.text, build->config->layer.length);
    return block_layer_read(&r, layer, build->error) && block_layer_check(&r, layer, build->error);
}

static bool fill_layers(struct build *build, const struct block_layer *common)
{
    const struct weights_text *text = &build->config->layers;
    const size_t num_layers = build->config->num_layers;
    struct json_reader r;
    enum json_step step = JSON_DONE;
    size_t n = 0;
    if (!text->text) {
        for (; n < num_layers; n++) {
            struct block_layer layer = *common;
            if (!fill_layer(build, &layer, n))
                return false;
        }
        return true;
    }
    json_reader_init_member(&r, "layers", text->text, text->length);
    if (!json_enter_array(&r, build->error))
        return false;
    for (; (step = json_next_element(&r, build->error)) == JSON_ITEM; n++) {
        struct block_layer layer = *common;
        if (n == num_layers)
            return json_error(&r, build->error, ERROR_INVALID, "one layer more than num_layers, %zu", num_layers);
        if (!block_layer_read(&r, &layer, build->error) || !fill_layer(build, &layer, n))
            return false;
    }
    if (step == JSON_DONE && n < num_layers)
        return json_error(&r, build->error, ERROR_INVALID, "it has %zu layers, expected num_layers, %zu", n,
                          num_layers);
    return step == JSON_DONE;
}

/* The numbers of all layers' attention. */
static bool make_shape(struct build *build, const struct block_layer *common)
{
    const struct weights_config *entry = build->config->entry;
    const struct block_name *fused = &common->tensors[TENSOR_W_QKV];
    size_t d_model = entry->d_model;
    if (d_model == 0 && !look_at_extent(build, fused->name.raw ? fused : &common->tensors[TENSOR_W_Q], 0, entry->layout,
                                        true, &d_model))
        return false;
    return layer_shape_make(entry, d_model, &build->source->shape.attention, build->error);
}

bool blocks_source_open(const struct blocks_config *config, const struct blocks_rules *rules,
                        struct model_source *source, struct error *error)
{
    struct model_source opened = {0};
    struct build build = {.config = config, .rules = rules, .source = &opened, .error = error};
    struct block_layer common;
    bool done = false;

    if (config->num_layers == 0 || config->num_layers > MODEL_MOST_LAYERS)
        return error_set_at(error, ERROR_INVALID, "/num_layers", "num_layers is %zu, expected 1 to %d",
                            config->num_layers, MODEL_MOST_LAYERS);
    if (!read_layer(&build, &common) || !model_files_open(config->entry->path, &opened.files, error))
        goto fail;
    build.search = (struct tensor_search){.files = &opened.files};
    if (!make_shape(&build, &common) || !model_source_make_layers(&opened, config->num_layers, &build.shapes, error) ||
        !fill_layers(&build, &common) || !fill_embeddings(&build) || !fill_final_norm(&build))
        goto fail;
    *source = opened;
    done = true;
fail:
    text_free(&build.name);
    tensor_search_free(&build.search);
    if (!done)
        model_source_free(&opened);
    return done;
}
