/* The float32 tensors of one layer while it is loaded, in the engine's order: row-major, `x @ W`. One thread. */
#ifndef ATTND_WEIGHTS_LAYER_TENSORS_H
#define ATTND_WEIGHTS_LAYER_TENSORS_H

#include "base/error.h"
#include "engine/attention.h"

#include <stdbool.h>
#include <stddef.h>

/* In the order of memory, of numpy's draws and of the digest. */
enum layer_tensor_kind {
    LAYER_W_Q,
    LAYER_W_K,
    LAYER_W_V,
    LAYER_W_O,
    LAYER_B_Q,
    LAYER_B_K,
    LAYER_B_V,
    LAYER_B_O,
    LAYER_TENSOR_COUNT
};

struct layer_tensor {
    float *data; /* [rows, columns]; NULL before layer_tensors_allocate, and where there are no rows */
    size_t rows; /* 1 for a bias; 0: the tensor is absent */
    size_t columns;
};

struct layer_tensors {
    struct layer_tensor items[LAYER_TENSOR_COUNT];
    float *memory; /* owns all of them */
};

/* The extents of a layer of `shape` (made by layer_shape_make) whose biases are those with their bit, 1 << LAYER_B_Q
 * and so on, in `biases`; without projections all are absent. Nothing is allocated. */
struct layer_tensors layer_tensors_describe(const struct attention_shape *shape, unsigned biases);

/* The numbers in all of them. */
size_t layer_tensors_count(const struct layer_tensors *tensors);

/* Memory for all, uninitialised. ERROR_OUT_OF_MEMORY says how much it would have been. */
bool layer_tensors_allocate(struct layer_tensors *tensors, struct error *error);

void layer_tensors_free(struct layer_tensors *tensors);

#endif
