/* Owns what the tensors of esm are: bert's names before another order of norms, and rotations whose frequencies may
 * stand in the file (https://github.com/huggingface/transformers, models/esm). One thread. */
#include "weights/huggingface_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER       "encoder.layer."
#define FREQUENCIES ".attention.self.rotary_embeddings.inv_freq"

/* "N" is a layer's number, or the star that newer versions write for all. */
static bool read_frequencies_of(struct huggingface_build *build, const char *n, float **frequencies)
{
    char name[TENSOR_NAME_BYTES];
    struct tensor_place place;
    snprintf(name, sizeof name, LAYER "%s" FREQUENCIES, n);
    *frequencies = NULL;
    if (!tensor_search_has(&build->search, name))
        return true;
    return tensor_search_vector(&build->search, name, (struct extent){build->config->d_k / 2, "half of a head's width"},
                                &place, build->error) &&
           huggingface_read_small(build, &place, frequencies);
}

/* Published files hold them for each layer, rounded to float16 once; they are the same. */
static bool fill_frequencies(struct huggingface_build *build)
{
    const size_t count = build->config->d_k / 2;
    struct model_source *source = build->source;
    if (!read_frequencies_of(build, "*", &source->frequencies))
        return false;
    for (size_t n = 0; n < build->config->num_layers; n++) {
        char number[24];
        float *frequencies;
        snprintf(number, sizeof number, "%zu", n);
        if (!read_frequencies_of(build, number, &frequencies))
            return false;
        const bool differs = frequencies && source->frequencies &&
                             memcmp(frequencies, source->frequencies, count * sizeof *frequencies) != 0;
        if (source->frequencies)
            free(frequencies);
        else
            source->frequencies = frequencies;
        if (differs)
            return error_set_at(build->error, ERROR_INVALID, "/path",
                                "the tensor \"" LAYER "%zu" FREQUENCIES
                                "\" differs from those before it; expected the same frequencies in all layers",
                                n);
    }
    source->position.frequencies = source->frequencies;
    return true;
}

static bool fill_embeddings(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    struct embeddings_shape *embeddings = &source->shape.embeddings;
    const struct extent width = huggingface_d_model(build);

    embeddings->zero_padding = true;
    embeddings->token_dropout = config->token_dropout;
    embeddings->mask_token = config->token_dropout ? (uint32_t)config->mask_token : 0;
    if (!huggingface_table(build, "embeddings.word_embeddings.weight",
                           (struct extent){config->vocabulary, "vocab_size"}, width, SLOT_TOKEN))
        return false;
    if (!config->rotary) {
        embeddings->positions = config->positions;
        embeddings->count_padding_id = true;
        embeddings->padding_id = (uint32_t)config->padding_id;
        embeddings->position_offset = config->padding_id + 1;
        if (!huggingface_table(build, "embeddings.position_embeddings.weight",
                               (struct extent){config->positions, "max_position_embeddings"}, width, SLOT_POSITION))
            return false;
    }
    return !config->norm_before ||
           huggingface_norm(build, "embeddings.layer_norm", width, NORM_LAYER, &embeddings->norm,
                            &source->model[SLOT_EMBEDDING_GAIN], &source->model[SLOT_EMBEDDING_BIAS]);
}

bool huggingface_esm(struct huggingface_build *build)
{
    static const struct huggingface_attention_names attention = {"attention.self.query", "attention.self.key",
                                                                 "attention.self.value", "attention.output.dense"};
    if (!fill_embeddings(build))
        return false;
    if (build->config->rotary) {
        build->source->position = build->config->rope;
        if (!fill_frequencies(build))
            return false;
    }
    for (size_t n = 0; n < build->config->num_layers; n++) {
        huggingface_layer(build, n, LAYER, PLACEMENT_PRE);
        if (!huggingface_norm1(build, "attention.LayerNorm", NORM_LAYER) ||
            !huggingface_attention(build, &attention, BIAS_ALWAYS, BIAS_ALWAYS) ||
            !huggingface_norm2(build, "LayerNorm", NORM_LAYER) ||
            !huggingface_ffn(build, "intermediate.dense", "output.dense", BIAS_ALWAYS))
            return false;
    }
    return huggingface_final_norm(build, "encoder.emb_layer_norm_after", NORM_LAYER);
}
