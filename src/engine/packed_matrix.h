/* A weight matrix and its bias as the kernels read them. Memory comes from an arena; the numbers come in pieces, in any
 * order, from any number of threads as long as pieces do not overlap. For the engine's own files and who fills them. */
#ifndef ATTND_ENGINE_PACKED_MATRIX_H
#define ATTND_ENGINE_PACKED_MATRIX_H

#include "base/arena.h"
#include "engine/kernels/kernels.h"
#include "engine/precision.h"

#include <stdbool.h>
#include <stddef.h>

struct packed_matrix {
    size_t depth, columns;
    float *panels;   /* packed [depth, columns]; NULL with pairs */
    uint32_t *pairs; /* the same of bfloat16 (narrow_panel) */
    float *bias;     /* [kernel_padded(columns)], zeros behind `columns`; NULL: none */
};

/* Adds to *total what packed_matrix_take takes of an arena. False on overflow. */
bool packed_matrix_need(size_t depth, size_t columns, bool bias, enum precision precision, size_t *total);

/* Memory for a matrix [depth, columns], `x @ W`, without its numbers; the bias is 0, and float32 in any
 * precision. The arena holds packed_matrix_need. */
struct packed_matrix packed_matrix_take(size_t depth, size_t columns, bool bias, enum precision precision,
                                        struct arena *arena);

/* Rows first_row .. first_row + n_rows - 1, all columns. */
void packed_matrix_put_rows(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_row,
                            size_t n_rows, const float *rows /* [n_rows, columns] */, size_t stride);

/* The same of the transpose: columns first_column .. first_column + n_columns - 1, all rows. first_column is a multiple
 * of PACKED_COLUMNS, as is n_columns but at the end. */
#define PACKED_COLUMNS ((size_t)64)
void packed_matrix_put_columns(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_column,
                               size_t n_columns, const float *columns /* [n_columns, depth] */, size_t stride);

/* The numbers, as they are held. */
void packed_matrix_get(const struct packed_matrix *matrix, const struct kernels *kernels,
                       float *rows /* [depth, columns] */);

void packed_matrix_put_bias(const struct packed_matrix *matrix, const float *bias /* [columns] */);

#endif
