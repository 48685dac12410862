/* Where the numbers of a model stand: its shape, and for every tensor of it the place in a file. Filled by the sources
 * that know many layers (blocks_source.c, huggingface_*.c), read by who loads. One thread. */
#ifndef ATTND_WEIGHTS_MODEL_SOURCE_H
#define ATTND_WEIGHTS_MODEL_SOURCE_H

#include "base/error.h"
#include "base/text.h"
#include "engine/model_shape.h"
#include "weights/safetensors_file.h"

/* The files of a set: one, or the shards that an index names. */
struct model_files {
    struct safetensors_file *files; /* [count], open */
    size_t count;
};

/* A tensor of the model, [rows, columns] (a vector: one row), within a tensor of a file: element (i, j) is element
 * first + i * row_stride + j * column_stride of it. One of the strides is 1. */
struct tensor_place {
    const struct safetensors_file *file; /* NULL: the model has no such tensor */
    const struct safetensors_entry *entry;
    size_t rows, columns, first, row_stride, column_stride;
};

struct model_source {
    struct model_shape shape; /* its layers are owned here */
    struct model_files files;
    struct tensor_place (*layers)[LAYER_SLOT_COUNT]; /* [num_layers] */
    struct tensor_place model[MODEL_SLOT_COUNT];
    /* What the model's own configuration adds to its rules, as the source's defaults. Tables (t5's R, esm's
     * frequencies) are small and owned here as float32. */
    bool causal;
    struct position_rule position;
    float *table, *frequencies;
    struct text unused; /* names of tensors that nothing reads, with commas; for the log */
};

void model_source_free(struct model_source *source);

#endif
