/* Owns the road from a folder to a model_source: config.json, the files, then the family's own tensors. One thread. */
#include "weights/huggingface_source.h"

#include "base/file.h"
#include "weights/file_fault.h"
#include "weights/huggingface_build.h"
#include "weights/model_folder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of labels are what makes it long: a million and a half bytes in the longest of real ones. */
#define MOST_CONFIG_BYTES ((size_t)16 << 20)

static bool read_config(const char *folder, struct huggingface_config *config, struct error *error)
{
    struct text text = {0};
    char *path;
    if (asprintf(&path, "%s/" HUGGINGFACE_CONFIG_NAME, folder) < 0)
        return error_out_of_memory(error);
    const int failed = file_read(path, MOST_CONFIG_BYTES, &text);
    free(path);
    bool done = false;
    if (failed == ENOMEM) {
        error_out_of_memory(error);
    } else if (failed == ENOENT) {
        model_folder_without_config(folder, error);
    } else if (failed) {
        error_set(error, ERROR_IO, "it cannot be read: %s", strerror(failed));
        file_fault(HUGGINGFACE_CONFIG_NAME, error);
    } else {
        done = huggingface_config_read(text.data ? text.data : "", text.length, config, error);
    }
    text_free(&text);
    return done;
}

/* What a model of any family has. */
static bool prepare(struct huggingface_build *build)
{
    const struct huggingface_config *config = build->config;
    struct model_source *source = build->source;
    const float scale = (float)(1 / sqrt((double)config->d_k));
    source->shape.attention = (struct attention_shape){
        .d_model = config->d_model,
        .num_heads = config->num_heads,
        .num_kv_heads = config->num_kv_heads,
        .d_k = config->d_k,
        .d_v = config->d_k,
        .scale = config->type == HUGGINGFACE_T5 ? 1 : scale,
        .projected = true,
    };
    source->shape.embeddings = (struct embeddings_shape){
        .present = true, .vocabulary = config->vocabulary, .width = config->embedding_width, .scale = 1};
    return model_source_make_layers(source, config->num_layers, &build->shapes, build->error);
}

static bool fill(struct huggingface_build *build)
{
    static bool (*const families[HUGGINGFACE_TYPE_COUNT])(struct huggingface_build * build) = {
        [HUGGINGFACE_BERT] = huggingface_bert,     [HUGGINGFACE_ROBERTA] = huggingface_bert,
        [HUGGINGFACE_XLM] = huggingface_bert,      [HUGGINGFACE_CAMEMBERT] = huggingface_bert,
        [HUGGINGFACE_ELECTRA] = huggingface_bert,  [HUGGINGFACE_DISTIL] = huggingface_bert,
        [HUGGINGFACE_GPT2] = huggingface_gpt2,     [HUGGINGFACE_LLAMA] = huggingface_llama,
        [HUGGINGFACE_MISTRAL] = huggingface_llama, [HUGGINGFACE_QWEN2] = huggingface_llama,
        [HUGGINGFACE_T5] = huggingface_t5,         [HUGGINGFACE_VIT] = huggingface_vit,
        [HUGGINGFACE_ESM] = huggingface_esm,
    };
    return families[build->config->type](build);
}

bool huggingface_source_open(const char *folder, struct model_source *source, struct error *error)
{
    struct huggingface_config config;
    struct model_source opened = {0};
    struct huggingface_build build = {.config = &config, .source = &opened, .error = error};
    bool done = false;

    if (!model_files_is_folder(folder, error) || !read_config(folder, &config, error) ||
        !model_files_open_folder(folder, &opened.files, error))
        goto fail;
    build.search = (struct tensor_search){.files = &opened.files, .prefix = config.prefix};
    if (!prepare(&build) || !fill(&build) || !tensor_search_finish(&build.search, error))
        goto fail;
    *source = opened;
    done = true;
fail:
    tensor_search_free(&build.search);
    if (!done)
        model_source_free(&opened);
    return done;
}
