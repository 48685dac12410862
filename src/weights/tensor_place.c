/* Owns the way of a place's numbers from the file to float32 in rows, with the memory of one band at a time. One
 * thread.
 *
 * Along the stride of 1 the file has lines: the rows, or, of a matrix stored [out, in], the columns. Lines that lie one
 * behind the other are read together. */
#include "weights/tensor_place.h"

#include "base/dtype.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of a band: 256 KiB as float32, so that it is still in L2 when it is turned. A longer line is one by
 * itself. */
#define BAND_NUMBERS ((size_t)64 * 1024)

/* Side of the squares in which a band is turned: a cache line of float32, read and written. */
#define TURN_SIDE 16

struct tensor_place tensor_place_matrix(const struct safetensors_file *file, const struct safetensors_entry *entry,
                                        enum weights_layout layout, size_t rows, size_t columns)
{
    const bool turned = layout == LAYOUT_OUT_IN;
    return (struct tensor_place){.file = file,
                                 .entry = entry,
                                 .rows = rows,
                                 .columns = columns,
                                 .row_stride = turned ? 1 : columns,
                                 .column_stride = turned ? rows : 1};
}

struct tensor_place tensor_place_columns(const struct tensor_place *whole, size_t first, size_t columns)
{
    struct tensor_place place = *whole;
    place.first += first * whole->column_stride;
    place.columns = columns;
    return place;
}

static bool not_finite(const struct safetensors_entry *entry, size_t element, struct error *error)
{
    char place[SAFETENSORS_MAX_RANK * 24] = "";
    size_t length = sizeof place - 1;
    for (unsigned axis = entry->rank; axis-- > 0; element /= entry->shape[axis]) {
        char index[24];
        const size_t bytes =
            (size_t)snprintf(index, sizeof index, "%s%zu", axis ? ", " : "", element % entry->shape[axis]);
        length -= bytes;
        memcpy(place + length, index, bytes);
    }
    return error_set_at(error, ERROR_NOT_FINITE, "/path",
                        "tensor \"%.200s\" holds a number at [%s] that is not a finite float32", entry->name,
                        place + length);
}

/* band [n_lines, rows], lines `first` to first + n_lines of a place whose lines are its columns. */
static void place_turned(const struct tensor_place *place, const float *band, size_t first, size_t n_lines, float *to,
                         size_t stride)
{
    for (size_t r = 0; r < place->rows; r += TURN_SIDE) {
        const size_t r_end = size_min(r + TURN_SIDE, place->rows);
        for (size_t c = 0; c < n_lines; c += TURN_SIDE) {
            const size_t c_end = size_min(c + TURN_SIDE, n_lines);
            for (size_t i = r; i < r_end; i++)
                for (size_t j = c; j < c_end; j++)
                    to[i * stride + first + j] = band[j * place->rows + i];
        }
    }
}

static bool read_tensor(const struct tensor_place *place, float *to, size_t stride, struct error *error)
{
    const struct safetensors_entry *entry = place->entry;
    const bool turned = place->column_stride != 1;
    const size_t lines = turned ? place->columns : place->rows, length = turned ? place->rows : place->columns;
    const size_t line_stride = turned ? place->column_stride : place->row_stride;
    const bool dense = line_stride == length;
    const size_t number_bytes = dtype_bytes(entry->dtype);
    const size_t most = size_min(lines, size_max(1, BAND_NUMBERS / length));
    unsigned char *raw = malloc(most * length * number_bytes);
    float *band = malloc(most * length * sizeof *band); /* [most, length] */
    bool done = false;

    if (!raw || !band) {
        error_out_of_memory(error);
        goto fail;
    }
    for (size_t first = 0; first < lines; first += most) {
        const size_t n_lines = size_min(most, lines - first), count = n_lines * length;
        for (size_t i = 0; i < (dense ? 1 : n_lines); i++)
            if (!safetensors_file_read(place->file, entry, (place->first + (first + i) * line_stride) * number_bytes,
                                       raw + i * length * number_bytes, (dense ? count : length) * number_bytes, error))
                goto fail;
        const size_t finite = dtype_to_f32(entry->dtype, raw, band, count);
        if (finite < count) {
            not_finite(entry, place->first + (first + finite / length) * line_stride + finite % length, error);
            goto fail;
        }
        if (turned)
            place_turned(place, band, first, n_lines, to, stride);
        else
            for (size_t i = 0; i < n_lines; i++)
                memcpy(to + (first + i) * stride, band + i * length, length * sizeof *band);
    }
    done = true;
fail:
    free(raw);
    free(band);
    return done;
}

bool tensor_place_read(const struct tensor_place *place, float *to, size_t stride, struct error *error)
{
    if (!place->heads)
        return read_tensor(place, to, stride, error);
    for (size_t h = 0; h < place->head_count; h++)
        if (!read_tensor(&place->heads[h], to + h * (place->columns / place->head_count), stride, error))
            return false;
    return true;
}
