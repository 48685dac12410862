/* One tensor of a file: found, checked against what the layer needs, and read to its places. */
#ifndef ATTND_WEIGHTS_SAFETENSORS_TENSOR_H
#define ATTND_WEIGHTS_SAFETENSORS_TENSOR_H

#include "base/error.h"
#include "config/config.h"
#include "weights/safetensors_file.h"

#include <stdbool.h>
#include <stddef.h>

/* Where some of the columns go: column j of row i to to[i * stride + j]. */
struct tensor_part {
    float *to; /* [rows] lines of [columns], `stride` apart; NULL while only checking */
    size_t columns, stride;
};

#define TENSOR_MAX_PARTS 3 /* W_QKV: queries, keys, values */

/* A tensor that is wanted, `x @ W`: [rows, columns], its columns shared out to the parts in order. */
struct wanted_tensor {
    const char *pointer; /* of the configuration's member that names it, for errors */
    const char *name;    /* in the file */
    bool is_bias;        /* of rank 1, [columns]; rows is 1 */
    bool out_in;         /* the file has [columns, rows] */
    size_t rows, columns;
    struct tensor_part parts[TENSOR_MAX_PARTS];
    size_t part_count;
};

/* "/tensors/W_Q" */
const char *weight_tensor_pointer(enum weight_tensor member);

/* NULL with ERROR_INVALID at `pointer`, which names the nearest of the file's tensors, when there is none of that name
 * or its dtype is not one of the four. */
const struct safetensors_entry *safetensors_tensor_find(const struct safetensors_file *file, const char *pointer,
                                                        const char *name, struct error *error);

/* True when the file's tensor has just the rank and extents that are wanted. */
bool safetensors_tensor_fits(const struct safetensors_entry *entry, const struct wanted_tensor *wanted);

/* Reads a tensor that fits to its parts, as float32. ERROR_NOT_FINITE names a number that is none; ERROR_IO,
 * ERROR_OUT_OF_MEMORY. */
bool safetensors_tensor_read(const struct safetensors_file *file, const struct safetensors_entry *entry,
                             const struct wanted_tensor *wanted, struct error *error);

#endif
