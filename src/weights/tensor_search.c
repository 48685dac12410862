/* Owns what is said of tensors that are missing or do not fit. One thread. */
#include "weights/tensor_search.h"

#include "codec/tensor.h"

#include <stdio.h>
#include <string.h>

/* Of the names of missing tensors: a message holds no more. */
#define MOST_MISSING_BYTES ((size_t)600)

static void put_down(struct tensor_search *search, const char *name)
{
    search->missing_count++;
    if (search->missing.length > MOST_MISSING_BYTES)
        return;
    search->missing_listed++;
    text_append_format(&search->missing, "%s\"%.200s\"", search->missing.length ? ", " : "", name);
}

static bool fault_in(const struct tensor_search *search, const struct model_tensor *tensor, struct error *error)
{
    return model_files_fault(search->files, &search->files->files[tensor->file], error);
}

static bool does_not_fit(const struct safetensors_entry *entry, const struct extent *shape, unsigned rank,
                         struct error *error)
{
    char found[TENSOR_SHAPE_TEXT_BYTES], expected[TENSOR_SHAPE_TEXT_BYTES], words[256] = "";
    size_t extents[SAFETENSORS_MAX_RANK] = {0}, length = 0;
    for (unsigned i = 0; i < rank; i++) {
        extents[i] = shape[i].size;
        if (length < sizeof words)
            length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", i ? ", " : "", shape[i].words);
    }
    const bool turned = rank == 2 && entry->rank == 2 && entry->shape[0] == extents[1] && entry->shape[1] == extents[0];
    return error_set_at(error, ERROR_INVALID, "/path", "tensor \"%.200s\" has shape %s, expected %s: [%s]%s",
                        entry->name, tensor_shape_text(entry->shape, entry->rank, found, sizeof found),
                        tensor_shape_text(extents, rank, expected, sizeof expected), words,
                        turned ? "; it is stored the other way round" : "");
}

bool tensor_search(struct tensor_search *search, const char *name, const struct extent *shape, unsigned rank,
                   const struct safetensors_file **file, const struct safetensors_entry **entry, struct error *error)
{
    struct model_tensor *tensor;
    *file = NULL;
    *entry = NULL;
    if (!model_files_find(search->files, search->prefix, name, &tensor, error))
        return false;
    if (!tensor) {
        put_down(search, name);
        return true;
    }
    const struct safetensors_entry *found = tensor->entry;
    if (found->dtype == DTYPE_COUNT || !dtype_is_float(found->dtype)) {
        error_set_at(error, ERROR_INVALID, "/path", "tensor \"%.200s\" has dtype %s, expected F32, F16, BF16 or F64",
                     found->name, found->dtype_name);
        return fault_in(search, tensor, error);
    }
    bool fits = found->rank == rank;
    for (unsigned i = 0; fits && i < rank; i++)
        fits = found->shape[i] == shape[i].size;
    if (!fits) {
        does_not_fit(found, shape, rank, error);
        return fault_in(search, tensor, error);
    }
    tensor->used = true;
    *file = &search->files->files[tensor->file];
    *entry = found;
    return true;
}

bool tensor_search_matrix(struct tensor_search *search, const char *name, enum weights_layout layout,
                          struct extent rows, struct extent columns, struct tensor_place *place, struct error *error)
{
    const struct safetensors_file *file;
    const struct safetensors_entry *entry;
    const struct extent shape[] = {layout == LAYOUT_OUT_IN ? columns : rows, layout == LAYOUT_OUT_IN ? rows : columns};
    if (!tensor_search(search, name, shape, 2, &file, &entry, error))
        return false;
    *place = entry ? tensor_place_matrix(file, entry, layout, rows.size, columns.size) : (struct tensor_place){0};
    return true;
}

bool tensor_search_vector(struct tensor_search *search, const char *name, struct extent columns,
                          struct tensor_place *place, struct error *error)
{
    const struct safetensors_file *file;
    const struct safetensors_entry *entry;
    if (!tensor_search(search, name, &columns, 1, &file, &entry, error))
        return false;
    *place = entry ? tensor_place_matrix(file, entry, LAYOUT_IN_OUT, 1, columns.size) : (struct tensor_place){0};
    return true;
}

bool tensor_search_has(struct tensor_search *search, const char *name)
{
    struct model_tensor *tensor;
    struct error two;
    return !model_files_find(search->files, search->prefix, name, &tensor, &two) || tensor;
}

bool tensor_search_finish(struct tensor_search *search, struct error *error)
{
    char more[48] = "", hint[320] = "";
    if (search->missing_count == 0)
        return true;
    const char *names = text_terminate(&search->missing);
    if (!names)
        return error_out_of_memory(error);
    if (search->missing_listed < search->missing_count)
        snprintf(more, sizeof more, " and %zu more", search->missing_count - search->missing_listed);
    if (search->missing_count == 1) {
        char name[TENSOR_NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(names) - 2), names + 1);
        const char *nearest = model_files_nearest(search->files, search->prefix, name);
        if (nearest)
            snprintf(hint, sizeof hint, "; did you mean \"%.200s\"?", nearest);
    }
    return error_set_at(error, ERROR_INVALID, "/path", "%zu tensor%s missing among the %zu that are there: %s%s%s",
                        search->missing_count, search->missing_count == 1 ? " is" : "s are",
                        search->files->tensor_count, names, more, hint);
}

void tensor_search_free(struct tensor_search *search)
{
    text_free(&search->missing);
}
