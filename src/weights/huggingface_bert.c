/* Owns what the tensors of bert, its kin and distilbert are: post norm, embeddings of words, positions and token types
 * (https://github.com/huggingface/transformers, models/bert, roberta, electra, distilbert). One thread. */
#include "weights/huggingface_build.h"

#define KIN_ROBERTA \
    (HUGGINGFACE_BIT(HUGGINGFACE_ROBERTA) | HUGGINGFACE_BIT(HUGGINGFACE_XLM) | HUGGINGFACE_BIT(HUGGINGFACE_CAMEMBERT))

struct names {
    const char *layer;
    struct huggingface_attention_names attention;
    const char *norm1, *up, *down, *norm2;
};

static const struct names bert = {
    .layer = "encoder.layer.",
    .attention = {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"},
    .norm1 = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .norm2 = "output.LayerNorm",
};

static const struct names distilbert = {
    .layer = "transformer.layer.",
    .attention = {"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"},
    .norm1 = "sa_layer_norm",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .norm2 = "output_layer_norm",
};

/* electra's, where its embeddings are of another width. */
static bool fill_projection(struct huggingface_build *build, struct extent width)
{
    struct model_source *source = build->source;
    struct embeddings_shape *embeddings = &source->shape.embeddings;
    embeddings->projection = embeddings->projection_bias = true;
    return tensor_search_matrix(&build->search, "embeddings_project.weight", LAYOUT_OUT_IN, width,
                                huggingface_d_model(build), &source->model[SLOT_PROJECTION_W], build->error) &&
           tensor_search_vector(&build->search, "embeddings_project.bias", huggingface_d_model(build),
                                &source->model[SLOT_PROJECTION_B], build->error);
}

static bool fill_embeddings(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    struct embeddings_shape *embeddings = &source->shape.embeddings;
    const struct extent width = {config->embedding_width, "the embeddings' width"};

    embeddings->positions = config->positions;
    embeddings->types = config->types;
    if (HUGGINGFACE_BIT(config->type) & KIN_ROBERTA) {
        embeddings->count_padding_id = true;
        embeddings->padding_id = (uint32_t)config->padding_id;
        embeddings->position_offset = config->padding_id + 1;
    }
    return huggingface_table(build, "embeddings.word_embeddings.weight",
                             (struct extent){config->vocabulary, "vocab_size"}, width, SLOT_TOKEN) &&
           huggingface_table(build, "embeddings.position_embeddings.weight",
                             (struct extent){config->positions, "max_position_embeddings"}, width, SLOT_POSITION) &&
           (config->types == 0 ||
            huggingface_table(build, "embeddings.token_type_embeddings.weight",
                              (struct extent){config->types, "type_vocab_size"}, width, SLOT_TYPE)) &&
           huggingface_norm(build, "embeddings.LayerNorm", width, NORM_LAYER, &embeddings->norm,
                            &source->model[SLOT_EMBEDDING_GAIN], &source->model[SLOT_EMBEDDING_BIAS]) &&
           (width.size == config->d_model || fill_projection(build, width));
}

bool huggingface_bert(struct huggingface_build *build)
{
    const struct names *names = build->config->type == HUGGINGFACE_DISTIL ? &distilbert : &bert;
    build->source->causal = build->config->is_decoder;
    if (!fill_embeddings(build))
        return false;
    for (size_t n = 0; n < build->config->num_layers; n++) {
        huggingface_layer(build, n, names->layer, PLACEMENT_POST);
        if (!huggingface_attention(build, &names->attention, BIAS_ALWAYS, BIAS_ALWAYS) ||
            !huggingface_norm1(build, names->norm1, NORM_LAYER) ||
            !huggingface_ffn(build, names->up, names->down, BIAS_ALWAYS) ||
            !huggingface_norm2(build, names->norm2, NORM_LAYER))
            return false;
    }
    return true;
}
