/* Small safetensors files for tests, written into a folder that is removed afterwards. */
#ifndef ATTND_TESTS_WEIGHTS_MODEL_FILE_H
#define ATTND_TESTS_WEIGHTS_MODEL_FILE_H

#include "base/dtype.h"

#include <stddef.h>

#define MODEL_FILE_MAX_BYTES ((size_t)1 << 20)

/* A tensor as a file is to hold it. */
struct file_tensor {
    const char *name,
        *dtype;    /* "F32"; of one of the four floats `values` are converted to it, of another the bytes are zeros */
    unsigned rank; /* 1 or 2 */
    size_t shape[2];
    const double *values; /* [shape]; NULL: all 0.5 */
};

/* A file as text and bytes, so that a test can spoil either before it is written. */
struct model_file {
    char *header; /* JSON, NUL-terminated */
    unsigned char *data;
    size_t data_bytes;
};

/* The folder, for a suite's unchecked fixture: one at a time. */
void model_folder_make(void);
void model_folder_remove(void);
/* Removes the files in it. */
void model_folder_empty(void);
/* A file's path in it; fresh memory. */
char *model_folder_path(const char *name);

/* The tensors side by side; the header names them in the opposite order and has an odd length, so that no tensor is
 * aligned. */
struct model_file model_file_compose(const struct file_tensor *tensors, size_t count);
void model_file_free(struct model_file *file);

/* Replaces `from`, which must stand in the header, by `to`. */
void model_file_replace(struct model_file *file, const char *from, const char *to);

/* The file's bytes, with the header's true length in front; fresh memory. */
unsigned char *model_file_bytes(const struct model_file *file, size_t *size);

void model_folder_write(const char *name, const void *bytes, size_t size);
void model_folder_write_file(const char *name, const struct model_file *file);

#endif
