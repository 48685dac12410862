/* Reads golden/models/tensors.json and compares. One thread. */
#include "golden_tensors.h"

#include "base/text.h"
#include "golden.h"
#include "weights/model_digest.h"
#include "weights/model_load.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *all(void)
{
    static json_t *sets; /* each test is a process of its own */
    if (!sets)
        sets = golden_load("models/tensors.json");
    return sets;
}

const char *golden_tensors_name(size_t index, bool blocks)
{
    const char *name;
    json_t *set;
    json_object_foreach(all(), name, set)
    {
        if ((json_object_get(set, "entry") != NULL) == blocks && index-- == 0)
            return name;
    }
    return NULL;
}

char *golden_tensors_entry(const char *name, const char *member)
{
    const json_t *value = json_object_get(json_object_get(json_object_get(all(), name), "entry"), member);
    return value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
}

char *golden_tensors_path(const char *name)
{
    const json_t *entry = json_object_get(json_object_get(all(), name), "entry");
    char *relative, *path;
    if (asprintf(&relative, "models/blocks/%s", json_string_value(json_object_get(entry, "path"))) < 0)
        abort();
    path = golden_path(relative);
    free(relative);
    return path;
}

static void near(double got, double want, const char *set, const char *what)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 + 1e-9 * fabs(want), "%s: %s is %.17g, expected %.17g", set, what, got,
                  want);
}

static double number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_true(value) ? 1 : json_number_value(value); /* null and false: 0 */
}

/* One tensor: its numbers as `x @ W` has them. */
static void check_place(const struct tensor_place *place, const json_t *want, const char *set, const char *what)
{
    struct error error = {0};
    if (!want) {
        ck_assert_msg(!place->file && !place->entry, "%s: %s is there", set, what);
        return;
    }
    ck_assert_msg(place->file && place->entry, "%s: %s is not there", set, what);
    ck_assert_uint_eq(place->rows, (size_t)json_integer_value(json_array_get(want, 0)));
    ck_assert_uint_eq(place->columns, (size_t)json_integer_value(json_array_get(want, 1)));
    /* In lines that are longer, with a mark between them that must stay. */
    const size_t stride = place->columns + 3;
    float *numbers = malloc(place->rows * stride * sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    for (size_t i = 0; i < place->rows * stride; i++)
        numbers[i] = 123;
    ck_assert_msg(tensor_place_read(place, numbers, stride, &error), "%s: %s: %s", set, what, error.message);
    double sum = 0, mixed = 0;
    for (size_t i = 0, n = 0; i < place->rows; i++) {
        for (size_t j = 0; j < place->columns; j++, n++) {
            const double value = (double)numbers[i * stride + j];
            sum += value;
            mixed += value * ((double)(uint32_t)(n * 2654435761U) / 4294967296.0 - 0.5);
        }
        for (size_t j = place->columns; j < stride; j++)
            ck_assert_float_eq(numbers[i * stride + j], 123);
    }
    free(numbers);
    near(sum, json_number_value(json_array_get(want, 2)), set, what);
    near(mixed, json_number_value(json_array_get(want, 3)), set, what);
}

static void check_norm(const struct norm_shape *norm, const json_t *want, const char *set, const char *what)
{
    static const char *const names[] = {[NORM_NONE] = "none", [NORM_LAYER] = "layer_norm", [NORM_RMS] = "rms_norm"};
    ck_assert_str_eq(names[norm->kind], json_string_value(json_object_get(want, "kind")));
    ck_assert_float_eq(norm->eps, (float)number(want, "eps"));
    ck_assert_msg(norm->bias == (number(want, "bias") != 0), "%s: %s", set, what);
}

static void check_layer(const struct model_source *source, size_t n, const json_t *want, const json_t *tensors,
                        const char *set)
{
    static const char *const slots[] = {
#define NAME(code, name) [code] = name,
        LAYER_SLOTS(NAME)
#undef NAME
    };
    static const char *const kinds[] = {
#define NAME(code, name, activation, gated) [code] = name,
        FFN_KINDS(NAME)
#undef NAME
    };
    const struct layer_shape *layer = &source->shape.layers[n];
    const struct tensor_place *places = source->layers[n];
    for (size_t slot = 0; slot < LAYER_SLOT_COUNT; slot++)
        check_place(&places[slot], json_object_get(tensors, slots[slot]), set, slots[slot]);
    ck_assert_str_eq(layer->placement == PLACEMENT_PRE ? "pre" : "post",
                     json_string_value(json_object_get(want, "placement")));
    ck_assert(layer->residual == (number(want, "residual") != 0));
    ck_assert_float_eq(layer->scale, (float)number(want, "scale"));
    check_norm(&layer->norm1, json_object_get(want, "norm1"), set, "norm1");
    check_norm(&layer->norm2, json_object_get(want, "norm2"), set, "norm2");
    ck_assert_str_eq(kinds[layer->ffn.kind], json_string_value(json_object_get(want, "ffn")));
    ck_assert_uint_eq(layer->ffn.d_ff, places[SLOT_W_1].columns);
    ck_assert(layer->ffn.bias_1 == (places[SLOT_B_1].file != NULL));
    ck_assert(layer->ffn.bias_gate == (places[SLOT_B_GATE].file != NULL));
    ck_assert(layer->ffn.bias_2 == (places[SLOT_B_2].file != NULL));
    ck_assert(layer->bias_q == (places[SLOT_B_Q].file != NULL));
    ck_assert(layer->bias_k == (places[SLOT_B_K].file != NULL));
    ck_assert(layer->bias_v == (places[SLOT_B_V].file != NULL));
    ck_assert(layer->bias_o == (places[SLOT_B_O].file != NULL));
    const json_t *window = json_object_get(want, "window");
    ck_assert_msg(layer->own_pattern == json_is_array(window), "%s: pattern of layer %zu", set, n);
    if (layer->own_pattern) {
        ck_assert_int_eq(layer->pattern.kind, PATTERN_WINDOW);
        ck_assert_uint_eq(layer->pattern.left, (size_t)json_integer_value(json_array_get(window, 0)));
        ck_assert_uint_eq(layer->pattern.right, (size_t)json_integer_value(json_array_get(window, 1)));
    }
    ck_assert(!layer->own_causal && !layer->own_position);
}

static void check_embeddings(const struct model_source *source, const json_t *want, const char *set)
{
    const struct embeddings_shape *e = &source->shape.embeddings;
    const struct tensor_place *places = source->model;
    ck_assert(e->present == (want != NULL));
    if (!want)
        return;
    check_norm(&e->norm, json_object_get(want, "norm"), set, "embeddings.norm");
    ck_assert_float_eq(e->scale, (float)number(want, "scale"));
    ck_assert_uint_eq(e->position_offset, (size_t)number(want, "position_offset"));
    ck_assert(e->count_padding_id == json_is_integer(json_object_get(want, "padding_id")));
    ck_assert_uint_eq(e->padding_id, (uint32_t)number(want, "padding_id"));
    ck_assert(e->token_dropout == json_is_integer(json_object_get(want, "mask_token")));
    ck_assert_uint_eq(e->mask_token, (uint32_t)number(want, "mask_token"));
    ck_assert(e->zero_padding == (number(want, "zero_padding") != 0));
    ck_assert_uint_eq(e->vocabulary, places[SLOT_TOKEN].rows);
    ck_assert_uint_eq(e->positions, places[SLOT_POSITION].rows);
    ck_assert_uint_eq(e->types, places[SLOT_TYPE].rows);
    ck_assert_uint_eq(e->width, places[places[SLOT_TOKEN].file ? SLOT_TOKEN : SLOT_POSITION].columns);
    ck_assert(e->projection == (places[SLOT_PROJECTION_W].file != NULL));
    ck_assert(e->projection_bias == (places[SLOT_PROJECTION_B].file != NULL));
    ck_assert_uint_eq(e->channels * e->patch_size * e->patch_size, places[SLOT_PATCH_W].rows);
}

static void check_floats(const float *got, const json_t *want, const char *set, const char *what)
{
    size_t i;
    json_t *value;
    ck_assert_msg((got != NULL) == json_is_array(want), "%s: %s", set, what);
    json_array_foreach(want, i, value) ck_assert_float_eq(got[i], (float)json_number_value(value));
}

static void check_position(const struct model_source *source, const json_t *want, const char *set)
{
    const struct position_rule *rule = &source->position;
    const json_t *scaling = json_object_get(want, "scaling");
    const char *kind = want ? json_string_value(json_object_get(want, "kind")) : "none",
               *scaled = scaling ? json_string_value(json_object_get(scaling, "kind")) : "none";
    ck_assert_int_eq(rule->kind, strcmp(kind, "rope") == 0 ? POSITION_ROPE
                                 : strcmp(kind, "t5") == 0 ? POSITION_T5
                                                           : POSITION_NONE);
    if (rule->kind == POSITION_ROPE) {
        ck_assert_double_eq(rule->base, number(want, "base"));
        ck_assert_uint_eq(rule->dims, want && json_object_get(want, "dims") ? (size_t)number(want, "dims")
                                                                            : source->shape.attention.d_k);
    }
    ck_assert(!rule->interleaved);
    ck_assert_int_eq(rule->scaling, strcmp(scaled, "llama3") == 0   ? ROPE_LLAMA3
                                    : strcmp(scaled, "linear") == 0 ? ROPE_LINEAR
                                                                    : ROPE_UNSCALED);
    ck_assert_double_eq(rule->factor, number(scaling, "factor"));
    ck_assert_double_eq(rule->low_freq_factor, number(scaling, "low_freq_factor"));
    ck_assert_double_eq(rule->high_freq_factor, number(scaling, "high_freq_factor"));
    ck_assert_double_eq(rule->original_max_positions, number(scaling, "original_max_position_embeddings"));
    ck_assert_uint_eq(rule->max_distance, (size_t)number(want, "max_distance"));
    ck_assert(rule->bidirectional == (number(want, "bidirectional") != 0));
    ck_assert_uint_eq(rule->table_rows * source->shape.attention.num_heads,
                      json_array_size(json_object_get(want, "R")));
    check_floats(rule->table, json_object_get(want, "R"), set, "R");
    check_floats(rule->frequencies, json_object_get(want, "frequencies"), set, "frequencies");
}

/* The names that nothing uses, in whatever order: the expected ones are without prefixes. */
static void check_unused(const struct model_source *source, const json_t *want, const char *set)
{
    size_t i, names = 0;
    json_t *value;
    struct text text = {0};
    model_files_unused(&source->files, &text);
    const char *list = text_terminate(&text);
    ck_assert_ptr_nonnull(list);
    for (const char *at = list; *at; at += strcspn(at, ",") + 2 * (strchr(at, ',') != NULL))
        names++;
    ck_assert_msg(names == json_array_size(want), "%s: unused are %s", set, list);
    json_array_foreach(want, i, value)
        ck_assert_msg(strstr(list, json_string_value(value)) != NULL, "%s: unused are %s", set, list);
    text_free(&text);
}

/* The places are those that the engine wants of a model of this shape, and it is made of them. */
static void check_load(const struct model_source *source, const char *set)
{
    struct error error = {0};
    char digest[DIGEST_TEXT_BYTES], slot_name[SLOT_NAME_BYTES];
    for (size_t i = 0; i < model_tensors(&source->shape); i++) {
        const struct tensor_slot slot = model_tensor(&source->shape, i);
        const struct slot_extent extent = model_slot_extent(&source->shape, slot);
        const struct tensor_place *place =
            slot.layer == MODEL_ITSELF ? &source->model[slot.slot] : &source->layers[slot.layer][slot.slot];
        ck_assert_msg(extent.rows == place->rows && (extent.rows == 0 || extent.columns == place->columns),
                      "%s: %s: [%zu, %zu], expected [%zu, %zu]", set, model_slot_name(slot, slot_name), place->rows,
                      place->columns, extent.rows, extent.columns);
    }
    ck_assert(engine_init(NULL, &error));
    struct model *model = model_load(source, 1, digest, &error);
    ck_assert_msg(model != NULL, "%s: %s", set, error.message);
    model_free(model);
}

bool source_leaves(const struct model_source *source, const char *name)
{
    struct text text = {0};
    model_files_unused(&source->files, &text);
    const char *list = text_terminate(&text);
    ck_assert_ptr_nonnull(list);
    const bool left = strstr(list, name) != NULL;
    text_free(&text);
    return left;
}

void golden_tensors_check(const struct model_source *source, const char *name)
{
    static const char *const slots[] = {
#define NAME(code, name) [code] = name,
        MODEL_SLOTS(NAME)
#undef NAME
    };
    const json_t *want = json_object_get(all(), name), *layers = json_object_get(want, "layers");
    const struct attention_shape *shape = &source->shape.attention;
    ck_assert_uint_eq(shape->d_model, (size_t)number(want, "d_model"));
    ck_assert_uint_eq(shape->num_heads, (size_t)number(want, "num_heads"));
    ck_assert_uint_eq(shape->num_kv_heads, (size_t)number(want, "num_kv_heads"));
    ck_assert_uint_eq(shape->d_k, (size_t)number(want, "d_k"));
    ck_assert_uint_eq(shape->d_v, (size_t)number(want, "d_v"));
    ck_assert(shape->projected);
    ck_assert_uint_eq(source->shape.num_layers, json_array_size(layers));
    for (size_t n = 0; n < source->shape.num_layers; n++)
        check_layer(source, n, json_array_get(json_object_get(want, "shapes"), n), json_array_get(layers, n), name);
    for (size_t slot = 0; slot < MODEL_SLOT_COUNT; slot++)
        check_place(&source->model[slot], json_object_get(json_object_get(want, "model"), slots[slot]), name,
                    slots[slot]);
    check_embeddings(source, json_object_get(want, "embeddings"), name);
    check_norm(&source->shape.final_norm, json_object_get(want, "final_norm"), name, "final_norm");
    check_load(source, name);
    if (json_object_get(want, "entry")) /* the entry's own rules are its reader's */
        return;
    ck_assert_msg(source->causal == (number(want, "causal") != 0), "%s: causal", name);
    check_position(source, json_object_get(want, "position"), name);
    check_unused(source, json_object_get(want, "unused"), name);
}
