/* Owns the list of keys: which model types have them, what values they take. What changes the results and is not
 * implemented is a key too, whose values but one are refused. No state. */
#include "weights/huggingface_keys.h"

#include <stddef.h>
#include <string.h>

/* Sizes are at most this, so that the product of two fits. */
#define MOST_SIZE ((int64_t)INT32_MAX)

#define BIT(type) HUGGINGFACE_BIT(HUGGINGFACE_##type)
#define ROBERTAS  (BIT(ROBERTA) | BIT(XLM) | BIT(CAMEMBERT))
#define BERTS     (BIT(BERT) | ROBERTAS | BIT(ELECTRA))
#define LLAMAS    (BIT(LLAMA) | BIT(MISTRAL) | BIT(QWEN2))
#define USUAL     (BERTS | LLAMAS | BIT(VIT) | BIT(ESM)) /* those that name their sizes alike */
#define ALL       (HUGGINGFACE_BIT(HUGGINGFACE_TYPE_COUNT) - 1)

/* null is as absent, but for KEY_WINDOW. */
enum key_kind {
    KEY_SIZE,    /* from 1 */
    KEY_LAYERS,  /* from 1 to MODEL_MOST_LAYERS */
    KEY_NATURAL, /* from 0 */
    KEY_NUMBER,  /* above 0 */
    KEY_BOOL,
    KEY_ACTIVATION,
    KEY_GELU,
    KEY_TRUE, /* no other value is implemented */
    KEY_FALSE,
    KEY_ABSOLUTE,
    KEY_EMPTY, /* null or {} */
    KEY_POSITION,
    KEY_FEED_FORWARD,
    KEY_DENSE,
    KEY_GATED,
    KEY_ROPE,
    KEY_WINDOW,
    KEY_LAYER_TYPES
};

#define AT(member)     offsetof(struct huggingface_reading, member)
#define CONFIG(member) AT(config.member)

static const struct {
    const char *name;
    unsigned types;
    enum key_kind kind;
    size_t offset;
    unsigned required; /* of the types */
} keys[] = {
    {"hidden_size", USUAL, KEY_SIZE, CONFIG(d_model), USUAL},
    {"num_hidden_layers", USUAL, KEY_LAYERS, CONFIG(num_layers), USUAL},
    {"num_attention_heads", USUAL, KEY_SIZE, CONFIG(num_heads), USUAL},
    {"intermediate_size", USUAL, KEY_SIZE, CONFIG(d_ff), USUAL},
    {"vocab_size", ALL & ~BIT(VIT), KEY_SIZE, CONFIG(vocabulary), ALL},
    {"max_position_embeddings", BERTS | BIT(DISTIL) | BIT(ESM), KEY_SIZE, CONFIG(positions), BERTS | BIT(DISTIL)},
    {"type_vocab_size", BERTS, KEY_SIZE, CONFIG(types), BERTS},
    {"layer_norm_eps", BERTS | BIT(VIT) | BIT(ESM), KEY_NUMBER, CONFIG(eps), 0},
    {"hidden_act", USUAL & ~BIT(ESM), KEY_ACTIVATION, AT(activation), 0},
    {"position_embedding_type", BERTS, KEY_ABSOLUTE, 0, 0},
    {"is_decoder", BERTS, KEY_BOOL, CONFIG(is_decoder), 0},
    {"pad_token_id", ROBERTAS | BIT(ESM), KEY_NATURAL, CONFIG(padding_id), 0},
    {"embedding_size", BIT(ELECTRA), KEY_SIZE, CONFIG(embedding_width), BIT(ELECTRA)},

    {"dim", BIT(DISTIL), KEY_SIZE, CONFIG(d_model), ALL},
    {"n_layers", BIT(DISTIL), KEY_LAYERS, CONFIG(num_layers), ALL},
    {"n_heads", BIT(DISTIL), KEY_SIZE, CONFIG(num_heads), ALL},
    {"hidden_dim", BIT(DISTIL), KEY_SIZE, CONFIG(d_ff), ALL},
    {"activation", BIT(DISTIL), KEY_ACTIVATION, AT(activation), 0},

    {"n_embd", BIT(GPT2), KEY_SIZE, CONFIG(d_model), ALL},
    {"n_layer", BIT(GPT2), KEY_LAYERS, CONFIG(num_layers), ALL},
    {"n_head", BIT(GPT2), KEY_SIZE, CONFIG(num_heads), ALL},
    {"n_positions", BIT(GPT2), KEY_SIZE, CONFIG(positions), ALL},
    {"n_inner", BIT(GPT2), KEY_SIZE, CONFIG(d_ff), 0},
    {"activation_function", BIT(GPT2), KEY_ACTIVATION, AT(activation), 0},
    {"layer_norm_epsilon", BIT(GPT2) | BIT(T5), KEY_NUMBER, CONFIG(eps), 0},
    {"scale_attn_weights", BIT(GPT2), KEY_BOOL, CONFIG(scale_attention), 0},
    {"scale_attn_by_inverse_layer_idx", BIT(GPT2), KEY_BOOL, CONFIG(scale_by_layer), 0},

    {"num_key_value_heads", LLAMAS, KEY_SIZE, CONFIG(num_kv_heads), 0},
    {"head_dim", LLAMAS, KEY_SIZE, CONFIG(d_k), 0},
    {"rms_norm_eps", LLAMAS, KEY_NUMBER, CONFIG(eps), 0},
    {"rope_theta", LLAMAS | BIT(ESM), KEY_NUMBER, AT(rope_theta), 0},
    {"rope_parameters", LLAMAS | BIT(ESM), KEY_ROPE, AT(rope_parameters), 0},
    {"rope_scaling", LLAMAS, KEY_ROPE, AT(rope_scaling), 0},
    {"partial_rotary_factor", LLAMAS, KEY_NUMBER, AT(partial_rotary_factor), 0},
    {"attention_bias", BIT(LLAMA), KEY_BOOL, CONFIG(attention_bias), 0},
    {"mlp_bias", BIT(LLAMA), KEY_BOOL, CONFIG(mlp_bias), 0},
    {"sliding_window", BIT(MISTRAL) | BIT(QWEN2), KEY_WINDOW, CONFIG(window), 0},
    {"use_sliding_window", BIT(QWEN2), KEY_BOOL, AT(use_window), 0},
    {"max_window_layers", BIT(QWEN2), KEY_NATURAL, AT(full_layers), 0},
    {"layer_types", LLAMAS, KEY_LAYER_TYPES, 0, 0},

    {"d_model", BIT(T5), KEY_SIZE, CONFIG(d_model), ALL},
    {"num_layers", BIT(T5), KEY_LAYERS, CONFIG(num_layers), ALL},
    {"num_heads", BIT(T5), KEY_SIZE, CONFIG(num_heads), ALL},
    {"d_kv", BIT(T5), KEY_SIZE, CONFIG(d_k), ALL},
    {"d_ff", BIT(T5), KEY_SIZE, CONFIG(d_ff), ALL},
    {"relative_attention_num_buckets", BIT(T5), KEY_SIZE, CONFIG(buckets), ALL},
    {"relative_attention_max_distance", BIT(T5), KEY_SIZE, CONFIG(max_distance), 0},
    {"feed_forward_proj", BIT(T5), KEY_FEED_FORWARD, 0, 0},
    {"dense_act_fn", BIT(T5), KEY_DENSE, AT(dense_activation), 0},
    {"is_gated_act", BIT(T5), KEY_GATED, AT(dense_gated), 0},

    {"image_size", BIT(VIT), KEY_SIZE, CONFIG(image_size), ALL},
    {"patch_size", BIT(VIT), KEY_SIZE, CONFIG(patch_size), ALL},
    {"num_channels", BIT(VIT), KEY_SIZE, CONFIG(channels), ALL},
    {"qkv_bias", BIT(VIT), KEY_BOOL, CONFIG(qkv_bias), 0},

    {"hidden_act", BIT(ESM), KEY_GELU, 0, 0}, /* it computes no other, whatever this says */
    {"position_embedding_type", BIT(ESM), KEY_POSITION, CONFIG(rotary), 0},
    {"emb_layer_norm_before", BIT(ESM), KEY_BOOL, CONFIG(norm_before), 0},
    {"token_dropout", BIT(ESM), KEY_BOOL, CONFIG(token_dropout), 0},
    {"mask_token_id", BIT(ESM), KEY_NATURAL, CONFIG(mask_token), 0},
    {"is_decoder", BIT(ESM), KEY_FALSE, 0, 0},

    {"is_causal", BIT(GPT2) | LLAMAS, KEY_TRUE, 0, 0},
    {"use_bidirectional_attention", BIT(GPT2) | LLAMAS, KEY_FALSE, 0, 0},
    {"quantization_config", ALL, KEY_EMPTY, 0, 0},
    {"pruned_heads", ALL, KEY_EMPTY, 0, 0},
};
#define KEY_COUNT (sizeof keys / sizeof *keys)
_Static_assert(KEY_COUNT <= 64, "one bit each in huggingface_reading.seen");

/* By the names of hidden_act. */
static const struct {
    const char *name;
    enum activation activation;
} activations[] = {
    {"gelu", ACTIVATION_GELU},           {"gelu_new", ACTIVATION_GELU_TANH},
    {"gelu_fast", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
    {"relu", ACTIVATION_RELU},           {"silu", ACTIVATION_SILU},
    {"swish", ACTIVATION_SILU},
};
#define ACTIVATION_COUNT  (sizeof activations / sizeof *activations)
#define ACTIVATIONS_WORDS "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, silu or swish"

/* The string at the reader, whose fault is shown at its beginning. */
static bool read_word(struct json_reader *r, struct json_key *word, char shown[NAMES_SHOWN_BYTES], struct error *error)
{
    json_peek(r);
    const char *before = r->at;
    if (!json_read_in_place(r, word, error))
        return false;
    names_show(word, shown);
    r->at = before;
    return true;
}

static bool find_activation(const char *name, enum activation *activation)
{
    for (size_t i = 0; i < ACTIVATION_COUNT; i++)
        if (strcmp(name, activations[i].name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
    return false;
}

static bool read_gelu(struct json_reader *r, struct error *error)
{
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES];
    if (!read_word(r, &word, shown, error))
        return false;
    if (!json_key_is(&word, "gelu"))
        return json_error(r, error, ERROR_INVALID,
                          "the activation \"%s\" is not implemented for this model_type; expected gelu", shown);
    return json_ignore(r, error);
}

static bool read_activation(struct json_reader *r, enum activation *activation, struct error *error)
{
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES];
    if (!read_word(r, &word, shown, error))
        return false;
    if (!find_activation(shown, activation))
        return json_error(r, error, ERROR_INVALID,
                          "the activation \"%s\" is not implemented; expected " ACTIVATIONS_WORDS, shown);
    return json_ignore(r, error);
}

/* "relu", "gated-gelu": the gated gelu is the tanh form. */
static bool read_feed_forward(struct huggingface_reading *reading, struct error *error)
{
    static const char gated[] = "gated-";
    struct json_reader *r = &reading->reader;
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES];
    if (!read_word(r, &word, shown, error))
        return false;
    const bool is_gated = strncmp(shown, gated, strlen(gated)) == 0;
    const char *name = shown + (is_gated ? strlen(gated) : 0);
    const char *meant = strcmp(shown, "gated-gelu") == 0 ? "gelu_new" : name;
    if (!find_activation(meant, &reading->activation) || (is_gated && reading->activation == ACTIVATION_RELU))
        return json_error(r, error, ERROR_INVALID,
                          "the feed-forward \"%s\" is not implemented; expected relu, gated-gelu, gated-silu or an "
                          "activation without a gate: " ACTIVATIONS_WORDS,
                          shown);
    reading->gated = is_gated;
    return json_ignore(r, error);
}

static bool read_position(struct json_reader *r, bool allow_rotary, bool *rotary, struct error *error)
{
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES];
    if (!read_word(r, &word, shown, error))
        return false;
    const bool is_rotary = allow_rotary && json_key_is(&word, "rotary");
    if (!is_rotary && !json_key_is(&word, "absolute"))
        return json_error(r, error, ERROR_INVALID, "positions of type \"%s\" are not implemented; expected absolute%s",
                          shown, allow_rotary ? " or rotary" : "");
    if (rotary)
        *rotary = is_rotary;
    return json_ignore(r, error);
}

static bool read_only(struct json_reader *r, bool only, struct error *error)
{
    bool value;
    json_peek(r);
    const char *before = r->at;
    if (!json_read_bool(r, &value, error))
        return false;
    if (value == only)
        return true;
    r->at = before;
    return json_error(r, error, ERROR_INVALID, "%s is not implemented for this model_type; expected %s",
                      value ? "true" : "false", only ? "true" : "false");
}

static bool read_empty(struct json_reader *r, const char *name, struct error *error)
{
    struct json_reader look = *r;
    struct json_key key;
    struct error ignored;
    if (json_peek(r) == JSON_OBJECT && json_enter_object(&look, &ignored) &&
        json_next_member(&look, &key, &ignored) == JSON_DONE)
        return json_ignore(r, error);
    return json_error(r, error, ERROR_INVALID,
                      "\"%s\" is not implemented: it changes what the tensors mean; expected the model without it",
                      name);
}

static bool read_layer_types(struct huggingface_reading *reading, struct error *error)
{
    struct json_reader *r = &reading->reader;
    struct json_key word;
    char shown[NAMES_SHOWN_BYTES];
    enum json_step step;
    size_t n = 0;
    if (!json_enter_array(r, error))
        return false;
    for (; (step = json_next_element(r, error)) == JSON_ITEM; n++) {
        if (!read_word(r, &word, shown, error))
            return false;
        const bool slides = json_key_is(&word, "sliding_attention");
        const bool may_slide = reading->config.type != HUGGINGFACE_LLAMA;
        if (!json_key_is(&word, "full_attention") && !(slides && may_slide))
            return json_error(r, error, ERROR_INVALID,
                              "layers of type \"%s\" are not implemented; expected full_attention%s", shown,
                              may_slide ? " or sliding_attention" : "");
        if (n == MODEL_MOST_LAYERS)
            return json_error(r, error, ERROR_INVALID, "expected at most %d layers", MODEL_MOST_LAYERS);
        reading->config.slides[n] = slides;
        if (!json_ignore(r, error))
            return false;
    }
    reading->layer_types = n;
    return step == JSON_DONE;
}

static bool read_integer(struct json_reader *r, int64_t least, int64_t most, size_t *size, struct error *error)
{
    int64_t value;
    if (!json_read_integer(r, least, most, &value, error))
        return false;
    *size = (size_t)value;
    return true;
}

static bool read_number(struct json_reader *r, double *number, struct error *error)
{
    double value;
    json_peek(r);
    const char *before = r->at;
    if (!json_read_double(r, &value, error))
        return false;
    if (!(value > 0)) {
        r->at = before;
        return json_error(r, error, ERROR_INVALID, "expected a number above 0, got %g", value);
    }
    *number = value;
    return true;
}

static bool read_value(struct huggingface_reading *reading, size_t row, struct error *error)
{
    struct json_reader *r = &reading->reader;
    void *member = (char *)reading + keys[row].offset;
    switch (keys[row].kind) {
    case KEY_SIZE:
    case KEY_WINDOW:
        return read_integer(r, 1, MOST_SIZE, member, error);
    case KEY_LAYERS:
        return read_integer(r, 1, MODEL_MOST_LAYERS, member, error);
    case KEY_NATURAL:
        return read_integer(r, 0, MOST_SIZE, member, error);
    case KEY_NUMBER:
        return read_number(r, member, error);
    case KEY_BOOL:
        return json_read_bool(r, member, error);
    case KEY_ACTIVATION:
        return read_activation(r, member, error);
    case KEY_GELU:
        return read_gelu(r, error);
    case KEY_TRUE:
    case KEY_FALSE:
        return read_only(r, keys[row].kind == KEY_TRUE, error);
    case KEY_ABSOLUTE:
        return read_position(r, false, NULL, error);
    case KEY_POSITION:
        return read_position(r, true, member, error);
    case KEY_EMPTY:
        return read_empty(r, keys[row].name, error);
    case KEY_FEED_FORWARD:
        return read_feed_forward(reading, error);
    case KEY_DENSE:
        reading->has_dense = true;
        return read_activation(r, member, error);
    case KEY_GATED:
        reading->has_gated = true;
        return json_read_bool(r, member, error);
    case KEY_ROPE:
        return huggingface_rope_read(r, member, error);
    case KEY_LAYER_TYPES:
        return read_layer_types(reading, error);
    }
    return json_ignore(r, error);
}

bool huggingface_key_read(struct huggingface_reading *reading, const struct json_key *key, struct error *error)
{
    struct json_reader *r = &reading->reader;
    size_t row = 0;
    while (row < KEY_COUNT &&
           !((keys[row].types & HUGGINGFACE_BIT(reading->config.type)) != 0 && json_key_is(key, keys[row].name)))
        row++;
    if (row == KEY_COUNT)
        return json_ignore(r, error);
    if (keys[row].kind == KEY_WINDOW)
        reading->has_window = true;
    if (json_peek(r) == JSON_NULL)
        return json_read_null(r, error);
    reading->seen |= UINT64_C(1) << row;
    return read_value(reading, row, error);
}

bool huggingface_keys_all_there(const struct huggingface_reading *reading, struct error *error)
{
    const unsigned type = HUGGINGFACE_BIT(reading->config.type);
    for (size_t row = 0; row < KEY_COUNT; row++)
        if (keys[row].types & keys[row].required & type && !(reading->seen >> row & 1))
            return error_set(error, ERROR_INVALID,
                             "the key \"%s\" is missing, which model_type %s must have: expected an integer from 1 up",
                             keys[row].name, huggingface_type_name(reading->config.type));
    return true;
}
