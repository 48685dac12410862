/* config.json of a Hugging Face folder: the numbers and choices that a model is computed by. Any thread. */
#ifndef ATTND_WEIGHTS_HUGGINGFACE_CONFIG_H
#define ATTND_WEIGHTS_HUGGINGFACE_CONFIG_H

#include "base/error.h"
#include "engine/model_shape.h"
#include "engine/rules.h"
#include "weights/model_source.h"

#include <stdbool.h>
#include <stddef.h>

#define HUGGINGFACE_CONFIG_NAME "config.json"

/* X(code, model_type, prefix that the names of tensors may have) */
#define HUGGINGFACE_TYPES(X)                           \
    X(HUGGINGFACE_BERT, "bert", "bert.")               \
    X(HUGGINGFACE_ROBERTA, "roberta", "roberta.")      \
    X(HUGGINGFACE_XLM, "xlm-roberta", "roberta.")      \
    X(HUGGINGFACE_CAMEMBERT, "camembert", "roberta.")  \
    X(HUGGINGFACE_DISTIL, "distilbert", "distilbert.") \
    X(HUGGINGFACE_ELECTRA, "electra", "electra.")      \
    X(HUGGINGFACE_GPT2, "gpt2", "transformer.")        \
    X(HUGGINGFACE_LLAMA, "llama", "model.")            \
    X(HUGGINGFACE_MISTRAL, "mistral", "model.")        \
    X(HUGGINGFACE_QWEN2, "qwen2", "model.")            \
    X(HUGGINGFACE_T5, "t5", "")                        \
    X(HUGGINGFACE_VIT, "vit", "vit.")                  \
    X(HUGGINGFACE_ESM, "esm", "esm.")

#define HUGGINGFACE_ENUM(code, name, prefix) code,
enum huggingface_type { HUGGINGFACE_TYPES(HUGGINGFACE_ENUM) HUGGINGFACE_TYPE_COUNT };
#undef HUGGINGFACE_ENUM

/* A set of types. */
#define HUGGINGFACE_BIT(type) (1U << (type))

/* Numbers that a type has no key for are 0. */
struct huggingface_config {
    enum huggingface_type type;
    const char *prefix; /* of the type */
    size_t num_layers, num_heads, num_kv_heads, d_model, d_k, d_ff;
    size_t vocabulary, positions, types;
    size_t embedding_width;                  /* electra; else d_model */
    size_t image_size, patch_size, channels; /* vit */
    size_t buckets, max_distance;            /* t5 */
    double eps;                              /* of the norms */
    enum ffn_kind ffn;                       /* with its activation, gated or not */
    bool is_decoder;                         /* bert and its kin */
    size_t padding_id, mask_token;           /* mask_token: esm with token_dropout */
    bool scale_attention, scale_by_layer;    /* gpt2 */
    bool attention_bias, mlp_bias;           /* llama: the file must have them */
    bool qkv_bias;                           /* vit */
    bool rotary, norm_before, token_dropout; /* esm */
    struct position_rule rope;               /* llama, mistral, qwen2; esm where rotary */
    size_t window; /* mistral, qwen2: keys a query of a sliding layer sees, itself included; 0: none slides */
    bool slides[MODEL_MOST_LAYERS]; /* of each layer, where window */
};

/* Reads text [length]. Errors are at /path; the message begins with config.json and the line, and names the key, what
 * was found and what was expected: ERROR_BAD_ENCODING for what is not JSON; ERROR_INVALID for a model_type that is none
 * of the list, a number that is missing, of another type or out of range, numbers that do not fit together, and
 * whatever would change the results and is not known here. */
bool huggingface_config_read(const char *text, size_t length, struct huggingface_config *config, struct error *error);

/* The model_type's name. */
const char *huggingface_type_name(enum huggingface_type type);

#endif
