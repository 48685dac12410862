/* Owns the way from a tensor's name in a rule to its numbers. The file is opened when the first is asked for. One
 * thread. */
#include "weights/rule_tensors.h"

#include "base/size.h"
#include "weights/safetensors_tensor.h"
#include "json/reader.h"

#include <stdlib.h>
#include <string.h>

bool rule_tensors_add(struct rule_tensors *tensors, const char *name, float *numbers, size_t count)
{
    char *copy = name ? strdup(name) : NULL;
    struct rule_tensor *more =
        name && !copy ? NULL : reallocarray(tensors->items, tensors->count + 1, sizeof *tensors->items);
    if (!more) {
        free(copy);
        return false;
    }
    tensors->items = more;
    tensors->items[tensors->count++] = (struct rule_tensor){copy, numbers, count};
    return true;
}

void rule_tensors_free(struct rule_tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++) {
        free(tensors->items[i].name);
        free(tensors->items[i].numbers);
    }
    free(tensors->items);
    *tensors = (struct rule_tensors){0};
}

/* All numbers of a tensor, in order. */
static bool read_numbers(struct rule_files *files, const struct safetensors_file *file,
                         const struct safetensors_entry *entry, const char *pointer, struct tensor *tensor,
                         struct error *error)
{
    float *numbers = malloc(entry->count * sizeof *numbers); /* no overflow: it was checked */
    if (!numbers || !rule_tensors_add(files->kept, entry->name, numbers, entry->count)) {
        free(numbers);
        return error_out_of_memory(error);
    }
    const struct wanted_tensor wanted = {.pointer = pointer,
                                         .name = entry->name,
                                         .is_bias = true,
                                         .rows = 1,
                                         .columns = entry->count,
                                         .parts = {{numbers, entry->count, entry->count}},
                                         .part_count = 1};
    tensor->data = numbers;
    return safetensors_tensor_read(file, entry, &wanted, error);
}

static bool open_files(struct rule_files *files, struct error *error)
{
    if (files->files.count)
        return true;
    return files->config->source == WEIGHTS_HUGGINGFACE
               ? model_files_open_folder(files->config->path, &files->files, error)
               : model_files_open(files->config->path, &files->files, error);
}

/* Which of the files has it. */
static const struct safetensors_file *find_file(const struct rule_files *files, const char *name, const char *pointer,
                                                struct error *error)
{
    const struct model_files *all = &files->files;
    struct model_tensor *found;
    if (all->one)
        return &all->files[0];
    if (!model_files_find(all, NULL, name, &found, error))
        return NULL;
    if (found)
        return &all->files[found->file];
    const char *nearest = model_files_nearest(all, NULL, name);
    error_set_at(error, ERROR_INVALID, pointer, "the folder has no tensor \"%.200s\"%s%s%s", name,
                 nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    return NULL;
}

static bool find_tensor(struct json_reader *r, struct rule_files *files, const char *name, unsigned max_rank,
                        struct tensor *tensor, struct error *error)
{
    char pointer[sizeof error->pointer], shape[TENSOR_SHAPE_TEXT_BYTES];
    size_t bytes;
    json_pointer(r, pointer, sizeof pointer);
    if (!open_files(files, error))
        return false;
    const struct safetensors_file *file = find_file(files, name, pointer, error);
    const struct safetensors_entry *entry = file ? safetensors_tensor_find(file, pointer, name, error) : NULL;
    if (!entry)
        return false;
    tensor_shape_text(entry->shape, entry->rank, shape, sizeof shape);
    if (entry->rank == 0 || entry->rank > max_rank || entry->count == 0)
        return error_set_at(error, ERROR_INVALID, pointer,
                            "tensor \"%s\" has shape %s, expected %s%u axes of at least 1", name, shape,
                            max_rank > 2 ? "2 or " : "", max_rank);
    if (!size_multiply(entry->count, sizeof(float), &bytes) || !size_add(files->bytes, bytes, &files->bytes))
        return error_out_of_memory(error);
    *tensor = (struct tensor){.rank = entry->rank, .count = entry->count, .dtype = entry->dtype};
    memcpy(tensor->shape, entry->shape, entry->rank * sizeof *entry->shape);
    return files->counting || read_numbers(files, file, entry, pointer, tensor, error);
}

bool rule_tensor_read(struct json_reader *r, void *context, unsigned max_rank, struct tensor *tensor,
                      struct error *error)
{
    struct rule_files *files = context;
    char *name;
    if (json_peek(r) != JSON_STRING)
        return json_type_error(r, error, "the name of a tensor of the set's file, as a string");
    if (!files->config->path)
        return json_error(
            r, error, ERROR_INVALID,
            "a tensor is named in the file of the weights, and these have no file; a request may carry it");
    if (!json_read_string(r, &name, NULL, error))
        return false;
    const bool found = find_tensor(r, files, name, max_rank, tensor, error);
    free(name);
    return found;
}

bool rule_files_close(struct rule_files *files, bool check, struct error *error)
{
    const bool unchanged = files->files.count == 0 || !check || model_files_unchanged(&files->files, error);
    if (files->files.count)
        model_files_close(&files->files);
    return unchanged;
}
