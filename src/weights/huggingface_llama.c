/* Owns what the tensors of llama, mistral and qwen2 are: grouped heads that rotate, gated feed-forwards, layers that
 * see a window (https://github.com/huggingface/transformers, models/llama, mistral, qwen2). One thread. */
#include "weights/huggingface_build.h"

static enum huggingface_bias bias_of(bool stated)
{
    return stated ? BIAS_ALWAYS : BIAS_IF_THERE;
}

static bool fill_ffn(struct huggingface_build *build)
{
    const struct extent d_model = huggingface_d_model(build), d_ff = huggingface_d_ff(build);
    return huggingface_ffn(build, "mlp.up_proj", "mlp.down_proj", bias_of(build->config->mlp_bias)) &&
           huggingface_linear(build, "mlp.gate_proj", d_model, d_ff, SLOT_W_GATE, SLOT_B_GATE,
                              bias_of(build->config->mlp_bias), &build->shape->ffn.bias_gate);
}

bool huggingface_llama(struct huggingface_build *build)
{
    static const struct huggingface_attention_names attention = {"self_attn.q_proj", "self_attn.k_proj",
                                                                 "self_attn.v_proj", "self_attn.o_proj"};
    const struct huggingface_config *config = build->config;
    const enum huggingface_bias bias_o = bias_of(config->attention_bias);
    const enum huggingface_bias bias_qkv = config->type == HUGGINGFACE_QWEN2 ? BIAS_ALWAYS : bias_o;

    build->source->causal = true;
    build->source->position = config->rope;
    if (!huggingface_table(build, "embed_tokens.weight", (struct extent){config->vocabulary, "vocab_size"},
                           huggingface_d_model(build), SLOT_TOKEN))
        return false;
    for (size_t n = 0; n < config->num_layers; n++) {
        huggingface_layer(build, n, "layers.", PLACEMENT_PRE);
        if (config->window && config->slides[n]) {
            build->shape->own_pattern = true;
            build->shape->pattern = (struct pattern_rule){.kind = PATTERN_WINDOW, .left = config->window - 1};
        }
        if (!huggingface_norm1(build, "input_layernorm", NORM_RMS) ||
            !huggingface_attention(build, &attention, bias_qkv, bias_o) ||
            !huggingface_norm2(build, "post_attention_layernorm", NORM_RMS) || !fill_ffn(build))
            return false;
    }
    return huggingface_final_norm(build, "norm", NORM_RMS);
}
