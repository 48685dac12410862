/* Owns the open files of a model while it is loaded, and the one list of their tensors. One thread. */
#include "weights/model_files.h"

#include "base/file.h"
#include "base/nearest.h"
#include "weights/file_fault.h"
#include "weights/model_folder.h"
#include "weights/safetensors_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As a header's: no real index is near it. */
#define MOST_INDEX_BYTES ((size_t)64 << 20)

/* A list for the log, not a second copy of all names. */
#define MOST_UNUSED_BYTES ((size_t)32 * 1024)

/* More names than any model has; a hint is not worth comparing with them all. */
#define MAX_NAMES_COMPARED ((size_t)100 * 1000)

static bool set_text(char **to, char *text, struct error *error)
{
    *to = text;
    return text || error_out_of_memory(error);
}

static char *path_in(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static int compare_tensors(const void *left, const void *right)
{
    const struct model_tensor *a = left, *b = right;
    const int names = strcmp(a->entry->name, b->entry->name);
    return names ? names : a->file < b->file ? -1 : a->file > b->file;
}

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct model_tensor *)tensor)->entry->name);
}

static struct model_tensor *tensor_named(const struct model_files *files, const char *name)
{
    return files->tensor_count
               ? bsearch(name, files->tensors, files->tensor_count, sizeof *files->tensors, compare_name)
               : NULL;
}

/* Makes the list of tensors once all files are open. */
static bool list_tensors(struct model_files *files, struct error *error)
{
    size_t count = 0;
    for (size_t f = 0; f < files->count; f++)
        count += files->files[f].header.count; /* each takes memory already: no overflow */
    files->tensors = calloc(count + 1, sizeof *files->tensors);
    if (!files->tensors)
        return error_out_of_memory(error);
    for (size_t f = 0; f < files->count; f++)
        for (size_t i = 0; i < files->files[f].header.count; i++)
            files->tensors[files->tensor_count++] =
                (struct model_tensor){.entry = &files->files[f].header.entries[i], .file = f};
    qsort(files->tensors, count, sizeof *files->tensors, compare_tensors);
    for (size_t i = 1; i < count; i++)
        if (strcmp(files->tensors[i - 1].entry->name, files->tensors[i].entry->name) == 0)
            return error_set_at(error, ERROR_INVALID, "/path",
                                "the tensor \"%.200s\" stands in two files, %.100s and %.100s; remove one",
                                files->tensors[i].entry->name, files->names[files->tensors[i - 1].file],
                                files->names[files->tensors[i].file]);
    return true;
}

static bool allocate(struct model_files *files, size_t count, struct error *error)
{
    files->files = calloc(count, sizeof *files->files);
    files->names = calloc(count, sizeof *files->names);
    return (files->files && files->names) || error_out_of_memory(error);
}

/* Opens one more file; `path` is taken. */
static bool open_next(struct model_files *files, char *path, const char *name, struct error *error)
{
    bool done = path && set_text(&files->names[files->count], strdup(name), error) &&
                safetensors_file_open(path, &files->files[files->count], error);
    if (!path)
        error_out_of_memory(error);
    free(path);
    if (done)
        files->count++;
    else
        free(files->names[files->count]);
    return done;
}

bool model_files_open(const char *path, struct model_files *files, struct error *error)
{
    struct model_files opened = {.one = true};
    const char *slash = strrchr(path, '/');
    if (!allocate(&opened, 1, error) || !open_next(&opened, strdup(path), slash ? slash + 1 : path, error) ||
        !list_tensors(&opened, error)) {
        model_files_close(&opened);
        return false;
    }
    *files = opened;
    return true;
}

/* The index and the files say the same. */
static bool check_index(const struct model_files *files, const struct safetensors_index *index, struct error *error)
{
    for (size_t i = 0; i < index->count; i++) {
        const struct indexed_tensor *indexed = &index->tensors[i];
        const struct model_tensor *tensor = tensor_named(files, indexed->name);
        const char *found = tensor ? files->names[tensor->file] : NULL;
        if (found && strcmp(found, indexed->file) == 0)
            continue;
        error_set(error, ERROR_INVALID, "it says that the tensor \"%.200s\" is in %.100s, but %s%.100s", indexed->name,
                  indexed->file, found ? "it is in " : "no file has it", found ? found : "");
        return file_fault(SAFETENSORS_INDEX_NAME, error);
    }
    return true;
}

static bool open_shards(const char *folder, const char *text, size_t length, struct model_files *files,
                        struct error *error)
{
    struct safetensors_index index;
    if (!safetensors_index_read(text, length, &index, error))
        return false;
    bool done = allocate(files, index.file_count, error);
    for (size_t i = 0; done && i < index.file_count; i++)
        done = open_next(files, path_in(folder, index.files[i]), index.files[i], error) ||
               file_fault(index.files[i], error);
    done = done && list_tensors(files, error) && check_index(files, &index, error);
    safetensors_index_free(&index);
    return done;
}

bool model_files_is_folder(const char *folder, struct error *error)
{
    struct stat status;
    if (stat(folder, &status) != 0)
        return error_set_at(error, ERROR_IO, "/path", "it cannot be opened: %s", strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return error_set_at(error, ERROR_IO, "/path",
                            "expected a folder with config.json and " MODEL_FILE_NAME ", found a file");
    return true;
}

bool model_files_open_folder(const char *folder, struct model_files *files, struct error *error)
{
    struct model_files opened = {0};
    struct text text = {0};
    struct stat status;
    bool done = false;
    char *one = path_in(folder, MODEL_FILE_NAME), *index = path_in(folder, SAFETENSORS_INDEX_NAME);
    int failed;
    if (!one || !index) {
        error_out_of_memory(error);
        goto fail;
    }
    if (!model_files_is_folder(folder, error))
        goto fail;
    if (stat(one, &status) == 0 || errno != ENOENT) {
        done = allocate(&opened, 1, error) &&
               (open_next(&opened, strdup(one), MODEL_FILE_NAME, error) || file_fault(MODEL_FILE_NAME, error)) &&
               list_tensors(&opened, error);
        goto fail;
    }
    failed = file_read(index, MOST_INDEX_BYTES, &text);
    if (failed == ENOENT) {
        model_folder_without_weights(folder, error);
    } else if (failed == ENOMEM) {
        error_out_of_memory(error);
    } else if (failed) {
        error_set(error, ERROR_IO, "it cannot be read: %s", strerror(failed));
        file_fault(SAFETENSORS_INDEX_NAME, error);
    } else {
        done = open_shards(folder, text.data ? text.data : "", text.length, &opened, error);
    }
fail:
    if (done)
        *files = opened;
    else
        model_files_close(&opened);
    text_free(&text);
    free(one);
    free(index);
    return done;
}

/* The name as older files have it, into `old` [size]; false: it has no older one, or no room. */
static bool older_name(const char *name, char *old, size_t size)
{
    static const struct {
        const char *ending, *older;
    } endings[] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t ending = strlen(endings[i].ending);
        if (length >= ending && strcmp(name + length - ending, endings[i].ending) == 0)
            return (size_t)snprintf(old, size, "%.*s%s", (int)(length - ending), name, endings[i].older) < size;
    }
    return false;
}

#define NAME_BYTES 512

bool model_files_find(const struct model_files *files, const char *prefix, const char *name,
                      struct model_tensor **found, struct error *error)
{
    char old[NAME_BYTES], with_prefix[NAME_BYTES];
    struct model_tensor *first = NULL;
    if (!prefix) {
        *found = tensor_named(files, name);
        return true;
    }
    const char *const plain[] = {name, older_name(name, old, sizeof old) ? old : NULL};
    for (size_t i = 0; i < 4; i++) {
        const char *tried = plain[i / 2];
        if (!tried || (i % 2 && !*prefix))
            continue;
        if (i % 2) {
            if ((size_t)snprintf(with_prefix, sizeof with_prefix, "%s%s", prefix, tried) >= sizeof with_prefix)
                continue;
            tried = with_prefix;
        }
        struct model_tensor *tensor = tensor_named(files, tried);
        if (tensor && first)
            return error_set_at(error, ERROR_INVALID, "/path",
                                "it has the tensors \"%.200s\" and \"%.200s\", which are two names of one; remove one",
                                first->entry->name, tensor->entry->name);
        first = tensor ? tensor : first;
    }
    *found = first;
    return true;
}

const char *model_files_nearest(const struct model_files *files, const char *prefix, const char *name)
{
    const size_t length = prefix ? strlen(prefix) : 0;
    if (files->tensor_count == 0 || files->tensor_count > MAX_NAMES_COMPARED)
        return NULL;
    const char **names = malloc(files->tensor_count * sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < files->tensor_count; i++) {
        names[i] = files->tensors[i].entry->name;
        if (length && strncmp(names[i], prefix, length) == 0)
            names[i] += length;
    }
    const char *nearest = nearest_name(name, names, files->tensor_count);
    free(names);
    return nearest;
}

bool model_files_fault(const struct model_files *files, const struct safetensors_file *file, struct error *error)
{
    for (size_t i = 0; !files->one && i < files->count; i++)
        if (&files->files[i] == file)
            return file_fault(files->names[i], error);
    return false;
}

bool model_files_unchanged(const struct model_files *files, struct error *error)
{
    for (size_t i = 0; i < files->count; i++)
        if (!safetensors_file_unchanged(&files->files[i], error))
            return model_files_fault(files, &files->files[i], error);
    return true;
}

void model_files_unused(const struct model_files *files, struct text *unused)
{
    size_t left = 0;
    for (size_t i = 0; i < files->tensor_count; i++) {
        const struct model_tensor *tensor = &files->tensors[i];
        if (tensor->used)
            continue;
        if (unused->length > MOST_UNUSED_BYTES) {
            left++;
            continue;
        }
        if (unused->length)
            text_append_string(unused, ", ");
        text_append(unused, tensor->entry->name, strnlen(tensor->entry->name, NAME_BYTES));
    }
    if (left)
        text_append_format(unused, " and %zu more", left);
}

void model_files_close(struct model_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        safetensors_file_close(&files->files[i]);
        free(files->names[i]);
    }
    free(files->files);
    free(files->names);
    free(files->tensors);
    *files = (struct model_files){0};
}
