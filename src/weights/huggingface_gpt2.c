/* Owns what the tensors of gpt2 are: matrices stored [in, out], queries, keys and values side by side in one
 * (https://github.com/huggingface/transformers, models/gpt2, Conv1D). One thread. */
#include "weights/huggingface_build.h"

#include <math.h>
#include <stdio.h>

/* NAME.weight [in, out] and NAME.bias of the layer. */
static bool conv1d(struct huggingface_build *build, const char *name, struct extent in, struct extent out,
                   struct tensor_place *weight, struct tensor_place *bias)
{
    char full[TENSOR_NAME_BYTES];
    snprintf(full, sizeof full, "%s%s.weight", build->layer, name);
    if (!tensor_search_matrix(&build->search, full, LAYOUT_IN_OUT, in, out, weight, build->error))
        return false;
    snprintf(full, sizeof full, "%s%s.bias", build->layer, name);
    return tensor_search_vector(&build->search, full, out, bias, build->error);
}

static bool fill_attention(struct huggingface_build *build)
{
    const struct extent d_model = huggingface_d_model(build);
    const struct extent all = {3 * d_model.size, "3 times the model's width"};
    struct tensor_place weight, bias, *places = build->places;
    if (!conv1d(build, "attn.c_attn", d_model, all, &weight, &bias))
        return false;
    for (size_t i = 0; i < 3; i++) {
        places[SLOT_W_Q + i] = tensor_place_columns(&weight, i * d_model.size, d_model.size);
        places[SLOT_B_Q + i] = tensor_place_columns(&bias, i * d_model.size, d_model.size);
    }
    build->shape->bias_q = build->shape->bias_k = build->shape->bias_v = build->shape->bias_o = true;
    return conv1d(build, "attn.c_proj", d_model, d_model, &places[SLOT_W_O], &places[SLOT_B_O]);
}

static bool fill_ffn(struct huggingface_build *build)
{
    const struct extent d_model = huggingface_d_model(build), d_ff = huggingface_d_ff(build);
    struct tensor_place *places = build->places;
    build->shape->ffn =
        (struct ffn_shape){.kind = build->config->ffn, .d_ff = d_ff.size, .bias_1 = true, .bias_2 = true};
    return conv1d(build, "mlp.c_fc", d_model, d_ff, &places[SLOT_W_1], &places[SLOT_B_1]) &&
           conv1d(build, "mlp.c_proj", d_ff, d_model, &places[SLOT_W_2], &places[SLOT_B_2]);
}

bool huggingface_gpt2(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    const double scale = config->scale_attention ? 1 / sqrt((double)config->d_k) : 1;

    source->causal = true;
    source->shape.attention.scale = (float)scale;
    source->shape.embeddings.positions = config->positions;
    if (!huggingface_table(build, "wte.weight", (struct extent){config->vocabulary, "vocab_size"},
                           huggingface_d_model(build), SLOT_TOKEN) ||
        !huggingface_table(build, "wpe.weight", (struct extent){config->positions, "n_positions"},
                           huggingface_d_model(build), SLOT_POSITION))
        return false;
    for (size_t n = 0; n < config->num_layers; n++) {
        huggingface_layer(build, n, "h.", PLACEMENT_PRE);
        build->shape->scale = (float)(config->scale_by_layer ? scale / (double)(n + 1) : scale);
        if (!huggingface_norm1(build, "ln_1", NORM_LAYER) || !fill_attention(build) ||
            !huggingface_norm2(build, "ln_2", NORM_LAYER) || !fill_ffn(build))
            return false;
    }
    return huggingface_final_norm(build, "ln_f", NORM_LAYER);
}
