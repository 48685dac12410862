/* model.safetensors.index.json: which file of a folder holds which tensor. Any thread. */
#ifndef ATTND_WEIGHTS_SAFETENSORS_INDEX_H
#define ATTND_WEIGHTS_SAFETENSORS_INDEX_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define SAFETENSORS_INDEX_NAME "model.safetensors.index.json"

/* Files that one index may name: each is an open descriptor while the set is loaded. */
#define SAFETENSORS_INDEX_MOST_FILES 512

struct indexed_tensor {
    const char *name, *file;
};

struct safetensors_index {
    struct indexed_tensor *tensors; /* [count], by ascending name, each once */
    size_t count;
    const char **files; /* [file_count], by ascending name, each once: names of files beside the index */
    size_t file_count;
    char *memory; /* of all names */
};

/* Reads text [length]. Faults (ERROR_BAD_ENCODING at /path; the message begins with the index's name) are text that is
 * not such a document, a tensor named twice, more files than SAFETENSORS_INDEX_MOST_FILES, and names of files that lead
 * out of the folder or are none of a safetensors file. */
bool safetensors_index_read(const char *text, size_t length, struct safetensors_index *index, struct error *error);

void safetensors_index_free(struct safetensors_index *index);

#endif
