/* Owns the way of a tensor from its bytes in a file to float32 in the engine's order, with the memory of one band at a
 * time. One thread. */
#include "weights/safetensors_tensor.h"

#include "base/nearest.h"
#include "base/size.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of a band of file rows that is read at once: 256 KiB as float32, so that it is still in L2 when it is
 * turned. A longer row is a band by itself. */
#define BAND_NUMBERS ((size_t)64 * 1024)

/* Side of the squares in which a band is turned: a cache line of float32, read and written. */
#define TURN_SIDE 16

/* More names than any model has; a hint is not worth comparing with them all. */
#define MAX_NAMES_COMPARED ((size_t)100 * 1000)

const char *weight_tensor_pointer(enum weight_tensor member)
{
    static const char *const pointers[WEIGHT_TENSOR_COUNT] = {
#define POINTER(code, name) [code] = "/tensors/" name,
        WEIGHT_TENSORS(POINTER)
#undef POINTER
    };
    return pointers[member];
}

/* The file's name that is nearest to `name`, or NULL. */
static const char *nearest_in_file(const struct safetensors *header, const char *name)
{
    if (header->count == 0 || header->count > MAX_NAMES_COMPARED)
        return NULL;
    const char **names = malloc(header->count * sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < header->count; i++)
        names[i] = header->entries[i].name;
    const char *nearest = nearest_name(name, names, header->count);
    free(names);
    return nearest;
}

const struct safetensors_entry *safetensors_tensor_find(const struct safetensors_file *file, const char *pointer,
                                                        const char *name, struct error *error)
{
    const struct safetensors_entry *entry = safetensors_find(&file->header, name);
    if (!entry) {
        const char *nearest = nearest_in_file(&file->header, name);
        if (nearest)
            error_set_at(error, ERROR_INVALID, pointer, "it has no tensor \"%s\"; did you mean \"%s\"?", name, nearest);
        else
            error_set_at(error, ERROR_INVALID, pointer, "it has no tensor \"%s\" among its %zu%s%s%s", name,
                         file->header.count, file->header.count ? ", the first of which is \"" : "",
                         file->header.count ? file->header.entries[0].name : "", file->header.count ? "\"" : "");
        return NULL;
    }
    if (entry->dtype == DTYPE_COUNT || !dtype_is_float(entry->dtype)) {
        error_set_at(error, ERROR_INVALID, pointer, "tensor \"%s\" has dtype %s, expected F32, F16, BF16 or F64", name,
                     entry->dtype_name);
        return NULL;
    }
    return entry;
}

bool safetensors_tensor_fits(const struct safetensors_entry *entry, const struct wanted_tensor *wanted)
{
    if (wanted->is_bias)
        return entry->rank == 1 && entry->shape[0] == wanted->columns;
    return entry->rank == 2 && entry->shape[wanted->out_in] == wanted->rows &&
           entry->shape[!wanted->out_in] == wanted->columns;
}

/* A number of a float format that is not a finite float32, as it is. */
static double number_at(enum dtype dtype, const unsigned char *at)
{
    double f64;
    float f32;
    uint32_t bits;
    uint16_t half;
    switch (dtype) {
    case DTYPE_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case DTYPE_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case DTYPE_BF16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&f32, &bits, sizeof f32);
        return (double)f32;
    default:
        memcpy(&half, at, sizeof half);
        return (double)dtype_f16_to_f32(half);
    }
}

/* band [n_rows, wanted->columns], from row `first` on: each row goes apart to the parts. */
static void place_rows(const struct wanted_tensor *wanted, const float *band, size_t first, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t p = 0; p < wanted->part_count; p++) {
            const struct tensor_part *part = &wanted->parts[p];
            memcpy(part->to + (first + i) * part->stride, band, part->columns * sizeof *band);
            band += part->columns;
        }
    }
}

/* band [n_columns, wanted->rows], columns `first` to first + n_columns of the tensor, all of one part: to [rows],
 * `stride` apart. */
static void place_turned(const struct wanted_tensor *wanted, const float *band, float *to, size_t stride,
                         size_t n_columns)
{
    for (size_t r = 0; r < wanted->rows; r += TURN_SIDE) {
        size_t r_end = size_min(r + TURN_SIDE, wanted->rows);
        for (size_t c = 0; c < n_columns; c += TURN_SIDE) {
            size_t c_end = size_min(c + TURN_SIDE, n_columns);
            for (size_t i = r; i < r_end; i++)
                for (size_t j = c; j < c_end; j++)
                    to[i * stride + j] = band[j * wanted->rows + i];
        }
    }
}

/* band [n_columns, wanted->rows], columns `first` to first + n_columns of the tensor: they may belong to several parts.
 */
static void place_columns(const struct wanted_tensor *wanted, const float *band, size_t first, size_t n_columns)
{
    size_t begin = 0; /* of the part, in columns of the tensor */
    for (size_t p = 0; p < wanted->part_count; p++) {
        const struct tensor_part *part = &wanted->parts[p];
        size_t from = size_max(first, begin), end = size_min(first + n_columns, begin + part->columns);
        if (from < end)
            place_turned(wanted, band + (from - first) * wanted->rows, part->to + (from - begin), part->stride,
                         end - from);
        begin += part->columns;
    }
}

static bool not_finite(const struct safetensors_entry *entry, const struct wanted_tensor *wanted, double found,
                       size_t row, size_t column, struct error *error)
{
    char place[64];
    if (wanted->is_bias)
        snprintf(place, sizeof place, "[%zu]", column);
    else
        snprintf(place, sizeof place, "[%zu, %zu]", row, column);
    return error_set_at(error, ERROR_NOT_FINITE, wanted->pointer,
                        "tensor \"%s\" holds %g at %s, which is not a finite float32", entry->name, found, place);
}

bool safetensors_tensor_read(const struct safetensors_file *file, const struct safetensors_entry *entry,
                             const struct wanted_tensor *wanted, struct error *error)
{
    size_t rows = wanted->out_in ? wanted->columns : wanted->rows; /* as in the file */
    size_t columns = wanted->out_in ? wanted->rows : wanted->columns;
    size_t number_bytes = dtype_bytes(entry->dtype);
    size_t band_rows = size_min(rows, size_max(1, BAND_NUMBERS / columns));
    unsigned char *raw = malloc(band_rows * columns * number_bytes);
    float *band = malloc(band_rows * columns * sizeof *band); /* [band_rows, columns] */
    bool done = false;

    if (!raw || !band) {
        error_out_of_memory(error);
        goto fail;
    }
    for (size_t first = 0; first < rows; first += band_rows) {
        size_t n_rows = size_min(band_rows, rows - first), count = n_rows * columns;
        if (!safetensors_file_read(file, entry, first * columns * number_bytes, raw, count * number_bytes, error))
            goto fail;
        size_t finite = dtype_to_f32(entry->dtype, raw, band, count);
        if (finite < count) {
            not_finite(entry, wanted, number_at(entry->dtype, raw + finite * number_bytes), first + finite / columns,
                       finite % columns, error);
            goto fail;
        }
        if (wanted->out_in)
            place_columns(wanted, band, first, n_rows);
        else
            place_rows(wanted, band, first, n_rows);
    }
    done = true;
fail:
    free(raw);
    free(band);
    return done;
}
