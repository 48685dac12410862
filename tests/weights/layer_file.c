/* Makes layers and writes them: the tests' own idea of the forms, apart from the code under test. One thread. */
#include "layer_file.h"

#include "model_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 64

static const char *const letters = "QKVO";

/* [rows, columns] of the first four; a bias has the columns of its matrix. */
static void extents(const struct attention_shape *shape, size_t kind, size_t *rows, size_t *columns)
{
    const size_t matrices[4][2] = {{shape->d_model, shape->num_heads * shape->d_k},
                                   {shape->d_model, shape->num_kv_heads * shape->d_k},
                                   {shape->d_model, shape->num_kv_heads * shape->d_v},
                                   {shape->num_heads * shape->d_v, shape->d_model}};
    *rows = kind < 4 ? matrices[kind][0] : 1;
    *columns = matrices[kind % 4][1];
}

struct made_layer layer_make(const struct attention_shape *shape, unsigned biases, unsigned seed)
{
    struct made_layer layer = {.shape = *shape, .biases = biases, .memory = calloc(LAYER_MAX_NUMBERS, sizeof(double))};
    uint32_t state = seed * 2654435761U + 12345;
    size_t at = 0;
    for (size_t kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        size_t rows, columns;
        extents(shape, kind, &rows, &columns);
        if (!layer.memory || at + rows * columns > LAYER_MAX_NUMBERS)
            abort();
        if (kind >= 4 && !(biases & 1U << kind))
            continue;
        layer.items[kind] = layer.memory + at;
        for (size_t i = 0; i < rows * columns; i++) {
            state = state * 1664525U + 1013904223U;
            layer.items[kind][i] = ((double)(state >> 24) - 128) / 32; /* 8 bits: bfloat16 holds them */
        }
        at += rows * columns;
    }
    return layer;
}

void layer_free(struct made_layer *layer)
{
    free(layer->memory);
    *layer = (struct made_layer){0};
}

/* Columns [first, first + n) of m [rows, columns], turned where the layout says so; fresh memory. */
static double *cut(const double *m, size_t rows, size_t columns, size_t first, size_t n, bool turned)
{
    double *to = malloc(rows * n * sizeof *to);
    if (!to)
        abort();
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            to[turned ? j * rows + i : i * n + j] = m[i * columns + first + j];
    return to;
}

struct writing {
    const struct layer_form *form;
    struct file_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][32];
    size_t count;
};

static void add(struct writing *writing, const char *name, size_t rows, size_t columns, double *values)
{
    bool is_bias = name[0] == 'b' || strstr(name, ".b_"), turned = !is_bias && writing->form->layout == LAYOUT_OUT_IN;
    if (writing->count == MAX_TENSORS)
        abort();
    struct file_tensor *tensor = &writing->tensors[writing->count];
    snprintf(writing->names[writing->count], sizeof *writing->names, "%s", name);
    *tensor =
        (struct file_tensor){writing->names[writing->count++], writing->form->dtype, is_bias ? 1 : 2, {0, 0}, values};
    tensor->shape[0] = is_bias || turned ? columns : rows;
    tensor->shape[1] = is_bias ? 0 : turned ? rows : columns;
}

/* Three kinds from `kind` on, side by side. */
static void add_fused(struct writing *writing, const struct made_layer *layer, size_t kind, const char *name)
{
    size_t rows = 0, each[3], total = 0, first = 0;
    for (size_t i = 0; i < 3; i++) {
        extents(&layer->shape, kind + i, &rows, &each[i]);
        total += each[i];
    }
    double *whole = malloc(rows * total * sizeof *whole);
    if (!whole)
        abort();
    for (size_t p = 0; p < 3; first += each[p++])
        for (size_t i = 0; i < rows; i++)
            memcpy(whole + i * total + first, layer->items[kind + p] + i * each[p], each[p] * sizeof *whole);
    double *values = cut(whole, rows, total, 0, total, kind < 4 && writing->form->layout == LAYOUT_OUT_IN);
    free(whole);
    add(writing, name, rows, total, values);
}

static char *copy(const char *text)
{
    char *fresh = strdup(text);
    if (!fresh)
        abort();
    return fresh;
}

/* The configuration's member of a kind. */
static enum weight_tensor member_of(size_t kind)
{
    static const enum weight_tensor members[] = {TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V, TENSOR_W_O,
                                                 TENSOR_B_Q, TENSOR_B_K, TENSOR_B_V, TENSOR_B_O};
    return members[kind];
}

void layer_write(const struct made_layer *layer, const struct layer_form *form, const char *name,
                 struct weights_config *config)
{
    const struct attention_shape *shape = &layer->shape;
    struct writing *writing = calloc(1, sizeof *writing);
    if (!writing)
        abort();
    writing->form = form;
    *config = (struct weights_config){
        .name = copy("made"),
        .source = WEIGHTS_SAFETENSORS,
        .required = true,
        .num_heads = shape->num_heads,
        .num_kv_heads = shape->num_kv_heads,
        .d_k = shape->d_k,
        .d_v = shape->d_v,
        .path = model_folder_path(name),
        .layout = form->layout,
    };
    for (size_t kind = 0; kind < LAYER_TENSOR_COUNT; kind++) {
        if (!layer->items[kind])
            continue;
        bool is_o = kind % 4 == 3, fused = !is_o && (kind < 4 ? form->fused : form->fused_bias),
             per_head = form->per_head && !is_o;
        char text[32];
        if (fused && kind % 4 == 0) {
            add_fused(writing, layer, kind, kind < 4 ? "W_QKV" : "b_QKV");
            config->tensors[kind < 4 ? TENSOR_W_QKV : TENSOR_B_QKV] = copy(kind < 4 ? "W_QKV" : "b_QKV");
        }
        if (fused)
            continue;
        size_t rows, columns, heads = per_head ? kind % 4 == 0 ? shape->num_heads : shape->num_kv_heads : 1;
        extents(shape, kind, &rows, &columns);
        for (size_t h = 0; h < heads; h++) {
            double *part = cut(layer->items[kind], rows, columns, h * (columns / heads), columns / heads,
                               kind < 4 && form->layout == LAYOUT_OUT_IN);
            int prefix = per_head ? snprintf(text, sizeof text, "h%zu.", h) : 0;
            snprintf(text + prefix, sizeof text - (size_t)prefix, "%c_%c", kind < 4 ? 'W' : 'b', letters[kind % 4]);
            add(writing, text, rows, columns / heads, part);
        }
        snprintf(text, sizeof text, "%s%c_%c", per_head ? "h{head}." : "", kind < 4 ? 'W' : 'b', letters[kind % 4]);
        config->tensors[member_of(kind)] = copy(text);
    }
    struct model_file file = model_file_compose(writing->tensors, writing->count);
    model_folder_write_file(name, &file);
    model_file_free(&file);
    for (size_t i = 0; i < writing->count; i++)
        free((double *)writing->tensors[i].values);
    free(writing);
}

void layer_config_free(struct weights_config *config)
{
    free(config->name);
    free(config->path);
    for (size_t i = 0; i < WEIGHT_TENSOR_COUNT; i++)
        free(config->tensors[i]);
    *config = (struct weights_config){0};
}
