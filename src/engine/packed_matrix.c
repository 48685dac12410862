/* Lays weights out for the kernels, and back. See packed_matrix.h for the threads. */

#include "engine/packed_matrix.h"

#include "base/size.h"

#include <string.h>

static size_t panel_width(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_column)
{
    const size_t left = size_min(matrix->columns - first_column, kernels->panel_columns);
    return (left + kernels->vector_floats - 1) / kernels->vector_floats * kernels->vector_floats;
}

bool packed_matrix_need(size_t depth, size_t columns, bool bias, enum precision precision, size_t *total)
{
    size_t padded, bytes;
    if (!size_add(columns, 2 * KERNEL_PAD, &padded))
        return false;
    padded = kernel_padded(columns);
    const size_t stored = precision == PRECISION_BF16 ? kernel_pairs(columns) : padded;
    return tensor_bytes((size_t[]){depth, stored}, 2, sizeof(float), &bytes) && arena_need(total, bytes) &&
           (!bias || (tensor_bytes(&padded, 1, sizeof(float), &bytes) && arena_need(total, bytes)));
}

struct packed_matrix packed_matrix_take(size_t depth, size_t columns, bool bias, enum precision precision,
                                        struct arena *arena)
{
    const size_t padded = kernel_padded(columns);
    struct packed_matrix matrix = {.depth = depth, .columns = columns};
    if (precision == PRECISION_BF16)
        matrix.pairs = arena_take(arena, depth * kernel_pairs(columns) * sizeof *matrix.pairs);
    else
        matrix.panels = arena_take(arena, depth * padded * sizeof *matrix.panels);
    if (bias) {
        matrix.bias = arena_take(arena, padded * sizeof *matrix.bias);
        memset(matrix.bias, 0, padded * sizeof *matrix.bias);
    }
    return matrix;
}

/* Words to a row of a panel of bfloat16. */
static size_t paired_width(const struct kernels *kernels, size_t width)
{
    const size_t pair = 2 * kernels->vector_floats;
    return (width + pair - 1) / pair * pair / 2;
}

/* Some rows of one panel, on their way to bfloat16. */
enum { PIECE_ROWS = 32 };

struct piece {
    _Alignas(64) float panel[PIECE_ROWS * PACKED_COLUMNS]; /* [PIECE_ROWS, width] */
};

/* Rows first_row .. first_row + n_rows - 1, packed in `piece`, to the panel that begins at `column`. */
static void put_piece(const struct packed_matrix *matrix, const struct kernels *kernels, const struct piece *piece,
                      size_t first_row, size_t n_rows, size_t column)
{
    const size_t width = panel_width(matrix, kernels, column);
    kernels->narrow_panel(piece->panel, n_rows, width,
                          matrix->pairs + column / 2 * matrix->depth + first_row * paired_width(kernels, width));
}

static void put_paired_rows(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_row,
                            size_t n_rows, const float *rows, size_t stride)
{
    struct piece piece;
    for (size_t done = 0, n; done < n_rows; done += n) {
        n = size_min(n_rows - done, PIECE_ROWS);
        for (size_t column = 0; column < matrix->columns; column += kernels->panel_columns) {
            kernels->pack(rows + done * stride + column, stride, n,
                          size_min(matrix->columns - column, kernels->panel_columns), piece.panel);
            put_piece(matrix, kernels, &piece, first_row + done, n, column);
        }
    }
}

static void put_paired_columns(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_column,
                               size_t n_columns, const float *columns, size_t stride)
{
    struct piece piece;
    for (size_t column = 0; column < n_columns; column += kernels->panel_columns)
        for (size_t row = 0, n; row < matrix->depth; row += n) {
            n = size_min(matrix->depth - row, PIECE_ROWS);
            kernels->pack_transposed(columns + column * stride + row, stride, n,
                                     size_min(n_columns - column, kernels->panel_columns), piece.panel);
            put_piece(matrix, kernels, &piece, row, n, first_column + column);
        }
}

void packed_matrix_put_rows(const struct packed_matrix *matrix, const struct kernels *kernels, size_t first_row,
                            size_t n_rows, const float *rows, size_t stride)
{
    if (matrix->pairs) {
        put_paired_rows(matrix, kernels, first_row, n_rows, rows, stride);
        return;
    }
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
    if (matrix->pairs)
        put_paired_columns(matrix, kernels, first_column, n_columns, columns, stride);
    else
        kernels->pack_transposed(columns, stride, matrix->depth, n_columns,
                                 matrix->panels + first_column * matrix->depth);
}

/* The part of one panel that is in a row: `count` numbers, of bfloat16 those of two vectors in one. */
static void get_paired(const uint32_t *pairs, size_t vector_floats, size_t count, float *numbers)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t pair = pairs[i / (2 * vector_floats) * vector_floats + i % vector_floats],
                       bits = i / vector_floats % 2 ? pair & 0xffff0000 : pair << 16;
        memcpy(numbers + i, &bits, sizeof bits);
    }
}

void packed_matrix_get(const struct packed_matrix *matrix, const struct kernels *kernels, float *rows)
{
    for (size_t column = 0; column < matrix->columns; column += kernels->panel_columns) {
        const size_t width = panel_width(matrix, kernels, column), count = size_min(width, matrix->columns - column);
        for (size_t row = 0; row < matrix->depth; row++) {
            float *to = rows + row * matrix->columns + column;
            if (matrix->pairs)
                get_paired(matrix->pairs + column / 2 * matrix->depth + row * paired_width(kernels, width),
                           kernels->vector_floats, count, to);
            else
                memcpy(to, matrix->panels + column * matrix->depth + row * width, count * sizeof *to);
        }
    }
}

void packed_matrix_put_bias(const struct packed_matrix *matrix, const float *bias)
{
    memcpy(matrix->bias, bias, matrix->columns * sizeof *bias);
}
