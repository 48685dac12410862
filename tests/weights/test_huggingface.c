/* Folders as transformers saves them: every tensor where an independent program says it is, every key with its meaning,
 * and whatever is wrong or would change the results refused by name. */
#include "suite.h"

#include "golden_model.h"
#include "golden_tensors.h"
#include "model_file.h"
#include "weights/huggingface_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS  12
#define CONFIG  "config.json"
#define MODEL   "model.safetensors"
#define MOST    3
#define SIZE(a) (sizeof(a) / sizeof *(a))

START_TEST(tiny_models)
{
    struct model_source source;
    struct error error = {0};
    const char *name = golden_tensors_name((size_t)_i, false);
    ck_assert_ptr_nonnull(name);
    char *path = golden_model_path(name);
    ck_assert_msg(huggingface_source_open(path, &source, &error), "%s: %s", name, error.message);
    golden_tensors_check(&source, name);
    ck_assert(model_files_unchanged(&source.files, &error));
    model_source_free(&source);
    free(path);
}
END_TEST

START_TEST(all_of_them)
{
    ck_assert_ptr_nonnull(golden_tensors_name(MODELS - 1, false));
    ck_assert_ptr_null(golden_tensors_name(MODELS, false));
}
END_TEST

/* ---- keys that change the result */

struct good {
    const char *model;
    struct model_change changes[MOST];
    void (*check)(const struct model_source *source);
};

static void is_causal(const struct model_source *source)
{
    ck_assert(source->causal);
}

static void has_no_windows(const struct model_source *source)
{
    for (size_t n = 0; n < source->shape.num_layers; n++)
        ck_assert(!source->shape.layers[n].own_pattern);
}

static void has_windows_of_4096(const struct model_source *source)
{
    for (size_t n = 0; n < source->shape.num_layers; n++) {
        ck_assert(source->shape.layers[n].own_pattern);
        ck_assert_int_eq(source->shape.layers[n].pattern.kind, PATTERN_WINDOW);
        ck_assert_uint_eq(source->shape.layers[n].pattern.left, 4095);
        ck_assert_uint_eq(source->shape.layers[n].pattern.right, 0);
    }
}

static void has_a_window_above(const struct model_source *source)
{
    ck_assert(!source->shape.layers[0].own_pattern);
    ck_assert(source->shape.layers[1].own_pattern);
}

static void has_a_window_below(const struct model_source *source)
{
    ck_assert(source->shape.layers[0].own_pattern);
    ck_assert(!source->shape.layers[1].own_pattern);
}

static void has_eps(const struct model_source *source, float eps)
{
    for (size_t n = 0; n < source->shape.num_layers; n++) {
        ck_assert_float_eq(source->shape.layers[n].norm1.eps, eps);
        ck_assert_float_eq(source->shape.layers[n].norm2.eps, eps);
    }
    if (source->shape.final_norm.kind != NORM_NONE)
        ck_assert_float_eq(source->shape.final_norm.eps, eps);
    if (source->shape.embeddings.norm.kind != NORM_NONE)
        ck_assert_float_eq(source->shape.embeddings.norm.eps, eps);
}

static void has_eps_1e_12(const struct model_source *source)
{
    has_eps(source, 1e-12F);
}

static void has_eps_1e_5(const struct model_source *source)
{
    has_eps(source, 1e-5F);
}

static void has_eps_1e_6(const struct model_source *source)
{
    has_eps(source, 1e-6F);
}

static void has_ffn(const struct model_source *source, enum ffn_kind kind)
{
    for (size_t n = 0; n < source->shape.num_layers; n++)
        ck_assert_int_eq(source->shape.layers[n].ffn.kind, kind);
}

static void has_gelu(const struct model_source *source)
{
    has_ffn(source, FFN_GELU);
}

static void has_gelu_tanh(const struct model_source *source)
{
    has_ffn(source, FFN_GELU_TANH);
}

static void has_relu(const struct model_source *source)
{
    has_ffn(source, FFN_RELU);
}

static void has_silu(const struct model_source *source)
{
    has_ffn(source, FFN_SILU);
}

static void has_swiglu(const struct model_source *source)
{
    has_ffn(source, FFN_SWIGLU);
}

static void has_geglu(const struct model_source *source)
{
    has_ffn(source, FFN_GEGLU);
}

static void has_geglu_tanh(const struct model_source *source)
{
    has_ffn(source, FFN_GEGLU_TANH);
}

static void has_scales_by_layer(const struct model_source *source)
{
    for (size_t n = 0; n < 3; n++)
        ck_assert_float_eq(source->shape.layers[n].scale, (float)(1 / sqrt(8) / (double)(n + 1)));
}

static void has_scale_1(const struct model_source *source)
{
    for (size_t n = 0; n < 3; n++)
        ck_assert_float_eq(source->shape.layers[n].scale, 1);
}

static void has_base_10000(const struct model_source *source)
{
    ck_assert_int_eq(source->position.kind, POSITION_ROPE);
    ck_assert_double_eq(source->position.base, 10000);
    ck_assert_int_eq(source->position.scaling, ROPE_UNSCALED);
    ck_assert_uint_eq(source->position.dims, 8);
    ck_assert_ptr_null(source->position.frequencies);
}

static void has_base_500(const struct model_source *source)
{
    ck_assert_double_eq(source->position.base, 500);
}

static void has_linear_3(const struct model_source *source)
{
    ck_assert_int_eq(source->position.scaling, ROPE_LINEAR);
    ck_assert_double_eq(source->position.factor, 3);
    ck_assert_double_eq(source->position.base, 5000);
}

static void rotates_4(const struct model_source *source)
{
    ck_assert_uint_eq(source->position.dims, 4);
}

static void has_no_bias_of_queries(const struct model_source *source)
{
    for (size_t n = 0; n < source->shape.num_layers; n++) {
        const struct layer_shape *layer = &source->shape.layers[n];
        ck_assert(!layer->bias_q && !layer->bias_k && !layer->bias_v && layer->bias_o);
        ck_assert_ptr_null(source->layers[n][SLOT_B_K].file);
    }
    ck_assert(source_leaves(source, "1.attention.attention.value.bias"));
}

static void counts_from_1(const struct model_source *source)
{
    ck_assert(source->shape.embeddings.count_padding_id);
    ck_assert_uint_eq(source->shape.embeddings.padding_id, 1);
    ck_assert_uint_eq(source->shape.embeddings.position_offset, 2);
}

static void has_no_dropout(const struct model_source *source)
{
    ck_assert(!source->shape.embeddings.token_dropout);
    ck_assert_uint_eq(source->shape.embeddings.mask_token, 0);
}

static void is_as_it_was(const struct model_source *source)
{
    ck_assert_uint_eq(source->shape.num_layers, 2);
}

static void has_one_layer(const struct model_source *source)
{
    ck_assert_uint_eq(source->shape.num_layers, 1);
    ck_assert(source_leaves(source, "encoder.layer.1.output.dense.bias"));
}

#define CHANGE(from, to) {{CONFIG, from, to}}
#define GONE(key)        CHANGE("\"" key "\"", "\"not_" key "\"")

static const struct good goods[] = {
    {"bert", CHANGE("\"is_decoder\": false", "\"is_decoder\": true"), is_causal},
    {"roberta", CHANGE("\"is_decoder\": false", "\"is_decoder\": true"), is_causal},
    {"bert", CHANGE("\"is_decoder\": false", "\"is_decoder\": null"), is_as_it_was},
    {"bert", CHANGE("\"model_type\"", "\"position_embedding_type\": \"absolute\", \"pruned_heads\": {},"
                                      " \"quantization_config\": null, \"model_type\""),
     is_as_it_was},
    {"bert", CHANGE("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"), has_one_layer},
    {"bert", CHANGE("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2.0"), is_as_it_was},
    {"bert", GONE("layer_norm_eps"), has_eps_1e_12},
    {"bert", CHANGE("1e-12", "1e-06"), has_eps_1e_6},
    {"distilbert", CHANGE("\"n_heads\"", "\"layer_norm_eps\": 1e-3, \"n_heads\""), has_eps_1e_12},
    {"vit", GONE("layer_norm_eps"), has_eps_1e_12},
    {"esm", GONE("layer_norm_eps"), has_eps_1e_12},
    {"gpt2", GONE("layer_norm_epsilon"), has_eps_1e_5},
    {"llama", GONE("rms_norm_eps"), has_eps_1e_6},
    {"t5", GONE("layer_norm_epsilon"), has_eps_1e_6},
    {"bert", GONE("hidden_act"), has_gelu},
    {"bert", CHANGE("\"gelu\"", "\"gelu_new\""), has_gelu_tanh},
    {"bert", CHANGE("\"gelu\"", "\"gelu_fast\""), has_gelu_tanh},
    {"bert", CHANGE("\"gelu\"", "\"gelu_pytorch_tanh\""), has_gelu_tanh},
    {"bert", CHANGE("\"gelu\"", "\"relu\""), has_relu},
    {"bert", CHANGE("\"gelu\"", "\"silu\""), has_silu},
    {"bert", CHANGE("\"gelu\"", "\"sw\\u0069sh\""), has_silu},
    {"distilbert", CHANGE("\"activation\": \"gelu\"", "\"activation\": \"relu\""), has_relu},
    {"gpt2", GONE("activation_function"), has_gelu_tanh},
    {"gpt2", CHANGE("\"gelu_new\"", "\"gelu\""), has_gelu},
    {"llama", GONE("hidden_act"), has_swiglu},
    {"llama", CHANGE("\"silu\"", "\"gelu\""), has_geglu},
    {"llama", CHANGE("\"silu\"", "\"gelu_pytorch_tanh\""), has_geglu_tanh},
    {"t5", GONE("feed_forward_proj"), has_relu},
    {"t5", {{CONFIG, "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gelu\""},
            {CONFIG, "\"dense_act_fn\": \"relu\"", "\"dense_act_fn\": \"gelu\""}},
     has_gelu},
    {"gpt2", CHANGE("layer_idx\": false", "layer_idx\": true"), has_scales_by_layer},
    {"gpt2", CHANGE("\"scale_attn_weights\": true", "\"scale_attn_weights\": false"), has_scale_1},
    {"gpt2", CHANGE("\"n_inner\": null", "\"n_inner\": 128"), is_causal},
    {"mistral", GONE("sliding_window"), has_windows_of_4096},
    {"mistral", CHANGE("\"sliding_window\": 4", "\"sliding_window\": null"), has_no_windows},
    {"mistral", GONE("rope_parameters"), has_base_10000},
    {"mistral", CHANGE("\"rope_theta\": 10000.0", "\"rope_theta\": 500"), has_base_500},
    {"mistral", CHANGE("\"rope_parameters\": {\n    \"rope_theta\": 10000.0", "\"rope_theta\": 500,\n\"rope_scaling\": {\"x\": 1"),
     has_base_500},
    {"mistral", GONE("head_dim"), has_base_10000},
    {"mistral", CHANGE("\"head_dim\": 8", "\"head_dim\": null"), has_base_10000},
    {"mistral", CHANGE("\"head_dim\"", "\"partial_rotary_factor\": 0.5, \"head_dim\""), rotates_4},
    {"llama_linear_v4", CHANGE("\"rope_type\": \"linear\"", "\"type\": \"linear\""), is_causal},
    {"llama_linear_v4", CHANGE("\"rope_theta\"", "\"rope_parameters\": {\"factor\": 3}, \"rope_theta\""), has_linear_3},
    {"llama", CHANGE("\"rope_parameters\"", "\"layer_types\": [\"full_attention\", \"full_attention\"], \"rope_parameters\""),
     has_no_windows},
    {"llama", CHANGE("\"rope_parameters\"", "\"sliding_window\": 3, \"use_sliding_window\": true, \"rope_parameters\""),
     has_no_windows},
    {"qwen2", CHANGE("\"use_sliding_window\": true", "\"use_sliding_window\": false"), has_no_windows},
    {"qwen2", GONE("use_sliding_window"), has_no_windows},
    {"qwen2", GONE("layer_types"), has_a_window_above},
    {"qwen2", CHANGE("\"full_attention\",\n    \"sliding_attention\"", "\"sliding_attention\",\n    \"full_attention\""),
     has_a_window_below},
    {"qwen2", {{CONFIG, "\"layer_types\"", "\"not\""}, {CONFIG, "\"max_window_layers\": 1", "\"max_window_layers\": 2"}},
     has_no_windows},
    {"vit", CHANGE("\"qkv_bias\": true", "\"qkv_bias\": false"), has_no_bias_of_queries},
    {"roberta", GONE("pad_token_id"), counts_from_1},
    {"esm", CHANGE("\"token_dropout\": true", "\"token_dropout\": false"), has_no_dropout},
    {"esm", {{MODEL, "encoder.layer.1.attention.self.rotary", "encoder.layer.*.attention.self.rotary"}}, is_as_it_was},
    {"esm", {{MODEL, "encoder.layer.0.attention.self.rotary", "encoder.layer.0.attention.self.rotarx"},
             {MODEL, "encoder.layer.1.attention.self.rotary", "encoder.layer.1.attention.self.rotarx"}},
     has_base_10000},
    /* Names without the prefix, and with it where the file had none. */
    {"electra", {{MODEL, "electra.embeddings_project.bias\"", "embeddings_project.bias\"        "}}, is_as_it_was},
    {"bert", {{MODEL, "bert.encoder.layer.0.output.LayerNorm.gamma\"", "encoder.layer.0.output.LayerNorm.weight\"    "}},
     is_as_it_was},
};

static void open_changed(const char *model, const struct model_change *changes, bool good, struct model_source *source,
                         struct error *error)
{
    char *path = golden_model_copy(model, changes, MOST);
    const bool opened = huggingface_source_open(path, source, error);
    ck_assert_msg(opened == good, "%s, %s: %s", model, changes[0].to ? changes[0].to : "(gone)",
                  good ? error->message : "it was opened");
    free(path);
}

START_TEST(keys)
{
    const struct good *good = &goods[_i];
    struct model_source source;
    struct error error = {0};
    open_changed(good->model, good->changes, true, &source, &error);
    good->check(&source);
    model_source_free(&source);
}
END_TEST

/* A list of a thousand labels, as classifiers have it, is passed over. */
START_TEST(many_labels)
{
    struct model_source source;
    struct error error = {0};
    char *labels = malloc(100000), *at = labels;
    at += sprintf(at, "\"id2label\": {");
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "%s\"%d\": \"label \\\"%d\\\"\"", i ? ", " : "", i, i);
    strcpy(at, "}, \"model_type\"");
    const struct model_change changes[MOST] = {{CONFIG, "\"model_type\"", labels}};
    open_changed("vit", changes, true, &source, &error);
    model_source_free(&source);
    free(labels);
}
END_TEST

/* ---- what is refused */

static const struct bad {
    const char *model;
    struct model_change changes[MOST];
    const char *words[5]; /* all of them */
} bads[] = {
    {"bert", CHANGE("\"bert\"", "\"mamba\""),
     {CONFIG ":", "/model_type", "mamba", "bert, roberta, xlm-roberta, camembert, distilbert, electra, gpt2, llama", "esm"}},
    {"bert", GONE("model_type"), {CONFIG, "\"model_type\" is missing", "gpt2"}},
    {"bert", CHANGE("\"bert\"", "7"), {CONFIG, "/model_type", "expected a string, got a number"}},
    {"gpt2", {{CONFIG, NULL, "{\"model_type\": \"gpt2\""}}, {CONFIG ":1", "','"}},
    {"gpt2", {{CONFIG, NULL, ""}}, {CONFIG ":1", "the text is empty"}},
    {"gpt2", {{CONFIG, NULL, "[]"}}, {CONFIG ":1", "expected an object, got an array"}},
    {"gpt2", {{CONFIG, NULL, "{\"model_type\": \"gpt2\"} x"}}, {CONFIG ":1", "the end of the text"}},
    {"gpt2", {{CONFIG, NULL, "{\"model_type\": \"gpt2\", \"n_embd\": NaN}"}}, {CONFIG ":1", "/n_embd"}},
    {"gpt2", {{CONFIG, NULL, NULL}}, {"the folder has no " CONFIG, "expected a Hugging Face model's folder"}},
    {"bert", CHANGE("\"model_type\"", "\"hidden_size\": 32, \"model_type\""), {CONFIG ":", "hidden_size", "twice"}},
    {"bert", CHANGE("\"model_type\"", "\"quantization_config\": {\"bits\": 4}, \"model_type\""),
     {CONFIG ":", "/quantization_config", "not implemented"}},
    {"llama", CHANGE("\"model_type\"", "\"quantization_config\": \"int8\", \"model_type\""), {"quantization_config"}},
    {"bert", CHANGE("\"model_type\"", "\"pruned_heads\": {\"0\": [1]}, \"model_type\""), {"/pruned_heads"}},
    {"bert", CHANGE("\"model_type\"", "\"position_embedding_type\": \"relative_key\", \"model_type\""),
     {"/position_embedding_type", "relative_key", "expected absolute"}},
    {"esm", CHANGE("\"rotary\"", "\"relative_key_query\""), {"relative_key_query", "absolute or rotary"}},
    /* sizes */
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": 0"), {CONFIG ":", "/hidden_size", "from 1 to", "got 0"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": -32"), {"/hidden_size", "got -32"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": 32.5"), {"/hidden_size", "got 32.5"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": \"32\""), {"/hidden_size", "got a string"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": null"), {CONFIG, "\"hidden_size\" is missing", "bert"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": 1e30"), {"/hidden_size", "got 1e30"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": 2147483647"), {"2147483647", "4 heads"}},
    {"bert", CHANGE("\"hidden_size\": 32", "\"hidden_size\": 2147483644"),
     {MODEL, "embeddings.word_embeddings.weight", "[96, 32]", "[96, 2147483644]", "vocab_size"}},
    {"bert", CHANGE("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000000000"),
     {"/num_hidden_layers", "from 1 to 4096", "1000000000"}},
    {"bert", CHANGE("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4096"),
     {"65504 tensors are missing", "encoder.layer.2.attention.self.query.weight", " more"}},
    {"bert", CHANGE("\"num_attention_heads\": 4", "\"num_attention_heads\": 5"), {CONFIG, "32", "5 heads"}},
    {"bert", CHANGE("\"vocab_size\": 96", "\"vocab_size\": 97"), {"[96, 32]", "[97, 32]", "vocab_size"}},
    {"bert", CHANGE("\"max_position_embeddings\": 24", "\"max_position_embeddings\": 23"), {"[24, 32]", "[23, 32]"}},
    {"bert", CHANGE("\"type_vocab_size\": 2", "\"type_vocab_size\": 3"), {"[2, 32]", "[3, 32]", "type_vocab_size"}},
    {"bert", CHANGE("\"intermediate_size\": 64", "\"intermediate_size\": 63"), {"[64, 32]", "[63, 32]", "feed-forward"}},
    {"bert", GONE("vocab_size"), {CONFIG, "\"vocab_size\" is missing"}},
    {"electra", GONE("embedding_size"), {CONFIG, "\"embedding_size\" is missing"}},
    {"electra", CHANGE("\"embedding_size\": 20", "\"embedding_size\": 32"), {"[96, 20]", "[96, 32]"}},
    {"distilbert", GONE("n_layers"), {CONFIG, "\"n_layers\" is missing", "distilbert"}},
    {"gpt2", CHANGE("\"n_inner\": null", "\"n_inner\": 127"), {"h.0.mlp.c_fc.weight", "[32, 128]", "[32, 127]"}},
    {"gpt2", CHANGE("\"n_embd\": 32", "\"n_embd\": 64"), {"wte.weight", "[96, 32]", "[96, 64]"}},
    {"vit", CHANGE("\"patch_size\": 4", "\"patch_size\": 5"), {"\"image_size\" is 16", "\"patch_size\", 5"}},
    {"vit", CHANGE("\"image_size\": 16", "\"image_size\": 20"), {"position_embeddings", "[1, 17, 32]", "[1, 26, 32]"}},
    {"vit", CHANGE("\"image_size\": 16", "\"image_size\": 2147483644"), {"position_embeddings", "[1, 17, 32]"}},
    {"vit", CHANGE("\"image_size\": 16", "\"image_size\": [16, 16]"), {"/image_size", "got an array"}},
    {"vit", CHANGE("\"num_channels\": 3", "\"num_channels\": 1"), {"[32, 3, 4, 4]", "[32, 1, 4, 4]", "num_channels"}},
    {"llama", CHANGE("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"), {CONFIG, "num_key_value_heads", "3"}},
    {"llama", CHANGE("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"), {"k_proj.weight", "[16, 32]", "[32, 32]"}},
    {"llama", CHANGE("\"head_dim\": 8", "\"head_dim\": 7"), {CONFIG, "7", "even"}},
    {"llama", CHANGE("\"head_dim\": 8", "\"head_dim\": 16"), {"q_proj.weight", "[32, 32]", "[64, 32]"}},
    /* numbers */
    {"bert", CHANGE("1e-12", "0"), {"/layer_norm_eps", "above 0", "got 0"}},
    {"bert", CHANGE("1e-12", "-1e-12"), {"/layer_norm_eps", "above 0"}},
    {"bert", CHANGE("1e-12", "\"1e-12\""), {"/layer_norm_eps", "expected a number, got a string"}},
    {"bert", CHANGE("\"is_decoder\": false", "\"is_decoder\": 0"), {"/is_decoder", "true or false"}},
    {"mistral", CHANGE("\"sliding_window\": 4", "\"sliding_window\": 0"), {"/sliding_window", "got 0"}},
    {"mistral", CHANGE("\"sliding_window\": 4", "\"sliding_window\": 1.5"), {"/sliding_window", "got 1.5"}},
    {"roberta", CHANGE("\"pad_token_id\": 1", "\"pad_token_id\": 23"), {"\"pad_token_id\" is 23", "24"}},
    {"roberta", CHANGE("\"pad_token_id\": 1", "\"pad_token_id\": -1"), {"/pad_token_id", "got -1"}},
    {"esm", CHANGE("\"mask_token_id\": 32", "\"mask_token_id\": 33"), {"\"mask_token_id\" is 33", "33 tokens"}},
    {"esm", GONE("mask_token_id"), {"\"mask_token_id\" is missing", "token_dropout"}},
    {"esm", {{CONFIG, "\"rotary\"", "\"absolute\""}, {CONFIG, "\"max_position_embeddings\"", "\"not\""}},
     {"\"max_position_embeddings\" is missing"}},
    {"esm", GONE("position_embedding_type"), {"position_embeddings.weight"}},
    /* activations */
    {"gpt2", CHANGE("\"gelu_new\"", "\"quick_gelu\""), {"/activation_function", "quick_gelu", "gelu_new"}},
    {"bert", CHANGE("\"gelu\"", "\"tanh\""), {"/hidden_act", "tanh"}},
    {"bert", CHANGE("\"gelu\"", "\"gelu\\u0000\""), {"/hidden_act", "gelu?"}},
    {"llama", CHANGE("\"silu\"", "\"relu\""), {"\"hidden_act\"", "relu", "gate"}},
    {"esm", CHANGE("\"model_type\"", "\"hidden_act\": \"relu\", \"model_type\""), {CONFIG ":", "/hidden_act", "\"relu\"", "expected gelu"}},
    {"t5", CHANGE("\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gated-relu\""), {"/feed_forward_proj", "gated-relu"}},
    {"t5", CHANGE("\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"mish\""), {"/feed_forward_proj", "mish"}},
    {"t5", CHANGE("\"dense_act_fn\": \"relu\"", "\"dense_act_fn\": \"silu\""), {"\"dense_act_fn\"", "feed_forward_proj"}},
    {"t5", CHANGE("\"is_gated_act\": false", "\"is_gated_act\": true"), {"\"is_gated_act\"", "feed_forward_proj"}},
    {"t5", {{CONFIG, "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gated-gelu\""},
            {CONFIG, "\"dense_act_fn\"", "\"x\""},
            {CONFIG, "\"is_gated_act\"", "\"y\""}},
     {"4 tensors are missing", "DenseReluDense.wi_1", "DenseReluDense.wi_0"}},
    /* positions */
    {"llama", CHANGE("\"rope_type\": \"llama3\"", "\"rope_type\": \"yarn\""), {CONFIG, "rope_parameters", "yarn", "linear"}},
    {"llama_linear_v4", CHANGE("\"rope_type\": \"linear\"", "\"type\": \"dynamic\""), {CONFIG, "rope_scaling", "dynamic"}},
    {"llama_linear_v4", CHANGE("\"rope_type\": \"linear\"", "\"x\": \"linear\""), {"rope_scaling", "no \"rope_type\""}},
    {"llama_linear_v4", CHANGE("\"factor\": 4.0", "\"x\": 4.0"), {"rope_scaling", "no \"factor\""}},
    {"llama_linear_v4", CHANGE("\"factor\": 4.0", "\"factor\": 0"), {"/rope_scaling/factor", "above 0"}},
    {"llama_linear_v4", CHANGE("\"rope_scaling\": {", "\"rope_scaling\": [], \"x\": {"), {"/rope_scaling", "got an array"}},
    {"llama", CHANGE("\"low_freq_factor\"", "\"x\""), {"no \"low_freq_factor\""}},
    {"llama", CHANGE("\"original_max_position_embeddings\"", "\"x\""), {"no \"original_max_position_embeddings\""}},
    {"llama", CHANGE("\"high_freq_factor\": 4.0", "\"high_freq_factor\": 1"), {"high_freq_factor", "1", "low_freq_factor"}},
    {"llama", CHANGE("\"rope_theta\": 10000.0", "\"rope_theta\": -1"), {"/rope_parameters/rope_theta", "above 0"}},
    {"llama", CHANGE("\"rope_theta\": 10000.0", "\"full_attention\": {\"rope_theta\": 1}"),
     {"/rope_parameters/full_attention"}},
    {"llama", CHANGE("\"rope_theta\": 10000.0", "\"partial_rotary_factor\": 1.5"), {"\"partial_rotary_factor\" is 1.5"}},
    {"llama", CHANGE("\"rope_theta\": 10000.0", "\"partial_rotary_factor\": 0.4"), {"3 of the 8"}},
    {"t5", CHANGE("\"relative_attention_num_buckets\": 8", "\"relative_attention_num_buckets\": 7"), {"is 7", "even"}},
    {"t5", CHANGE("\"relative_attention_num_buckets\": 8", "\"relative_attention_num_buckets\": 6"),
     {"relative_attention_bias", "[8, 4]", "[6, 4]"}},
    {"t5", CHANGE("\"relative_attention_max_distance\": 12", "\"relative_attention_max_distance\": 2"), {"is 2", "more than 2"}},
    {"qwen2", CHANGE("\"sliding_attention\"", "\"chunked_attention\""), {"/layer_types/1", "chunked_attention"}},
    {"qwen2", CHANGE("\"full_attention\",", ""), {"\"layer_types\" has 1", "expected 2"}},
    {"llama", CHANGE("\"rope_parameters\"", "\"layer_types\": [\"sliding_attention\", \"full_attention\"], \"rope_parameters\""),
     {"/layer_types/0", "sliding_attention"}},
    {"llama", CHANGE("\"model_type\"", "\"is_causal\": false, \"model_type\""), {"/is_causal"}},
    {"qwen2", CHANGE("\"model_type\"", "\"use_bidirectional_attention\": true, \"model_type\""), {"/use_bidirectional_attention"}},
    {"esm", CHANGE("\"is_decoder\": false", "\"is_decoder\": true"), {"/is_decoder"}},
    /* tensors */
    {"gpt2", {{MODEL, "\"wpe.weight\"", "\"wpx.weight\""}},
     {"1 tensor is missing", "\"wpe.weight\"", "did you mean \"wpx.weight\""}},
    {"llama", CHANGE("\"attention_bias\": false", "\"attention_bias\": true"), {"8 tensors are missing", "q_proj.bias"}},
    {"llama", CHANGE("\"mlp_bias\": false", "\"mlp_bias\": true"), {"6 tensors are missing", "down_proj.bias"}},
    {"bert", {{MODEL, "bert.encoder.layer.0.output.LayerNorm.gamma", "bert.encoder.layer.0.output.LayerNorm.gammb"}},
     {"1 tensor is missing", "encoder.layer.0.output.LayerNorm.weight"}},
    {"bert", {{MODEL, "cls.predictions.bias\"", "encoder.layer.0.output.LayerNorm.bias\""}},
     {"header"}}, /* another length: the file is not read at all */
    {"gpt2", {{MODEL, "\"F32\",\"shape\":[24,32]", "\"I32\",\"shape\":[24,32]"}}, {MODEL, "wpe.weight", "I32", "BF16"}},
    {"gpt2", {{MODEL, "\"shape\":[24,32]", "\"shape\":[32,24]"}}, {MODEL, "[32, 24]", "[24, 32]", "the other way round"}},
    {"gpt2", {{MODEL, "\"h.0.attn.c_attn.weight\"", "\"transformer.wpe.weight\""}},
     {"\"wpe.weight\"", "\"transformer.wpe.weight\"", "two names of one"}},
    /* of a frequency, 0.0999755859375 */
    {"esm", {{MODEL, "\xC0\xCC\x3D", "\xC1\xCC\x3D"}}, {"encoder.layer.1.attention.self.rotary", "differs"}},
    {"esm", {{MODEL, "\xC0\xCC\x3D", "\xC0\x80\xFF"}}, {"inv_freq\" holds a number at [1]", "finite"}},
    {"qwen2", {{"model-00002-of-00002.safetensors", NULL, NULL}}, {"model-00002-of-00002.safetensors", "No such file"}},
    {"qwen2", {{"model.safetensors.index.json", NULL, NULL}}, {"neither model.safetensors nor"}},
};

START_TEST(refused)
{
    const struct bad *bad = &bads[_i];
    struct model_source source;
    struct error error = {0};
    open_changed(bad->model, bad->changes, false, &source, &error);
    for (size_t i = 0; i < SIZE(bad->words) && bad->words[i]; i++)
        ck_assert_msg(strstr(error.message, bad->words[i]) != NULL, "\"%s\" is not in: %s", bad->words[i], error.message);
    ck_assert(error.has_pointer);
    ck_assert_str_eq(error.pointer, "/path");
}
END_TEST

START_TEST(no_folder)
{
    struct model_source source;
    struct error error = {0};
    model_folder_empty();
    char *path = model_folder_path("nowhere");
    ck_assert(!huggingface_source_open(path, &source, &error));
    ck_assert_int_eq(error.code, ERROR_IO);
    ck_assert_str_eq(error.message, "it cannot be opened: No such file or directory");
    model_folder_write("nowhere", "", 0);
    ck_assert(!huggingface_source_open(path, &source, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "expected a folder"));
    free(path);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/huggingface");
    TCase *tcase = tcase_create("models");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_loop_test(tcase, tiny_models, 0, MODELS);
    tcase_add_test(tcase, all_of_them);
    tcase_add_loop_test(tcase, keys, 0, (int)SIZE(goods));
    tcase_add_test(tcase, many_labels);
    tcase_add_loop_test(tcase, refused, 0, (int)SIZE(bads));
    tcase_add_test(tcase, no_folder);
    suite_add_tcase(suite, tcase);
    return suite;
}
