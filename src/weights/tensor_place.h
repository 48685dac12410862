/* A matrix or vector of a model within the tensors of its files. One thread. */
#ifndef ATTND_WEIGHTS_TENSOR_PLACE_H
#define ATTND_WEIGHTS_TENSOR_PLACE_H

#include "base/error.h"
#include "config/config.h"
#include "weights/safetensors_file.h"

#include <stdbool.h>
#include <stddef.h>

/* A tensor of the model, [rows, columns] (a vector: one row), within a tensor of a file: element (i, j) is element
 * first + i * row_stride + j * column_stride of it. One of the strides is 1. */
struct tensor_place {
    const struct safetensors_file *file; /* NULL: the model has no such tensor */
    const struct safetensors_entry *entry;
    size_t rows, columns, first, row_stride, column_stride;
    /* NULL; or the file has a tensor for each head: their places, [rows, columns / head_count] each, side by side. Then
     * `file` and `entry` are the first one's. Fresh memory. */
    struct tensor_place *heads; /* [head_count] */
    size_t head_count;
};

/* All of a tensor whose numbers are those of [rows, columns], or of [columns, rows] with LAYOUT_OUT_IN. */
struct tensor_place tensor_place_matrix(const struct safetensors_file *file, const struct safetensors_entry *entry,
                                        enum weights_layout layout, size_t rows, size_t columns);

/* Columns [first, first + columns) of a place that is one tensor's. */
struct tensor_place tensor_place_columns(const struct tensor_place *whole, size_t first, size_t columns);

/* Reads to [rows] lines of [columns], `stride` apart, as float32. The dtype is one of the four floats. ERROR_NOT_FINITE
 * names a number that is none in float32; ERROR_IO, ERROR_OUT_OF_MEMORY. */
bool tensor_place_read(const struct tensor_place *place, float *to, size_t stride, struct error *error);

#endif
