/* A model in memory: layers, embeddings and norms, packed for the kernels. Made in two steps, so that no copy of its
 * weights need exist: first memory for all, then the numbers, tensor by tensor and in pieces, in any order and from any
 * number of threads as long as pieces do not overlap. Afterwards it is only read. */
#ifndef ATTND_ENGINE_MODEL_H
#define ATTND_ENGINE_MODEL_H

#include "base/error.h"
#include "engine/model_shape.h"

#include <stdbool.h>
#include <stddef.h>

struct model;

/* Which tensor of a model: `slot` of enum layer_slot, or, with layer MODEL_ITSELF, of enum model_slot. */
#define MODEL_ITSELF SIZE_MAX
struct tensor_slot {
    size_t layer;
    unsigned slot;
};

/* [rows, columns]; a vector is one row. rows 0: a model of this shape has no such tensor. */
struct slot_extent {
    size_t rows, columns;
    bool matrix; /* `x @ W`: packed, and filled by rows or by columns; else by rows */
};

struct slot_extent model_slot_extent(const struct model_shape *shape, struct tensor_slot slot);

/* "layer 3, W_Q", "token": for messages. Returns `text`. */
#define SLOT_NAME_BYTES 64
char *model_slot_name(struct tensor_slot slot, char text[SLOT_NAME_BYTES]);

/* The bytes of a model of this shape in memory. False on overflow. */
bool model_shape_bytes(const struct model_shape *shape, size_t *bytes);

/* Memory for all tensors, uninitialised. The shape is copied, but not what its rules point to. NULL when memory ran
 * out. */
struct model *model_create(const struct model_shape *shape, struct error *error);
void model_free(struct model *model);

/* Rows first_row .. first_row + n_rows - 1 of a tensor, which are there. */
void model_put_rows(struct model *model, struct tensor_slot slot, size_t first_row, size_t n_rows,
                    const float *rows /* [n_rows, columns] */, size_t stride);

/* Columns of a matrix, from its transpose; first_column is a multiple of PACKED_COLUMNS, as is n_columns but at the
 * end. */
void model_put_columns(struct model *model, struct tensor_slot slot, size_t first_column, size_t n_columns,
                       const float *columns /* [n_columns, rows] */, size_t stride);

/* All of a tensor that is there, as it is held. */
void model_get(const struct model *model, struct tensor_slot slot, float *rows /* [rows, columns] */);

/* A model that is another one but for its layers' attention: of another d_k, d_v or num_kv_heads. Of the matrices named
 * in `own`, bits 1 << SLOT_W_Q to 1 << SLOT_W_O, and of their biases it has its own, uninitialised and float32 whatever
 * the precision of `base` is; those that are not have the extents that they have there. All else is that of `base`,
 * which must outlive it. The scale stays each layer's. NULL when memory ran out. */
struct model *model_create_over(const struct model *base, const struct attention_shape *attention, unsigned own,
                                struct error *error);
/* What that takes beside its base. False on overflow. */
bool model_over_bytes(const struct model_shape *base, const struct attention_shape *attention, unsigned own,
                      size_t *bytes);

const struct model_shape *model_shape_of(const struct model *model);
/* What is its own. */
size_t model_bytes(const struct model *model);

#endif
