/* Owns what the families of models share: how their tensors are named within a layer and laid out. One thread. */
#include "weights/huggingface_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void huggingface_layer(struct huggingface_build *build, size_t n, const char *stem, enum placement placement)
{
    snprintf(build->layer, sizeof build->layer, "%s%zu.", stem, n);
    build->places = build->source->layers[n];
    build->shape = &build->shapes[n];
    build->shape->scale = build->source->shape.attention.scale;
    build->shape->placement = placement;
    build->shape->residual = true;
}

struct extent huggingface_d_model(const struct huggingface_build *build)
{
    return (struct extent){build->config->d_model, "the model's width"};
}

struct extent huggingface_d_ff(const struct huggingface_build *build)
{
    return (struct extent){build->config->d_ff, "the feed-forward's width"};
}

struct extent huggingface_queries(const struct huggingface_build *build)
{
    return (struct extent){build->config->num_heads * build->config->d_k, "heads times their width"};
}

struct extent huggingface_keys(const struct huggingface_build *build)
{
    return (struct extent){build->config->num_kv_heads * build->config->d_k, "key and value heads times their width"};
}

bool huggingface_linear(struct huggingface_build *build, const char *name, struct extent in, struct extent out,
                        enum layer_slot slot, enum layer_slot bias_slot, enum huggingface_bias bias, bool *has_bias)
{
    char full[TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s%s.weight", build->layer, name);
    if (!tensor_search_matrix(&build->search, full, LAYOUT_OUT_IN, in, out, &build->places[slot], build->error))
        return false;
    snprintf(full, sizeof full, "%s%s.bias", build->layer, name);
    const bool there = bias == BIAS_ALWAYS || (bias == BIAS_IF_THERE && tensor_search_has(&build->search, full));
    if (has_bias)
        *has_bias = there;
    return !there || tensor_search_vector(&build->search, full, out, &build->places[bias_slot], build->error);
}

bool huggingface_attention(struct huggingface_build *build, const struct huggingface_attention_names *names,
                           enum huggingface_bias bias_qkv, enum huggingface_bias bias_o)
{
    const struct extent d_model = huggingface_d_model(build), queries = huggingface_queries(build),
                        keys = huggingface_keys(build);
    struct layer_shape *shape = build->shape;
    return huggingface_linear(build, names->q, d_model, queries, SLOT_W_Q, SLOT_B_Q, bias_qkv, &shape->bias_q) &&
           huggingface_linear(build, names->k, d_model, keys, SLOT_W_K, SLOT_B_K, bias_qkv, &shape->bias_k) &&
           huggingface_linear(build, names->v, d_model, keys, SLOT_W_V, SLOT_B_V, bias_qkv, &shape->bias_v) &&
           huggingface_linear(build, names->o, queries, d_model, SLOT_W_O, SLOT_B_O, bias_o, &shape->bias_o);
}

bool huggingface_ffn(struct huggingface_build *build, const char *up, const char *down, enum huggingface_bias bias)
{
    const struct extent d_model = huggingface_d_model(build), d_ff = huggingface_d_ff(build);
    struct ffn_shape *ffn = &build->shape->ffn;
    ffn->kind = build->config->ffn;
    ffn->d_ff = d_ff.size;
    return huggingface_linear(build, up, d_model, d_ff, SLOT_W_1, SLOT_B_1, bias, &ffn->bias_1) &&
           huggingface_linear(build, down, d_ff, d_model, SLOT_W_2, SLOT_B_2, bias, &ffn->bias_2);
}

bool huggingface_norm(struct huggingface_build *build, const char *name, struct extent width, enum norm_kind kind,
                      struct norm_shape *shape, struct tensor_place *gain, struct tensor_place *bias)
{
    char full[TENSOR_NAME_BYTES];
    *shape = (struct norm_shape){.kind = kind, .bias = kind == NORM_LAYER, .eps = (float)build->config->eps};
    snprintf(full, sizeof full, "%s.weight", name);
    if (!tensor_search_vector(&build->search, full, width, gain, build->error))
        return false;
    snprintf(full, sizeof full, "%s.bias", name);
    return !shape->bias || tensor_search_vector(&build->search, full, width, bias, build->error);
}

bool huggingface_norm1(struct huggingface_build *build, const char *name, enum norm_kind kind)
{
    char full[TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", build->layer, name);
    return huggingface_norm(build, full, huggingface_d_model(build), kind, &build->shape->norm1,
                            &build->places[SLOT_NORM1_GAIN], &build->places[SLOT_NORM1_BIAS]);
}

bool huggingface_norm2(struct huggingface_build *build, const char *name, enum norm_kind kind)
{
    char full[TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", build->layer, name);
    return huggingface_norm(build, full, huggingface_d_model(build), kind, &build->shape->norm2,
                            &build->places[SLOT_NORM2_GAIN], &build->places[SLOT_NORM2_BIAS]);
}

bool huggingface_final_norm(struct huggingface_build *build, const char *name, enum norm_kind kind)
{
    struct model_source *source = build->source;
    return huggingface_norm(build, name, huggingface_d_model(build), kind, &source->shape.final_norm,
                            &source->model[SLOT_FINAL_GAIN], &source->model[SLOT_FINAL_BIAS]);
}

bool huggingface_table(struct huggingface_build *build, const char *name, struct extent rows, struct extent width,
                       enum model_slot slot)
{
    return tensor_search_matrix(&build->search, name, LAYOUT_IN_OUT, rows, width, &build->source->model[slot],
                                build->error);
}

bool huggingface_read_small(struct huggingface_build *build, const struct tensor_place *place, float **to)
{
    *to = NULL;
    if (!place->entry)
        return true;
    *to = reallocarray(NULL, place->entry->count, sizeof **to);
    if (!*to)
        return error_out_of_memory(build->error);
    if (tensor_place_read(place, *to, place->columns, build->error))
        return true;
    free(*to);
    *to = NULL;
    return model_files_fault(build->search.files, place->file, build->error);
}
