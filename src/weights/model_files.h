/* The safetensors files of one model, open: one, or the shards that an index names; and their tensors by name. They are
 * read by pread, so that a file cut short meanwhile is an error. One thread. */
#ifndef ATTND_WEIGHTS_MODEL_FILES_H
#define ATTND_WEIGHTS_MODEL_FILES_H

#include "base/error.h"
#include "base/text.h"
#include "weights/safetensors_file.h"

#include <stdbool.h>
#include <stddef.h>

/* Of a model that is one file. */
#define MODEL_FILE_NAME "model.safetensors"

struct model_tensor {
    const struct safetensors_entry *entry;
    size_t file; /* of model_files.files */
    bool used;   /* set by who has a use for it */
};

struct model_files {
    struct safetensors_file *files; /* [count], open */
    size_t count;
    char **names;                 /* [count], without a folder */
    struct model_tensor *tensors; /* [tensor_count], of all files, by ascending name, each name once */
    size_t tensor_count;
    bool one; /* a file of its own, which the caller's messages name */
};

/* One file. Errors as safetensors_file_open. */
bool model_files_open(const char *path, struct model_files *files, struct error *error);

/* Whether it is a folder at all; ERROR_IO at /path. */
bool model_files_is_folder(const char *folder, struct error *error);

/* A folder's model.safetensors, or else what its model.safetensors.index.json names. Errors (ERROR_IO,
 * ERROR_BAD_ENCODING, ERROR_INVALID) at /path begin with the file's name: besides those of safetensors_index_read and
 * safetensors_file_open, a tensor in two files, or not in the file that the index says. */
bool model_files_open_folder(const char *folder, struct model_files *files, struct error *error);

/* The tensor `name`, which the files may have with `prefix` before it, and LayerNorm.gamma or .beta for
 * LayerNorm.weight or .bias. No `prefix` (NULL): it is called just so. *found is NULL when there is none. False with
 * ERROR_INVALID when there are two. */
bool model_files_find(const struct model_files *files, const char *prefix, const char *name,
                      struct model_tensor **found, struct error *error);

/* The tensor's name that is nearest to `name` (with or without `prefix`), or NULL. */
const char *model_files_nearest(const struct model_files *files, const char *prefix, const char *name);

/* Puts the name of one of the files before the message, at /path, unless they are `one`. False. */
bool model_files_fault(const struct model_files *files, const struct safetensors_file *file, struct error *error);

/* ERROR_IO at /path when one of them was written to since it was opened. */
bool model_files_unchanged(const struct model_files *files, struct error *error);

/* Appends the names of the tensors that are not `used`, with commas; of very many the first. */
void model_files_unused(const struct model_files *files, struct text *unused);

void model_files_close(struct model_files *files);

#endif
