/* Sets written out in the configuration: every tensor where an independent program says it is, and every fault at its
 * place in the entry. */
#include "suite.h"

#include "golden_tensors.h"
#include "model_file.h"
#include "weights/blocks_source.h"
#include "weights/model_load.h"

#include <stdlib.h>
#include <string.h>

#define SETS    7
#define SIZE(a) (sizeof(a) / sizeof *(a))

/* ---- the rules of layers are read by other code; this stands for it */

static bool read_position(void *context, struct json_reader *r, const struct attention_shape *shape,
                          struct position_rule *rule, struct error *error)
{
    ++*(unsigned *)context;
    ck_assert_uint_gt(shape->d_model, 0);
    if (json_peek(r) != JSON_OBJECT)
        return json_type_error(r, error, "a position");
    *rule = (struct position_rule){.kind = POSITION_ALIBI};
    return json_ignore(r, error);
}

static bool read_pattern(void *context, struct json_reader *r, const struct attention_shape *shape,
                         struct pattern_rule *rule, struct error *error)
{
    struct json_key key;
    int64_t number;
    ++*(unsigned *)context;
    ck_assert_uint_gt(shape->num_heads, 0);
    *rule = (struct pattern_rule){.kind = PATTERN_WINDOW};
    if (!json_enter_object(r, error))
        return false;
    while (json_next_member(r, &key, error) == JSON_ITEM) {
        const bool left = json_key_is(&key, "left"), right = json_key_is(&key, "right");
        if (left || right) {
            if (!json_read_integer(r, 0, 1000, &number, error))
                return false;
            *(left ? &rule->left : &rule->right) = (size_t)number;
        } else if (!json_ignore(r, error)) {
            return false;
        }
    }
    return true;
}

static unsigned rules_met;
static const struct blocks_rules rules = {read_position, read_pattern, &rules_met};

/* ---- golden sets */

static struct weights_text text_of(const char *name, const char *member, char *owned[], size_t *count)
{
    char *text = golden_tensors_entry(name, member);
    if (text)
        owned[(*count)++] = text;
    return (struct weights_text){text, text ? strlen(text) : 0, 1};
}

static double number_of(const char *name, const char *member)
{
    char *text = golden_tensors_entry(name, member);
    const double number = text ? strtod(text, NULL) : 0;
    free(text);
    return number;
}

START_TEST(golden_sets)
{
    const char *name = golden_tensors_name((size_t)_i, true);
    struct model_source source;
    struct error error = {0};
    char *owned[8];
    size_t count = 0;
    ck_assert_ptr_nonnull(name);
    char *layout = golden_tensors_entry(name, "layout");
    const struct weights_config entry = {
        .source = WEIGHTS_SAFETENSORS,
        .path = golden_tensors_path(name),
        .layout = layout && strstr(layout, "out_in") ? LAYOUT_OUT_IN : LAYOUT_IN_OUT,
        .d_model = (size_t)number_of(name, "d_model"),
        .num_heads = (size_t)number_of(name, "num_heads"),
        .num_kv_heads = (size_t)number_of(name, "num_kv_heads"),
        .d_k = (size_t)number_of(name, "d_k"),
        .d_v = (size_t)number_of(name, "d_v"),
        .has_scale = number_of(name, "scale") > 0,
        .scale = number_of(name, "scale"),
    };
    const struct blocks_config config = {
        .entry = &entry,
        .num_layers = (size_t)number_of(name, "num_layers"),
        .layer = text_of(name, "layer", owned, &count),
        .layers = text_of(name, "layers", owned, &count),
        .embeddings = text_of(name, "embeddings", owned, &count),
        .final_norm = text_of(name, "final_norm", owned, &count),
    };
    ck_assert_msg(blocks_source_open(&config, &rules, &source, &error), "%s: %s: %s", name, error.pointer,
                  error.message);
    while (count > 0)
        free(owned[--count]); /* nothing points into the texts any more */
    golden_tensors_check(&source, name);
    ck_assert(!source.causal && source.position.kind == POSITION_NONE);
    model_source_free(&source);
    free(entry.path);
    free(layout);
}
END_TEST

START_TEST(all_of_them)
{
    ck_assert_ptr_nonnull(golden_tensors_name(SETS - 1, true));
    ck_assert_ptr_null(golden_tensors_name(SETS, true));
}
END_TEST

/* ---- a set of the test's own: d_model 4, 2 heads of d_k 3 and d_v 1, feed-forward of 5, two layers */

static double numbers[64];

static const struct file_tensor tensors[] = {
    {"q", "F32", 2, {4, 6}, numbers},
    {"k", "F32", 2, {4, 6}, numbers},
    {"v", "F32", 2, {4, 2}, numbers},
    {"o", "F32", 2, {2, 4}, numbers},
    {"bq", "F32", 1, {6, 0}, numbers},
    {"qkv", "F32", 2, {4, 14}, numbers},
    {"bqkv", "F32", 1, {14, 0}, numbers},
    {"q.h0", "F32", 2, {4, 3}, numbers},
    {"q.h1", "F32", 2, {4, 3}, numbers + 12},
    {"bq.h0", "F32", 1, {3, 0}, numbers},
    {"bq.h1", "F32", 1, {3, 0}, numbers},
    {"up", "F32", 2, {4, 5}, numbers},
    {"up.1", "F32", 2, {4, 3}, numbers},
    {"down", "F32", 2, {5, 4}, numbers},
    {"down.1", "F32", 2, {3, 4}, numbers},
    {"b5", "F32", 1, {5, 0}, numbers},
    {"b4", "F32", 1, {4, 0}, numbers},
    {"tok", "F32", 2, {7, 4}, numbers},
    {"wide", "F32", 2, {7, 6}, numbers},
    {"pos", "F32", 2, {3, 4}, numbers},
    {"proj", "F32", 2, {6, 4}, numbers},
    {"ints", "I32", 2, {4, 6}, numbers},
    {"l.0.\xC3\xA9", "F32", 1, {4, 0}, numbers},
    {"l.1.\xC3\xA9", "F32", 1, {4, 0}, numbers},
};

struct texts {
    const char *layer, *layers, *embeddings, *final_norm;
    size_t num_layers, d_model; /* 0: 2, and W_Q's */
    enum weights_layout layout;
};

static struct weights_text text(const char *from)
{
    return (struct weights_text){(char *)from, from ? strlen(from) : 0, 1};
}

#define PLAIN "\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"}"

static bool open_own(const struct texts *texts, struct model_source *source, struct error *error)
{
    for (size_t i = 0; i < SIZE(numbers); i++)
        numbers[i] = (double)i;
    struct model_file file = model_file_compose(tensors, SIZE(tensors));
    model_folder_write_file("set.safetensors", &file);
    model_file_free(&file);
    const struct weights_config entry = {.source = WEIGHTS_SAFETENSORS,
                                         .path = model_folder_path("set.safetensors"),
                                         .layout = texts->layout,
                                         .d_model = texts->d_model,
                                         .num_heads = 2,
                                         .d_k = 3,
                                         .d_v = 1};
    const struct blocks_config config = {.entry = &entry,
                                         .num_layers = texts->num_layers ? texts->num_layers : 2,
                                         .layer = text(texts->layer),
                                         .layers = text(texts->layers),
                                         .embeddings = text(texts->embeddings),
                                         .final_norm = text(texts->final_norm)};
    rules_met = 0;
    const bool opened = blocks_source_open(&config, &rules, source, error);
    free(entry.path);
    return opened;
}

static struct model_source open_good(const struct texts *texts)
{
    struct model_source source;
    struct error error = {0};
    ck_assert_msg(open_own(texts, &source, &error), "%s: %s", error.pointer, error.message);
    return source;
}

static float number_at(const struct tensor_place *place, size_t row, size_t column)
{
    struct error error = {0};
    float read[64];
    ck_assert_uint_le(place->rows * place->columns, SIZE(read));
    ck_assert_msg(tensor_place_read(place, read, place->columns, &error), "%s", error.message);
    return read[row * place->columns + column];
}

START_TEST(defaults)
{
    struct model_source source = open_good(&(struct texts){.layer = "{" PLAIN "}"});
    const struct layer_shape *layer = &source.shape.layers[1];
    ck_assert_uint_eq(source.shape.attention.d_model, 4); /* W_Q's */
    ck_assert_uint_eq(source.shape.num_layers, 2);
    ck_assert_int_eq(layer->placement, PLACEMENT_PRE);
    ck_assert(layer->residual && !layer->own_causal && !layer->own_position && !layer->own_pattern);
    ck_assert_int_eq(layer->norm1.kind, NORM_NONE);
    ck_assert_int_eq(layer->ffn.kind, FFN_NONE);
    ck_assert_float_eq(layer->scale, source.shape.attention.scale);
    ck_assert(!source.shape.embeddings.present);
    ck_assert_int_eq(source.shape.final_norm.kind, NORM_NONE);
    ck_assert(source_leaves(&source, "qkv"));
    model_source_free(&source);
}
END_TEST

START_TEST(fused_and_by_head)
{
    struct model_source source =
        open_good(&(struct texts){.layer = "{\"tensors\": {\"W_QKV\": \"qkv\", \"b_QKV\": \"bqkv\", \"W_O\": \"o\"}}",
                                  .layers = "[{}, {\"tensors\": {\"W_Q\": \"q.h{head}\", \"b_Q\": \"bq.h{head}\", "
                                            "\"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"}}]"});
    const struct tensor_place *fused = source.layers[0], *apart = source.layers[1];
    ck_assert_float_eq(number_at(&fused[SLOT_W_Q], 1, 5), 14 + 5);
    ck_assert_float_eq(number_at(&fused[SLOT_W_K], 2, 0), 28 + 6);
    ck_assert_float_eq(number_at(&fused[SLOT_W_V], 3, 1), 42 + 13);
    ck_assert_float_eq(number_at(&fused[SLOT_B_V], 0, 0), 12);
    ck_assert_uint_eq(fused[SLOT_W_V].columns, 2);
    ck_assert(source.shape.layers[0].bias_k && !source.shape.layers[0].bias_o);
    ck_assert_uint_eq(apart[SLOT_W_Q].head_count, 2);
    ck_assert_float_eq(number_at(&apart[SLOT_W_Q], 1, 2), 3 + 2);
    ck_assert_float_eq(number_at(&apart[SLOT_W_Q], 1, 3), 12 + 3);
    ck_assert_float_eq(number_at(&apart[SLOT_B_Q], 0, 4), 1);
    ck_assert(source.shape.layers[1].bias_q && !source.shape.layers[1].bias_k);

    struct error error = {0};
    char digest[DIGEST_TEXT_BYTES], again[DIGEST_TEXT_BYTES];
    ck_assert(engine_init(NULL, &error));
    for (size_t i = 0; i < 2; i++) {
        struct model *model = model_load(&source, 1, i ? again : digest, &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        model_free(model);
    }
    ck_assert_str_eq(digest, again);
    model_source_free(&source);
}
END_TEST

/* What a layer's own entry gives stands in the other's place, whole. */
START_TEST(laid_over)
{
    struct model_source source = open_good(
        &(struct texts){.layer = "{" PLAIN ", \"placement\": \"post\", \"residual\": false, \"causal\": true, "
                                 "\"norm1\": {\"kind\": \"layer_norm\", \"gain\": \"l.{layer}.\\u00e9\", \"bias\": "
                                 "\"b4\", \"eps\": 0.25}, "
                                 "\"norm2\": {\"kind\": \"rms_norm\", \"gain\": \"b4\"}, "
                                 "\"ffn\": {\"kind\": \"relu\", \"W_1\": \"up\", \"b_1\": \"b5\", \"W_2\": \"down\"}}",
                        .layers = "[{\"scale\": 0.5, \"pattern\": {\"left\": 3, \"right\": 1}, \"position\": null}, "
                                  "{\"placement\": \"pre\", \"residual\": true, \"causal\": null, "
                                  "\"norm1\": {\"kind\": \"layer_norm\", \"gain\": \"b4\"}, \"ffn\": null, "
                                  "\"pattern\": null, \"position\": {\"kind\": \"alibi\"}}]"});
    const struct layer_shape *first = &source.shape.layers[0], *second = &source.shape.layers[1];
    ck_assert_int_eq(first->placement, PLACEMENT_POST);
    ck_assert(!first->residual && first->own_causal && first->causal && first->norm1.bias);
    ck_assert_float_eq(first->norm1.eps, 0.25F);
    ck_assert_float_eq(first->norm2.eps, 1e-5F);
    ck_assert_float_eq(first->scale, 0.5F);
    ck_assert_int_eq(first->ffn.kind, FFN_RELU);
    ck_assert_uint_eq(first->ffn.d_ff, 5);
    ck_assert(first->own_pattern && first->pattern.left == 3 && first->pattern.right == 1);
    ck_assert(first->own_position && first->position.kind == POSITION_NONE);
    ck_assert_str_eq(source.layers[0][SLOT_NORM1_GAIN].entry->name, "l.0.\xC3\xA9");

    ck_assert_int_eq(second->placement, PLACEMENT_PRE);
    ck_assert(second->residual && second->own_causal && !second->causal && !second->norm1.bias);
    ck_assert_float_eq(second->norm1.eps, 1e-5F);
    ck_assert_float_eq(second->scale, source.shape.attention.scale);
    ck_assert_int_eq(second->ffn.kind, FFN_NONE);
    ck_assert_int_eq(second->norm2.kind, NORM_NONE); /* it stands around the feed-forward */
    ck_assert(second->own_pattern && second->pattern.kind == PATTERN_FULL);
    ck_assert(second->own_position && second->position.kind == POSITION_ALIBI);
    ck_assert_uint_eq(rules_met, 2);
    model_source_free(&source);
}
END_TEST

/* Each layer's feed-forward has its own width. */
START_TEST(widths)
{
    struct model_source source = open_good(
        &(struct texts){.layer = "{" PLAIN ", \"ffn\": {\"kind\": \"silu\", \"W_1\": \"up\", \"W_2\": \"down\"}}",
                        .layers = "[{}, {\"ffn\": {\"kind\": \"silu\", \"W_1\": \"up.{layer}\", \"W_2\": "
                                  "\"down.{layer}\"}}]"});
    ck_assert_uint_eq(source.shape.layers[0].ffn.d_ff, 5);
    ck_assert_uint_eq(source.shape.layers[1].ffn.d_ff, 3);
    model_source_free(&source);
}
END_TEST

START_TEST(embeddings)
{
    struct model_source source = open_good(&(struct texts){
        .layer = "{" PLAIN "}",
        .embeddings = "{\"token\": \"wide\", \"scale\": 2, \"projection\": {\"W\": \"proj\", \"b\": \"b4\"}}",
        .final_norm = "{\"kind\": \"rms_norm\", \"gain\": \"b4\", \"bias\": \"b4\"}"});
    const struct embeddings_shape *e = &source.shape.embeddings;
    ck_assert(e->present && e->projection && e->projection_bias);
    ck_assert_uint_eq(e->vocabulary, 7);
    ck_assert_uint_eq(e->width, 6);
    ck_assert_float_eq(e->scale, 2);
    ck_assert_float_eq(number_at(&source.model[SLOT_PROJECTION_W], 1, 2), 6);
    ck_assert(source.shape.final_norm.bias);
    model_source_free(&source);

    source = open_good(&(struct texts){
        .layer = "{" PLAIN "}", .embeddings = "{\"token\": \"tok\", \"position\": \"pos\", \"position_offset\": 2}"});
    ck_assert_uint_eq(source.shape.embeddings.positions, 3);
    ck_assert_uint_eq(source.shape.embeddings.position_offset, 2);
    ck_assert_float_eq(source.shape.embeddings.scale, 1);
    model_source_free(&source);
}
END_TEST

#define LAYER(more)                      \
    {                                    \
        .layer = "{" PLAIN ", " more "}" \
    }
#define LAYERS(list)                           \
    {                                          \
        .layer = "{" PLAIN "}", .layers = list \
    }
#define EMBEDDINGS(text)                           \
    {                                              \
        .layer = "{" PLAIN "}", .embeddings = text \
    }
#define FINAL(text)                                \
    {                                              \
        .layer = "{" PLAIN "}", .final_norm = text \
    }
#define FFN(members)  LAYER("\"ffn\": {" members "}")
#define NORM(members) LAYER("\"norm1\": {" members "}")

static const struct block_fault {
    struct texts texts;
    const char *pointer, *words[3];
} faults[] = {
    {{.layer = NULL}, "", {"missing \"layer\""}},
    {{.layer = "[]"}, "/layer", {"expected an object"}},
    {{.layer = "{}"}, "/layer", {"missing \"tensors\""}},
    {{.layer = "{\"tensors\": {}}"}, "/layer/tensors", {"missing \"W_Q\""}},
    {{.layer = "{\"tensors\": {\"W_QKV\": \"qkv\"}}"}, "/layer/tensors", {"missing \"W_O\""}},
    {{.layer = "{\"tensors\": {\"W_QKV\": \"qkv\", \"W_K\": \"k\", \"W_O\": \"o\"}}"},
     "/layer/tensors",
     {"\"W_K\" may not"}},
    {{.layer = "{\"tensors\": {\"W_QKV\": \"q{head}\", \"W_O\": \"o\"}}"}, "/layer/tensors", {"\"W_QKV\"", "{head}"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o{head}\"}}"},
     "/layer/tensors",
     {"\"W_O\"", "{head}"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"\"}}"}, "/layer/tensors/W_Q", {"got \"\""}},
    {{.layer = "{\"tensors\": {\"W_Q\": 1}}"}, "/layer/tensors/W_Q", {"expected a string"}},
    {{.layer = "{\"tensors\": {\"W_q\": \"q\"}}"}, "/layer/tensors/W_q", {"did you mean \"W_Q\""}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"qq{layer}\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_Q",
     {"no tensor \"qq0\""}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"kk\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_K",
     {"no tensor \"kk\"", "did you mean \"k\""}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"v\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_K",
     {"\"v\" has shape [4, 2]", "expected [4, 6]", "num_kv_heads * d_k"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"ints\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_K",
     {"\"ints\" has dtype I32", "BF16"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\", \"b_K\": \"b5\"}}"},
     "/layer/tensors/b_K",
     {"[5]", "[6]"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"b4\", \"W_K\": \"k\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_Q",
     {"1 axes", "expected a matrix"}},
    {{.layer = "{\"tensors\": {\"W_Q\": \"q.h{head}\", \"W_K\": \"q.k{head}\", \"W_V\": \"v\", \"W_O\": \"o\"}}"},
     "/layer/tensors/W_K",
     {"no tensor \"q.k0\""}},
    {{.layer = "{" PLAIN "}", .d_model = 4, .layout = LAYOUT_OUT_IN},
     "/layer/tensors/W_Q",
     {"[4, 6]", "[6, 4]", "the other way round"}},
    {{.layer = "{" PLAIN "}", .d_model = 5}, "/layer/tensors/W_Q", {"[4, 6]", "[5, 6]"}},
    {{.layer = "{" PLAIN "}", .num_layers = 4097}, "/num_layers", {"4097", "1 to 4096"}},
    {LAYER("\"tensors\": {}"), "/layer/tensors", {"twice"}},
    {LAYER("\"placment\": \"pre\""), "/layer/placment", {"did you mean \"placement\""}},
    {LAYER("\"placement\": \"per\""), "/layer/placement", {"\"per\"", "\"pre\""}},
    {LAYER("\"residual\": 1"), "/layer/residual", {"true or false"}},
    {LAYER("\"causal\": 1"), "/layer/causal", {"true or false"}},
    {LAYER("\"scale\": \"1\""), "/layer/scale", {"expected a number"}},
    {LAYER("\"scale\": 1e39"), "/layer/scale", {"1e+39", "float32"}},
    {LAYER("\"position\": 5"), "/layer/position", {"a position"}},
    {LAYER("\"pattern\": {\"kind\": \"window\", \"left\": -1}"), "/layer/pattern/left", {"got -1"}},
    {NORM(""), "/layer/norm1", {"missing \"kind\""}},
    {NORM("\"kind\": \"layer_norm\""), "/layer/norm1", {"missing \"gain\""}},
    {NORM("\"kind\": \"none\", \"gain\": \"b4\""), "/layer/norm1", {"none"}},
    {NORM("\"kind\": \"layernorm\", \"gain\": \"b4\""), "/layer/norm1/kind", {"did you mean \"layer_norm\""}},
    {NORM("\"kind\": \"layer_norm\", \"gain\": \"b5\""), "/layer/norm1/gain", {"[5]", "[4]", "d_model"}},
    {NORM("\"kind\": \"layer_norm\", \"gain\": \"b4\", \"bias\": \"b5\""), "/layer/norm1/bias", {"[5]", "[4]"}},
    {NORM("\"kind\": \"layer_norm\", \"gain\": \"b4\", \"eps\": 0"), "/layer/norm1/eps", {"above 0"}},
    {NORM("\"kind\": \"layer_norm\", \"gain\": \"b4\", \"eps\": 1e39"), "/layer/norm1/eps", {"float32"}},
    {FFN(""), "/layer/ffn", {"missing \"kind\""}},
    {FFN("\"kind\": \"gelu\""), "/layer/ffn", {"missing \"W_1\""}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"up\""), "/layer/ffn", {"missing \"W_2\""}},
    {FFN("\"kind\": \"swiglu\", \"W_1\": \"up\", \"W_2\": \"down\""), "/layer/ffn", {"missing \"W_gate\""}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"up\", \"W_2\": \"down\", \"W_gate\": \"up\""),
     "/layer/ffn",
     {"\"W_gate\"", "gated"}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"up\", \"W_2\": \"down\", \"b_gate\": \"b5\""),
     "/layer/ffn",
     {"\"b_gate\"", "gated"}},
    {FFN("\"kind\": \"none\", \"W_1\": \"up\""), "/layer/ffn", {"none"}},
    {FFN("\"kind\": \"tanh\", \"W_1\": \"up\", \"W_2\": \"down\""), "/layer/ffn/kind", {"\"tanh\""}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"upp\", \"W_2\": \"down\""), "/layer/ffn/W_1", {"no tensor \"upp\"", "\"up\""}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"up\", \"W_2\": \"up\""), "/layer/ffn/W_2", {"[4, 5]", "[5, 4]"}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"down\", \"W_2\": \"up\""), "/layer/ffn/W_1", {"[5, 4]", "[4, 4]"}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"b5\", \"W_2\": \"up\""), "/layer/ffn/W_1", {"expected a matrix"}},
    {FFN("\"kind\": \"gelu\", \"W_1\": \"up\", \"W_2\": \"down\", \"b_2\": \"b5\""), "/layer/ffn/b_2", {"[5]", "[4]"}},
    {FFN("\"kind\": \"geglu\", \"W_1\": \"up\", \"W_2\": \"down\", \"W_gate\": \"up.1\""),
     "/layer/ffn/W_gate",
     {"[4, 3]", "[4, 5]"}},
    {LAYERS("{}"), "/layers", {"expected an array"}},
    {LAYERS("[{}]"), "/layers", {"1 layers", "2"}},
    {LAYERS("[{}, {}, {}]"), "/layers/2", {"more than num_layers, 2"}},
    {LAYERS("[{}, []]"), "/layers/1", {"expected an object"}},
    {LAYERS("[{}, {\"ffn\": {\"kind\": \"relu\", \"W_1\": \"up\", \"W_2\": \"down.1\"}}]"),
     "/layers/1/ffn/W_2",
     {"[3, 4]", "[5, 4]"}},
    {LAYERS("[{}, {\"pattern\": {\"left\": \"x\"}}]"), "/layers/1/pattern/left", {"got a string"}},
    {LAYERS("[{}, {\"tensors\": {\"W_Q\": \"q\"}}]"), "/layers/1/tensors", {"missing \"W_K\""}},
    {EMBEDDINGS("{}"), "/embeddings", {"missing \"token\""}},
    {EMBEDDINGS("{\"token\": \"toc\"}"), "/embeddings/token", {"did you mean \"tok\""}},
    {EMBEDDINGS("{\"token\": \"wide\"}"), "/embeddings/token", {"[7, 6]", "[7, 4]"}},
    {EMBEDDINGS("{\"token\": \"b4\"}"), "/embeddings/token", {"expected a matrix"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"position\": \"wide\"}"), "/embeddings/position", {"[7, 6]", "[7, 4]"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"type\": \"q\"}"), "/embeddings/type", {"[4, 6]", "[4, 4]"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"position\": \"pos\", \"position_offset\": 3}"),
     "/embeddings/position_offset",
     {"row 3", "3 rows"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"position_offset\": 3}"), "/embeddings", {"\"position_offset\""}},
    {EMBEDDINGS("{\"token\": \"tok\", \"position\": \"pos\", \"position_offset\": 1.5}"),
     "/embeddings/position_offset",
     {"1.5"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"scale\": 0}"), "/embeddings/scale", {"above 0"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"projection\": {}}"), "/embeddings/projection", {"missing \"W\""}},
    {EMBEDDINGS("{\"token\": \"tok\", \"projection\": {\"W\": \"proj\"}}"),
     "/embeddings/projection/W",
     {"[6, 4]", "[4, 4]"}},
    {EMBEDDINGS("{\"token\": \"wide\", \"projection\": {\"W\": \"proj\", \"b\": \"b5\"}}"),
     "/embeddings/projection/b",
     {"[5]", "[4]"}},
    {EMBEDDINGS("{\"token\": \"tok\", \"norm\": {\"kind\": \"rms_norm\", \"gain\": \"b5\"}}"),
     "/embeddings/norm/gain",
     {"[5]", "[4]"}},
    {FINAL("{\"kind\": \"rms_norm\"}"), "/final_norm", {"missing \"gain\""}},
    {FINAL("{\"kind\": \"rms_norm\", \"gain\": \"l.{layer}.x\"}"), "/final_norm/gain", {"no tensor \"l.0.x\""}},
    {FINAL("7"), "/final_norm", {"expected an object"}},
};

START_TEST(refused)
{
    const struct block_fault *fault = &faults[_i];
    struct model_source source;
    struct error error = {0};
    ck_assert_msg(!open_own(&fault->texts, &source, &error), "%s was opened", fault->pointer);
    ck_assert(error.has_pointer);
    ck_assert_msg(strcmp(error.pointer, fault->pointer) == 0, "%s: %s, expected at %s", error.pointer, error.message,
                  fault->pointer);
    for (size_t i = 0; i < SIZE(fault->words) && fault->words[i]; i++)
        ck_assert_msg(strstr(error.message, fault->words[i]) != NULL, "\"%s\" is not in: %s", fault->words[i],
                      error.message);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("weights/blocks_source");
    TCase *tcase = tcase_create("blocks");
    tcase_add_unchecked_fixture(tcase, model_folder_make, model_folder_remove);
    tcase_add_loop_test(tcase, golden_sets, 0, SETS);
    tcase_add_test(tcase, all_of_them);
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, fused_and_by_head);
    tcase_add_test(tcase, laid_over);
    tcase_add_test(tcase, widths);
    tcase_add_test(tcase, embeddings);
    tcase_add_loop_test(tcase, refused, 0, (int)SIZE(faults));
    suite_add_tcase(suite, tcase);
    return suite;
}
