/* A safetensors file on disk: its header checked, its tensors read piece by piece. One thread a file. */
#ifndef ATTND_WEIGHTS_SAFETENSORS_FILE_H
#define ATTND_WEIGHTS_SAFETENSORS_FILE_H

#include "base/error.h"
#include "codec/safetensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct safetensors_file {
    int descriptor;
    char *addresses; /* [size], reserved; only the header's bytes are there. The entries' `data` point into it and are
                        not read through */
    size_t size;
    struct timespec modified;
    struct safetensors header;
};

/* Opens and checks the whole header. ERROR_IO when it cannot be read or is no regular file, ERROR_BAD_ENCODING when the
 * header is wrong; both with the pointer /path. On success the file is to be closed. */
bool safetensors_file_open(const char *path, struct safetensors_file *file, struct error *error);

/* Bytes [offset, offset + bytes) of a tensor; they must be within it. ERROR_IO when the file ends before them
 * meanwhile. */
bool safetensors_file_read(const struct safetensors_file *file, const struct safetensors_entry *entry, size_t offset,
                           void *to, size_t bytes, struct error *error);

/* ERROR_IO when the file was written to since it was opened: what was read may then be half of one version and half of
 * another. */
bool safetensors_file_unchanged(const struct safetensors_file *file, struct error *error);

void safetensors_file_close(struct safetensors_file *file);

#endif
