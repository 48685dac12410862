/* Fuzzes the index of a model in shards: what is accepted names each tensor once, in files of the folder. */
#include "weights/safetensors_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_file(const char *name)
{
    const size_t length = strlen(name);
    check(length > 12 && length <= 255 && name[0] != '.' && strcmp(name + length - 12, ".safetensors") == 0);
    for (size_t i = 0; i < length; i++)
        check(name[i] != '/' && name[i] != '\\' && (unsigned char)name[i] >= 0x20);
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors_index index;
    struct error error = {0};
    if (!safetensors_index_read((const char *)data, size, &index, &error)) {
        check(error.code == ERROR_BAD_ENCODING || error.code == ERROR_INVALID);
        check(strncmp(error.message, SAFETENSORS_INDEX_NAME ":", strlen(SAFETENSORS_INDEX_NAME) + 1) == 0);
        check(error.has_pointer && strcmp(error.pointer, "/path") == 0);
        return 0;
    }
    check(index.count > 0 && index.file_count > 0 && index.file_count <= SAFETENSORS_INDEX_MOST_FILES);
    for (size_t i = 0; i < index.file_count; i++) {
        check_file(index.files[i]);
        check(i == 0 || strcmp(index.files[i - 1], index.files[i]) < 0);
    }
    for (size_t i = 0; i < index.count; i++) {
        check(i == 0 || strcmp(index.tensors[i - 1].name, index.tensors[i].name) < 0);
        check(bsearch(&index.tensors[i].file, index.files, index.file_count, sizeof *index.files, compare) != NULL);
    }
    safetensors_index_free(&index);
    return 0;
}
