/* Owns what the keys of config.json mean together: defaults, and which numbers fit. Pure functions: any thread. */
#include "weights/huggingface_config.h"

#include "weights/file_fault.h"
#include "weights/huggingface_keys.h"

#include <string.h>

/* Of model types, where the file gives no value. */
#define DEFAULT_WINDOW       4096
#define DEFAULT_FULL_LAYERS  28
#define DEFAULT_MAX_DISTANCE 128

static const struct {
    const char *name, *prefix;
} types[HUGGINGFACE_TYPE_COUNT] = {
#define TYPE_ROW(code, name, prefix) [code] = {name, prefix},
    HUGGINGFACE_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

const char *huggingface_type_name(enum huggingface_type type)
{
    return types[type].name;
}

/* The type's name is at the reader. */
static bool read_type(struct json_reader *r, enum huggingface_type *type, struct error *error)
{
    struct json_key name;
    char shown[NAMES_SHOWN_BYTES];
    json_peek(r);
    const char *before = r->at;
    if (!json_read_in_place(r, &name, error))
        return false;
    for (size_t i = 0; i < HUGGINGFACE_TYPE_COUNT; i++)
        if (json_key_is(&name, types[i].name)) {
            *type = (enum huggingface_type)i;
            return true;
        }
    names_show(&name, shown);
    r->at = before;
    return json_error(r, error, ERROR_INVALID,
                      "the model_type \"%s\" is not implemented; known are "
#define TYPE_WORDS(code, name, prefix) name ", "
                      HUGGINGFACE_TYPES(TYPE_WORDS) "and no other; layers of the common kinds can be written "
                                                    "out instead (source blocks, docs/CONFIGURATION.md)",
#undef TYPE_WORDS
                      shown);
}

/* Looks for model_type, which says what the other keys mean, wherever it stands. */
static bool find_type(struct json_reader *r, enum huggingface_type *type, struct error *error)
{
    struct json_key key;
    enum json_step step;
    bool found = false;
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &key, error)) == JSON_ITEM) {
        const bool is_type = json_key_is(&key, "model_type");
        found |= is_type;
        if (!(is_type ? read_type(r, type, error) : json_ignore(r, error)))
            return false;
    }
    if (step == JSON_FAILED || !json_finish(r, error))
        return false;
    if (!found)
        return json_error(r, error, ERROR_INVALID,
                          "the key \"model_type\" is missing: expected one of "
#define TYPE_WORDS(code, name, prefix) name " "
                          HUGGINGFACE_TYPES(TYPE_WORDS)
#undef TYPE_WORDS
        );
    return true;
}

static void set_defaults(struct huggingface_reading *reading)
{
    struct huggingface_config *config = &reading->config;
    config->prefix = types[config->type].prefix;
    config->padding_id = 1;
    config->scale_attention = config->qkv_bias = true;
    config->max_distance = DEFAULT_MAX_DISTANCE;
    config->eps = 1e-12;
    reading->activation = ACTIVATION_GELU;
    reading->full_layers = DEFAULT_FULL_LAYERS;
    switch (config->type) {
    case HUGGINGFACE_GPT2:
        config->eps = 1e-5;
        reading->activation = ACTIVATION_GELU_TANH;
        break;
    case HUGGINGFACE_LLAMA:
    case HUGGINGFACE_MISTRAL:
    case HUGGINGFACE_QWEN2:
        config->eps = 1e-6;
        reading->activation = ACTIVATION_SILU;
        reading->gated = true;
        break;
    case HUGGINGFACE_T5:
        config->eps = 1e-6;
        reading->activation = ACTIVATION_RELU;
        break;
    default:
        break;
    }
}

static bool make_ffn(struct huggingface_reading *reading, struct error *error)
{
    static const struct {
        enum activation activation;
        bool gated;
    } kinds[FFN_KIND_COUNT] = {
#define FFN_ROW(code, name, activation, gated) [code] = {activation, gated},
        FFN_KINDS(FFN_ROW)
#undef FFN_ROW
    };
    const enum huggingface_type type = reading->config.type;
    if (type == HUGGINGFACE_T5 && ((reading->has_dense && reading->dense_activation != reading->activation) ||
                                   (reading->has_gated && reading->dense_gated != reading->gated)))
        return error_set(error, ERROR_INVALID,
                         "\"%s\" says otherwise than \"feed_forward_proj\"; expected the activation that it names",
                         reading->has_gated && reading->dense_gated != reading->gated ? "is_gated_act"
                                                                                      : "dense_act_fn");
    for (size_t kind = FFN_NONE + 1; kind < FFN_KIND_COUNT; kind++)
        if (kinds[kind].activation == reading->activation && kinds[kind].gated == reading->gated)
            reading->config.ffn = (enum ffn_kind)kind;
    if (reading->config.ffn == FFN_NONE) /* the only pair that is not there */
        return error_set(error, ERROR_INVALID, "\"hidden_act\" is relu, and a gate of relu is not implemented");
    return true;
}

static bool make_heads(struct huggingface_config *config, struct error *error)
{
    if (config->num_kv_heads == 0)
        config->num_kv_heads = config->num_heads;
    if (config->num_heads % config->num_kv_heads != 0)
        return error_set(error, ERROR_INVALID,
                         "\"num_attention_heads\" is %zu, no multiple of \"num_key_value_heads\", %zu",
                         config->num_heads, config->num_kv_heads);
    if (config->d_k)
        return true;
    if (config->d_model % config->num_heads != 0)
        return error_set(
            error, ERROR_INVALID,
            "the width of the model is %zu, no multiple of its %zu heads: expected sizes that fit together",
            config->d_model, config->num_heads);
    config->d_k = config->d_model / config->num_heads;
    return true;
}

/* Which layers slide. */
static bool make_window(struct huggingface_reading *reading, struct error *error)
{
    struct huggingface_config *config = &reading->config;
    const bool listed = reading->layer_types > 0;
    const bool may_slide =
        config->type == HUGGINGFACE_MISTRAL || (config->type == HUGGINGFACE_QWEN2 && reading->use_window);
    if (listed && reading->layer_types != config->num_layers)
        return error_set(error, ERROR_INVALID, "\"layer_types\" has %zu entries, expected %zu, one for each layer",
                         reading->layer_types, config->num_layers);
    if (!may_slide) {
        config->window = 0;
        return true;
    }
    if (!reading->has_window)
        config->window = DEFAULT_WINDOW;
    for (size_t n = 0; n < config->num_layers && !listed; n++)
        config->slides[n] = config->type == HUGGINGFACE_MISTRAL || n >= reading->full_layers;
    return true;
}

/* Positions that are counted over tokens begin behind the padding id. */
static bool check_padding(const struct huggingface_config *config, struct error *error)
{
    if (config->padding_id + 1 >= config->positions)
        return error_set(error, ERROR_INVALID,
                         "\"pad_token_id\" is %zu, and positions are counted from %zu on, but there are %zu "
                         "(\"max_position_embeddings\")",
                         config->padding_id, config->padding_id + 1, config->positions);
    return true;
}

static bool check_esm(struct huggingface_reading *reading, struct error *error)
{
    struct huggingface_config *config = &reading->config;
    if (!config->rotary && config->positions == 0)
        return error_set(error, ERROR_INVALID,
                         "the key \"max_position_embeddings\" is missing, which absolute positions need");
    if (config->token_dropout && config->mask_token == SIZE_MAX)
        return error_set(error, ERROR_INVALID, "the key \"mask_token_id\" is missing, which \"token_dropout\" needs");
    if (config->token_dropout && config->mask_token >= config->vocabulary)
        return error_set(error, ERROR_INVALID, "\"mask_token_id\" is %zu, outside the %zu tokens (\"vocab_size\")",
                         config->mask_token, config->vocabulary);
    return config->rotary || check_padding(config, error);
}

static bool check_t5(const struct huggingface_config *config, struct error *error)
{
    /* Both directions share the buckets; the first half of each is exact (docs/MODEL.md). */
    if (config->buckets % 2 != 0)
        return error_set(error, ERROR_INVALID, "\"relative_attention_num_buckets\" is %zu, expected an even number",
                         config->buckets);
    if (config->max_distance <= config->buckets / 4)
        return error_set(error, ERROR_INVALID,
                         "\"relative_attention_max_distance\" is %zu, expected more than %zu, a quarter of the buckets",
                         config->max_distance, config->buckets / 4);
    return true;
}

static bool put_together(struct huggingface_reading *reading, struct error *error)
{
    struct huggingface_config *config = &reading->config;
    if (!huggingface_keys_all_there(reading, error) || !make_ffn(reading, error) || !make_heads(config, error) ||
        !make_window(reading, error))
        return false;
    if (config->embedding_width == 0)
        config->embedding_width = config->d_model;
    switch (config->type) {
    case HUGGINGFACE_GPT2:
        if (config->d_ff == 0)
            config->d_ff = 4 * config->d_model;
        return true;
    case HUGGINGFACE_ROBERTA:
    case HUGGINGFACE_XLM:
    case HUGGINGFACE_CAMEMBERT:
        return check_padding(config, error);
    case HUGGINGFACE_ESM:
        if (!check_esm(reading, error))
            return false;
        break;
    case HUGGINGFACE_T5:
        return check_t5(config, error);
    case HUGGINGFACE_VIT:
        if (config->image_size % config->patch_size == 0)
            return true;
        return error_set(error, ERROR_INVALID, "\"image_size\" is %zu, no multiple of \"patch_size\", %zu",
                         config->image_size, config->patch_size);
    default:
        break;
    }
    const unsigned rotate =
        HUGGINGFACE_BIT(HUGGINGFACE_LLAMA) | HUGGINGFACE_BIT(HUGGINGFACE_MISTRAL) | HUGGINGFACE_BIT(HUGGINGFACE_QWEN2);
    if (!config->rotary && !(rotate & HUGGINGFACE_BIT(config->type)))
        return true;
    return huggingface_rope_make(&reading->rope_parameters, &reading->rope_scaling, reading->rope_theta,
                                 reading->partial_rotary_factor, config->d_k, &config->rope, error);
}

bool huggingface_config_read(const char *text, size_t length, struct huggingface_config *config, struct error *error)
{
    struct huggingface_reading reading = {.config = {.mask_token = SIZE_MAX}};
    struct json_reader *r = &reading.reader;
    struct json_key key;
    enum json_step step;

    json_reader_init(r, text, length);
    if (!find_type(r, &reading.config.type, error))
        return file_fault_json(r, HUGGINGFACE_CONFIG_NAME, error);
    set_defaults(&reading);
    json_reader_init(r, text, length);
    if (!json_enter_object(r, error))
        return file_fault_json(r, HUGGINGFACE_CONFIG_NAME, error);
    while ((step = json_next_member(r, &key, error)) == JSON_ITEM)
        if (!huggingface_key_read(&reading, &key, error))
            return file_fault_json(r, HUGGINGFACE_CONFIG_NAME, error);
    if (step == JSON_FAILED)
        return file_fault_json(r, HUGGINGFACE_CONFIG_NAME, error);
    if (!put_together(&reading, error))
        return file_fault(HUGGINGFACE_CONFIG_NAME, error);
    *config = reading.config;
    return true;
}
