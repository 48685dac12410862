/* Owns the reading of an index: every name in it is somebody else's, so what leads out of the folder is refused here,
 * before any file is opened. Pure functions: any thread. */
#include "weights/safetensors_index.h"

#include "weights/file_fault.h"
#include "json/names.h"
#include "json/reader.h"

#include <stdlib.h>
#include <string.h>

#define FILE_ENDING     ".safetensors"
#define MOST_FILE_BYTES ((size_t)255) /* NAME_MAX */

struct reading {
    struct json_reader reader;
    struct safetensors_index index;
    size_t capacity; /* of index.tensors */
    size_t used;     /* of index.memory */
};

/* What is wrong with a file's name, or NULL. */
static const char *fault_of_name(const char *name, size_t length)
{
    if (length == 0)
        return "it is empty";
    if (length > MOST_FILE_BYTES)
        return "it is longer than 255 bytes";
    if (name[0] == '/')
        return "it is an absolute path";
    if (strchr(name, '/') || strchr(name, '\\'))
        return "it leads to another folder";
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return "it holds a control character";
    if (name[0] == '.')
        return "it begins with a dot";
    const size_t ending = strlen(FILE_ENDING);
    if (length <= ending || strcmp(name + length - ending, FILE_ENDING) != 0)
        return "it does not end in " FILE_ENDING;
    return NULL;
}

/* A name's characters behind those that are in memory already: all together are shorter than the text. */
static const char *keep(struct reading *reading, const struct json_key *key, size_t *length)
{
    char *to = reading->index.memory + reading->used;
    *length = json_key_write(key, to);
    reading->used += *length + 1;
    return to;
}

static struct indexed_tensor *add(struct reading *reading, struct error *error)
{
    struct safetensors_index *index = &reading->index;
    if (index->count == reading->capacity) {
        const size_t capacity = reading->capacity ? 2 * reading->capacity : 64;
        struct indexed_tensor *more = reallocarray(index->tensors, capacity, sizeof *more);
        if (!more) {
            error_out_of_memory(error);
            return NULL;
        }
        index->tensors = more;
        reading->capacity = capacity;
    }
    return &index->tensors[index->count++];
}

static bool read_map(struct reading *reading, struct error *error)
{
    struct json_reader *r = &reading->reader;
    struct json_key name, file;
    enum json_step step;
    size_t length;
    if (!json_enter_object(r, error))
        return false;
    /* Duplicates are found when all names are sorted: the reader remembers fewer than a model has tensors. */
    while ((step = names_next_unremembered(r, &name, error)) == JSON_ITEM) {
        struct indexed_tensor *tensor = add(reading, error);
        if (!tensor)
            return false;
        tensor->name = keep(reading, &name, &length);
        if (strlen(tensor->name) != length)
            return json_error(r, error, ERROR_INVALID, "a tensor's name holds the character U+0000");
        const char *before = (json_peek(r), r->at);
        if (!json_read_in_place(r, &file, error))
            return false;
        tensor->file = keep(reading, &file, &length);
        const char *fault = fault_of_name(tensor->file, length);
        if (fault) {
            r->at = before;
            char shown[NAMES_SHOWN_BYTES];
            names_show(&file, shown);
            return json_error(r, error, ERROR_INVALID,
                              "expected the name of a safetensors file beside the index, got \"%s\": %s", shown, fault);
        }
    }
    return step == JSON_DONE;
}

static bool read_document(struct reading *reading, struct error *error)
{
    struct json_reader *r = &reading->reader;
    struct json_key key;
    enum json_step step;
    bool found = false;
    if (!json_enter_object(r, error))
        return false;
    while ((step = json_next_member(r, &key, error)) == JSON_ITEM) {
        const bool is_map = json_key_is(&key, "weight_map");
        found |= is_map;
        if (!(is_map ? read_map(reading, error) : json_ignore(r, error)))
            return false;
    }
    if (step == JSON_FAILED || !json_finish(r, error))
        return false;
    if (!found || reading->index.count == 0)
        return json_error(r, error, ERROR_INVALID, found ? "\"weight_map\" names no tensor" : "missing \"weight_map\"");
    return true;
}

static int compare_tensors(const void *left, const void *right)
{
    const struct indexed_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool sort(struct safetensors_index *index, struct error *error)
{
    qsort(index->tensors, index->count, sizeof *index->tensors, compare_tensors);
    for (size_t i = 1; i < index->count; i++)
        if (strcmp(index->tensors[i - 1].name, index->tensors[i].name) == 0) {
            error_set(error, ERROR_BAD_ENCODING, "\"weight_map\" names the tensor \"%.200s\" twice; remove one",
                      index->tensors[i].name);
            return file_fault(SAFETENSORS_INDEX_NAME, error);
        }
    index->files = calloc(index->count, sizeof *index->files);
    if (!index->files)
        return error_out_of_memory(error);
    for (size_t i = 0; i < index->count; i++)
        index->files[i] = index->tensors[i].file;
    qsort(index->files, index->count, sizeof *index->files, compare_names);
    index->file_count = 1;
    for (size_t i = 1; i < index->count; i++)
        if (strcmp(index->files[index->file_count - 1], index->files[i]) != 0)
            index->files[index->file_count++] = index->files[i];
    if (index->file_count > SAFETENSORS_INDEX_MOST_FILES) {
        error_set(error, ERROR_INVALID, "\"weight_map\" names %zu files, at most %d are read", index->file_count,
                  SAFETENSORS_INDEX_MOST_FILES);
        return file_fault(SAFETENSORS_INDEX_NAME, error);
    }
    return true;
}

bool safetensors_index_read(const char *text, size_t length, struct safetensors_index *index, struct error *error)
{
    /* The quotes around each name leave room for its NUL. */
    struct reading reading = {.index = {.memory = malloc(length + 1)}};
    if (!reading.index.memory)
        return error_out_of_memory(error);
    json_reader_init(&reading.reader, text, length);
    if (!read_document(&reading, error)) {
        file_fault_json(&reading.reader, SAFETENSORS_INDEX_NAME, error);
        goto fail;
    }
    if (!sort(&reading.index, error))
        goto fail;
    *index = reading.index;
    return true;
fail:
    safetensors_index_free(&reading.index);
    return false;
}

void safetensors_index_free(struct safetensors_index *index)
{
    free(index->tensors);
    free(index->files);
    free(index->memory);
    *index = (struct safetensors_index){0};
}
