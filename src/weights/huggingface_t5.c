/* Owns what the tensors of t5's encoder are: no biases, no scale, a table of relative positions in the first layer that
 * serves all (https://github.com/huggingface/transformers, models/t5). One thread. */
#include "weights/huggingface_build.h"

static bool fill_position(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    struct tensor_place place;
    if (!tensor_search_matrix(&build->search, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                              LAYOUT_IN_OUT, (struct extent){config->buckets, "relative_attention_num_buckets"},
                              (struct extent){config->num_heads, "num_heads"}, &place, build->error) ||
        !huggingface_read_small(build, &place, &source->table))
        return false;
    source->position = (struct position_rule){.kind = POSITION_T5,
                                              .table = source->table,
                                              .table_rows = config->buckets,
                                              .max_distance = config->max_distance,
                                              .bidirectional = true};
    return true;
}

/* wi_0 is the gate. */
static bool fill_ffn(struct huggingface_build *build)
{
    const struct extent d_model = huggingface_d_model(build), d_ff = huggingface_d_ff(build);
    if (!ffn_is_gated(build->config->ffn))
        return huggingface_ffn(build, "layer.1.DenseReluDense.wi", "layer.1.DenseReluDense.wo", BIAS_NEVER);
    return huggingface_ffn(build, "layer.1.DenseReluDense.wi_1", "layer.1.DenseReluDense.wo", BIAS_NEVER) &&
           huggingface_linear(build, "layer.1.DenseReluDense.wi_0", d_model, d_ff, SLOT_W_GATE, SLOT_B_GATE, BIAS_NEVER,
                              NULL);
}

bool huggingface_t5(struct huggingface_build *build)
{
    static const struct huggingface_attention_names attention = {"layer.0.SelfAttention.q", "layer.0.SelfAttention.k",
                                                                 "layer.0.SelfAttention.v", "layer.0.SelfAttention.o"};
    const struct huggingface_config *config = build->config;
    const bool shared = tensor_search_has(&build->search, "shared.weight") ||
                        !tensor_search_has(&build->search, "encoder.embed_tokens.weight");

    if (!huggingface_table(build, shared ? "shared.weight" : "encoder.embed_tokens.weight",
                           (struct extent){config->vocabulary, "vocab_size"}, huggingface_d_model(build), SLOT_TOKEN) ||
        !fill_position(build))
        return false;
    for (size_t n = 0; n < config->num_layers; n++) {
        huggingface_layer(build, n, "encoder.block.", PLACEMENT_PRE);
        if (!huggingface_norm1(build, "layer.0.layer_norm", NORM_RMS) ||
            !huggingface_attention(build, &attention, BIAS_NEVER, BIAS_NEVER) ||
            !huggingface_norm2(build, "layer.1.layer_norm", NORM_RMS) || !fill_ffn(build))
            return false;
    }
    return huggingface_final_norm(build, "encoder.final_layer_norm", NORM_RMS);
}
