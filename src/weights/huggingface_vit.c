/* Owns what the tensors of vit are: a convolution over patches, which is one matrix; a class token; positions
 * (https://github.com/huggingface/transformers, models/vit). One thread. */
#include "weights/huggingface_build.h"

/* embeddings.patch_embeddings.projection: [D, C, P, P], which is the matrix [C * P * P, D] stored [out, in]. */
static bool fill_patches(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    const struct extent side = {config->patch_size, "patch_size"};
    const struct extent shape[] = {huggingface_d_model(build), {config->channels, "num_channels"}, side, side};
    const struct safetensors_file *file;
    const struct safetensors_entry *entry;
    if (!tensor_search(&build->search, "embeddings.patch_embeddings.projection.weight", shape, 4, &file, &entry,
                       build->error))
        return false;
    if (entry) /* all its numbers are there: the product fits */
        source->model[SLOT_PATCH_W] =
            tensor_place_matrix(file, entry, LAYOUT_OUT_IN, config->channels * side.size * side.size, config->d_model);
    return tensor_search_vector(&build->search, "embeddings.patch_embeddings.projection.bias",
                                huggingface_d_model(build), &source->model[SLOT_PATCH_B], build->error);
}

/* [1, rows, D] of the file. */
static bool fill_rows(struct huggingface_build *build, const char *name, struct extent rows, enum model_slot slot)
{
    const struct extent shape[] = {{1, "1"}, rows, huggingface_d_model(build)};
    const struct safetensors_file *file;
    const struct safetensors_entry *entry;
    if (!tensor_search(&build->search, name, shape, 3, &file, &entry, build->error))
        return false;
    if (entry)
        build->source->model[slot] = tensor_place_matrix(file, entry, LAYOUT_IN_OUT, rows.size, build->config->d_model);
    return true;
}

bool huggingface_vit(struct huggingface_build *build)
{
    static const struct huggingface_attention_names attention = {"attention.attention.query", "attention.attention.key",
                                                                 "attention.attention.value", "attention.output.dense"};
    const struct huggingface_config *config = build->config;
    const enum huggingface_bias bias_qkv = config->qkv_bias ? BIAS_ALWAYS : BIAS_NEVER;
    struct embeddings_shape *embeddings = &build->source->shape.embeddings;
    const size_t side = config->image_size / config->patch_size;

    embeddings->positions = side * side + 1;
    embeddings->channels = config->channels;
    embeddings->image_size = config->image_size;
    embeddings->patch_size = config->patch_size;
    if (!fill_patches(build) || !fill_rows(build, "embeddings.cls_token", (struct extent){1, "1"}, SLOT_CLASS) ||
        !fill_rows(build, "embeddings.position_embeddings",
                   (struct extent){embeddings->positions, "patches and a class token"}, SLOT_POSITION))
        return false;
    for (size_t n = 0; n < config->num_layers; n++) {
        huggingface_layer(build, n, "encoder.layer.", PLACEMENT_PRE);
        if (!huggingface_norm1(build, "layernorm_before", NORM_LAYER) ||
            !huggingface_attention(build, &attention, bias_qkv, BIAS_ALWAYS) ||
            !huggingface_norm2(build, "layernorm_after", NORM_LAYER) ||
            !huggingface_ffn(build, "intermediate.dense", "output.dense", BIAS_ALWAYS))
            return false;
    }
    return huggingface_final_norm(build, "layernorm", NORM_LAYER);
}
