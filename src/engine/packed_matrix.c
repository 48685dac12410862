/* Lays weights out for the kernels. See packed_matrix.h for the threads. */

#include "engine/packed_matrix.h"

#include "base/size.h"

#include <string.h>

static size_t panel_width(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_column)
{
    const size_t left = size_min(matrix->columns - first_column, kernels->panel_columns);
    return (left + kernels->vector_floats - 1) / kernels->vector_floats * kernels->vector_floats;
}

bool packed_matrix_need(size_t depth, size_t columns, bool bias, size_t *total)
{
    size_t padded, bytes;
    if (!size_add(columns, KERNEL_PAD, &padded))
        return false;
    padded = kernel_padded(columns);
    return tensor_bytes((size_t[]){depth, padded}, 2, sizeof(float), &bytes) && arena_need(total, bytes) &&
           (!bias || (tensor_bytes(&padded, 1, sizeof(float), &bytes) && arena_need(total, bytes)));
}

struct packed_matrix packed_matrix_take(size_t depth, size_t columns, bool bias, struct arena *arena)
{
    const size_t padded = kernel_padded(columns);
    struct packed_matrix matrix = {.depth = depth, .columns = columns};
    matrix.panels = arena_take(arena, depth * padded * sizeof *matrix.panels);
    if (bias) {
        matrix.bias = arena_take(arena, padded * sizeof *matrix.bias);
        memset(matrix.bias, 0, padded * sizeof *matrix.bias);
    }
    return matrix;
}

void packed_matrix_put_rows(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_row,
                            size_t n_rows, const float *rows, size_t stride)
{
    if (n_rows == matrix->depth) { /* in one go, which reads each row once */
        kernels->pack(rows, stride, n_rows, matrix->columns, matrix->panels);
        return;
    }
    for (size_t column = 0; column < matrix->columns; column += kernels->panel_columns) {
        const size_t width = panel_width(matrix, kernels, column);
        kernels->pack(rows + column, stride, n_rows, size_min(width, matrix->columns - column),
                      matrix->panels + column * matrix->depth + first_row * width);
    }
}

void packed_matrix_put_columns(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_column,
                               size_t n_columns, const float *columns, size_t stride)
{
    kernels->pack_transposed(columns, stride, matrix->depth, n_columns, matrix->panels + first_column * matrix->depth);
}

void packed_matrix_put_bias(const struct packed_matrix *matrix, const float *bias)
{
    memcpy(matrix->bias, bias, matrix->columns * sizeof *bias);
}
