/* Fuzzes the reading of a model's config.json: any text is a configuration whose numbers fit together, or an error that
 * names the file. */
#include "weights/huggingface_config.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_SIZE ((size_t)INT32_MAX)

static void check(bool holds)
{
    if (!holds)
        abort();
}

static bool is_size(size_t size)
{
    return size >= 1 && size <= MOST_SIZE;
}

static void check_rope(const struct huggingface_config *config)
{
    const struct position_rule *rope = &config->rope;
    check(rope->kind == POSITION_NONE || rope->kind == POSITION_ROPE);
    if (rope->kind == POSITION_NONE)
        return;
    check(rope->dims >= 2 && rope->dims % 2 == 0 && rope->dims <= config->d_k);
    check(rope->base > 0 && isfinite(rope->base));
    check(rope->scaling == ROPE_UNSCALED || (rope->factor > 0 && isfinite(rope->factor)));
    check(rope->scaling != ROPE_LLAMA3 ||
          (rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor &&
           rope->original_max_positions > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct huggingface_config config;
    struct error error = {0};
    if (!huggingface_config_read((const char *)data, size, &config, &error)) {
        check(error.code == ERROR_BAD_ENCODING || error.code == ERROR_INVALID);
        check(strncmp(error.message, "config.json:", 12) == 0 && strlen(error.message) > 14);
        check(error.has_pointer && strcmp(error.pointer, "/path") == 0);
        return 0;
    }
    check(config.type < HUGGINGFACE_TYPE_COUNT && config.prefix);
    check(config.num_layers >= 1 && config.num_layers <= MODEL_MOST_LAYERS);
    check(is_size(config.num_heads) && is_size(config.num_kv_heads) && config.num_heads % config.num_kv_heads == 0);
    check(is_size(config.d_model) && is_size(config.d_k) && is_size(config.embedding_width));
    check(config.d_ff >= 1 && config.d_ff <= 4 * MOST_SIZE);
    check(config.ffn > FFN_NONE && config.ffn < FFN_KIND_COUNT);
    check(config.eps > 0 && isfinite(config.eps));
    if (config.type == HUGGINGFACE_VIT)
        check(is_size(config.image_size) && is_size(config.channels) && config.image_size % config.patch_size == 0);
    else
        check(is_size(config.vocabulary));
    if (config.type == HUGGINGFACE_ROBERTA || (config.type == HUGGINGFACE_ESM && !config.rotary))
        check(config.padding_id + 1 < config.positions);
    if (config.type == HUGGINGFACE_T5)
        check(config.buckets % 2 == 0 && config.max_distance > config.buckets / 4);
    if (config.token_dropout)
        check(config.mask_token < config.vocabulary);
    check(config.window <= MOST_SIZE);
    check_rope(&config);
    return 0;
}
