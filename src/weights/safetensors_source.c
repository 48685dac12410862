/* Owns what the members of `tensors` stand for: which tensors of the file they name, of which shape, and where in the
 * layer their numbers go. One thread. The same walk over them is made twice: to check all, then to read. */
#include "weights/safetensors_source.h"

#include "base/text.h"
#include "codec/tensor.h"
#include "weights/layer_shape.h"
#include "weights/safetensors_file.h"
#include "weights/safetensors_tensor.h"

#include <stdio.h>
#include <string.h>

#define HEAD_MARK "{head}"

/* By member: what it is in the layer's order, and the extents in words. A fused member's first tensor is
 * W_Q or b_Q, and the two behind it follow. */
static const struct member {
    enum layer_tensor_kind kind;
    bool is_bias, is_fused;
    const char *rows, *columns, *head_columns; /* in words */
} members[WEIGHT_TENSOR_COUNT] = {
    [TENSOR_W_Q] = {LAYER_W_Q, false, false, "d_model", "num_heads * d_k", "d_k"},
    [TENSOR_W_K] = {LAYER_W_K, false, false, "d_model", "num_kv_heads * d_k", "d_k"},
    [TENSOR_W_V] = {LAYER_W_V, false, false, "d_model", "num_kv_heads * d_v", "d_v"},
    [TENSOR_W_QKV] = {LAYER_W_Q, false, true, "d_model", "(num_heads + num_kv_heads) * d_k + num_kv_heads * d_v", ""},
    [TENSOR_W_O] = {LAYER_W_O, false, false, "num_heads * d_v", "d_model", ""},
    [TENSOR_B_Q] = {LAYER_B_Q, true, false, "", "num_heads * d_k", "d_k"},
    [TENSOR_B_K] = {LAYER_B_K, true, false, "", "num_kv_heads * d_k", "d_k"},
    [TENSOR_B_V] = {LAYER_B_V, true, false, "", "num_kv_heads * d_v", "d_v"},
    [TENSOR_B_QKV] = {LAYER_B_Q, true, true, "", "(num_heads + num_kv_heads) * d_k + num_kv_heads * d_v", ""},
    [TENSOR_B_O] = {LAYER_B_O, true, false, "", "d_model", ""},
};

struct walk {
    const struct weights_config *config;
    const struct safetensors_file *file;
    const struct attention_shape *shape;
    const struct layer_tensors *tensors;
    bool reading; /* the second walk: everything fits, `tensors` has memory */
};

static bool is_per_head(const struct weights_config *config, enum weight_tensor member)
{
    return !members[member].is_fused && members[member].kind != LAYER_W_O && members[member].kind != LAYER_B_O &&
           strstr(config->tensors[member], HEAD_MARK);
}

/* How many tensors the file has for the member. */
static size_t tensors_of(const struct weights_config *config, const struct attention_shape *shape,
                         enum weight_tensor member)
{
    if (!is_per_head(config, member))
        return 1;
    return members[member].kind == LAYER_W_Q || members[member].kind == LAYER_B_Q ? shape->num_heads
                                                                                  : shape->num_kv_heads;
}

/* The member's tensor of head `head` out of `count`, in a layer of such `tensors`; `name` is the file's. */
static struct wanted_tensor want(const struct weights_config *config, const struct layer_tensors *tensors,
                                 enum weight_tensor member, const char *name, size_t head, size_t count)
{
    const struct member *form = &members[member];
    const struct layer_tensor *whole = &tensors->items[form->kind];
    struct wanted_tensor wanted = {
        .pointer = weight_tensor_pointer(member),
        .name = name,
        .is_bias = form->is_bias,
        .out_in = !form->is_bias && config->layout == LAYOUT_OUT_IN,
        .rows = whole->rows,
        .part_count = form->is_fused ? TENSOR_MAX_PARTS : 1,
    };
    for (size_t i = 0; i < wanted.part_count; i++) {
        size_t columns = whole[i].columns / count;
        wanted.parts[i] = (struct tensor_part){.to = whole[i].data ? whole[i].data + head * columns : NULL,
                                               .columns = columns,
                                               .stride = whole[i].columns};
        wanted.columns += columns;
    }
    return wanted;
}

/* The tensor whose input extent is d_model. */
static enum weight_tensor first_member(const struct weights_config *config)
{
    return config->tensors[TENSOR_W_QKV] ? TENSOR_W_QKV : TENSOR_W_Q;
}

/* The member's name for one head. *text owns it. NULL when memory ran out. */
static const char *name_of_head(const char *pattern, size_t head, struct text *text)
{
    text->length = 0;
    for (const char *mark; (mark = strstr(pattern, HEAD_MARK)); pattern = mark + strlen(HEAD_MARK)) {
        text_append(text, pattern, (size_t)(mark - pattern));
        text_append_format(text, "%zu", head);
    }
    text_append_string(text, pattern);
    return text_terminate(text);
}

/* True when the tensor would fit, were `layout` the other one. */
static bool fits_other_layout(const struct walk *walk, const struct safetensors_entry *entry, enum weight_tensor member,
                              const struct wanted_tensor *wanted, size_t count)
{
    struct weights_config other = *walk->config;
    struct attention_shape shape = *walk->shape;
    struct error ignored;
    other.layout = other.layout == LAYOUT_OUT_IN ? LAYOUT_IN_OUT : LAYOUT_OUT_IN;
    if (wanted->is_bias || entry->rank != 2)
        return false;
    /* d_model was taken from this tensor's other extent. */
    if (member == first_member(&other) && other.d_model == 0 &&
        !layer_shape_make(&other, entry->shape[other.layout == LAYOUT_OUT_IN], &shape, &ignored))
        return false;
    struct layer_tensors tensors = layer_tensors_describe(&shape, 0);
    struct wanted_tensor turned = want(&other, &tensors, member, wanted->name, 0, count);
    return safetensors_tensor_fits(entry, &turned);
}

static bool does_not_fit(const struct walk *walk, const struct safetensors_entry *entry, enum weight_tensor member,
                         const struct wanted_tensor *wanted, size_t count, struct error *error)
{
    const struct member *form = &members[member];
    const struct attention_shape *shape = walk->shape;
    const char *columns = is_per_head(walk->config, member) ? form->head_columns : form->columns;
    const size_t extents[2] = {wanted->out_in ? wanted->columns : wanted->rows,
                               wanted->out_in ? wanted->rows : wanted->columns};
    char found[TENSOR_SHAPE_TEXT_BYTES], expected[TENSOR_SHAPE_TEXT_BYTES], words[160], hint[64] = "";
    tensor_shape_text(entry->shape, entry->rank, found, sizeof found);
    tensor_shape_text(extents + form->is_bias, 2 - form->is_bias, expected, sizeof expected);
    if (form->is_bias)
        snprintf(words, sizeof words, "[%s]", columns);
    else
        snprintf(words, sizeof words, "[%s, %s]", wanted->out_in ? columns : form->rows,
                 wanted->out_in ? form->rows : columns);
    if (fits_other_layout(walk, entry, member, wanted, count))
        snprintf(hint, sizeof hint, "; \"layout\": \"%s\" would fit", wanted->out_in ? "in_out" : "out_in");
    return error_set_at(
        error, ERROR_INVALID, wanted->pointer,
        "tensor \"%s\" has shape %s, expected %s: %s with d_model %zu, num_heads %zu, num_kv_heads %zu, d_k %zu, "
        "d_v %zu%s",
        entry->name, found, expected, words, shape->d_model, shape->num_heads, shape->num_kv_heads, shape->d_k,
        shape->d_v, hint);
}

/* Checks, or reads, every tensor of one member. */
static bool walk_member(const struct walk *walk, enum weight_tensor member, struct error *error)
{
    size_t count = tensors_of(walk->config, walk->shape, member);
    struct text text = {0};
    bool done = false;
    for (size_t head = 0; head < count; head++) {
        const char *name = walk->config->tensors[member];
        if (is_per_head(walk->config, member) && !(name = name_of_head(name, head, &text))) {
            error_out_of_memory(error);
            goto fail;
        }
        const struct safetensors_entry *entry =
            safetensors_tensor_find(walk->file, weight_tensor_pointer(member), name, error);
        if (!entry)
            goto fail;
        struct wanted_tensor wanted = want(walk->config, walk->tensors, member, name, head, count);
        if (!walk->reading && !safetensors_tensor_fits(entry, &wanted)) {
            does_not_fit(walk, entry, member, &wanted, count, error);
            goto fail;
        }
        if (walk->reading && !safetensors_tensor_read(walk->file, entry, &wanted, error))
            goto fail;
    }
    done = true;
fail:
    text_free(&text);
    return done;
}

static bool walk_all(const struct walk *walk, struct error *error)
{
    for (unsigned member = 0; member < WEIGHT_TENSOR_COUNT; member++)
        if (walk->config->tensors[member] && !walk_member(walk, member, error))
            return false;
    return true;
}

/* The input extent of the queries' matrix. */
static bool read_d_model(const struct weights_config *config, const struct safetensors_file *file, size_t *d_model,
                         struct error *error)
{
    enum weight_tensor member = first_member(config);
    struct text text = {0};
    const struct safetensors_entry *entry = NULL;
    char found[TENSOR_SHAPE_TEXT_BYTES];
    const char *name =
        is_per_head(config, member) ? name_of_head(config->tensors[member], 0, &text) : config->tensors[member];
    if (!name)
        error_out_of_memory(error);
    else
        entry = safetensors_tensor_find(file, weight_tensor_pointer(member), name, error);
    text_free(&text);
    if (!entry)
        return false;
    if (entry->rank != 2 || entry->shape[0] == 0 || entry->shape[1] == 0)
        return error_set_at(error, ERROR_INVALID, weight_tensor_pointer(member),
                            "tensor \"%s\" has shape %s, expected a matrix, %s", entry->name,
                            tensor_shape_text(entry->shape, entry->rank, found, sizeof found),
                            config->layout == LAYOUT_OUT_IN ? "[columns, d_model]" : "[d_model, columns]");
    *d_model = entry->shape[config->layout == LAYOUT_OUT_IN];
    return true;
}

static unsigned biases_of(const struct weights_config *config)
{
    unsigned biases = 0;
    for (unsigned member = 0; member < WEIGHT_TENSOR_COUNT; member++)
        if (config->tensors[member] && members[member].is_bias)
            biases |= (members[member].is_fused ? 7U : 1U) << members[member].kind;
    return biases;
}

/* config_load has seen to it; a configuration that was built otherwise is not trusted with pointers. */
static bool check_names(const struct weights_config *config, struct error *error)
{
    static const enum weight_tensor needed[] = {TENSOR_W_Q, TENSOR_W_K, TENSOR_W_V, TENSOR_W_O};
    if (!config->path)
        return error_set_at(error, ERROR_INVALID, "/path", "source safetensors needs a path");
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!config->tensors[needed[i]] && (needed[i] == TENSOR_W_O || !config->tensors[TENSOR_W_QKV]))
            return error_set_at(error, ERROR_INVALID, "/tensors", "\"%s\" is not named",
                                weight_tensor_pointer(needed[i]) + 9);
    return true;
}

/* The file, to be closed, and the shape of what is in it. */
static bool open_file(const struct weights_config *config, struct safetensors_file *file, struct attention_shape *shape,
                      struct error *error)
{
    size_t d_model = config->d_model;
    if (!check_names(config, error) || !safetensors_file_open(config->path, file, error))
        return false;
    if ((d_model || read_d_model(config, file, &d_model, error)) && layer_shape_make(config, d_model, shape, error))
        return true;
    safetensors_file_close(file);
    return false;
}

bool safetensors_source_shape(const struct weights_config *config, struct attention_shape *shape, struct error *error)
{
    struct safetensors_file file = {.descriptor = -1};
    if (!open_file(config, &file, shape, error))
        return false;
    safetensors_file_close(&file);
    return true;
}

bool safetensors_source_load(const struct weights_config *config, struct attention_shape *shape,
                             struct layer_tensors *tensors, struct error *error)
{
    struct safetensors_file file = {.descriptor = -1};
    struct layer_tensors loaded = {0};
    struct attention_shape made;
    bool done = false;

    if (!open_file(config, &file, &made, error))
        return false;
    loaded = layer_tensors_describe(&made, biases_of(config));
    struct walk walk = {.config = config, .file = &file, .shape = &made, .tensors = &loaded};
    if (!walk_all(&walk, error) || !layer_tensors_allocate(&loaded, error))
        goto fail;
    walk.reading = true;
    if (!walk_all(&walk, error) || !safetensors_file_unchanged(&file, error))
        goto fail;
    *shape = made;
    *tensors = loaded;
    done = true;
fail:
    if (!done)
        layer_tensors_free(&loaded);
    safetensors_file_close(&file);
    return done;
}
