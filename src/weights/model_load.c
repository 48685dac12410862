/* Loads tensors on a few threads, which take the largest first: one that comes last would leave the others waiting.
 * Each has buffers of its own; the first error wins. */
#include "weights/model_load.h"

#include "base/dtype.h"
#include "base/size.h"
#include "engine/packed_matrix.h"
#include "weights/load_threads.h"
#include "weights/model_digest.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines to a piece are a multiple of what hashing and packing want. */
#define LINES_STEP TENSOR_HASH_TILE
_Static_assert(LINES_STEP % PACKED_COLUMNS == 0, "columns of a piece");

/* A piece: what stays in a core's L2 while it is hashed, widened and packed. */
#define PIECE_NUMBERS ((size_t)128 * 1024)

/* A tensor as its file has it: lines of neighbours, rows of it or, where the file has the transpose, columns. */
struct lines {
    size_t count, length, stride;
    bool columns;
};

struct loading {
    const struct model_source *source;
    struct model *model;
    uint8_t (*hashes)[TENSOR_HASH_BYTES]; /* [model_tensors] */
    size_t *order;                        /* [n_tensors] indices, the largest tensor first */
    size_t n_tensors;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of error */
    struct error *error;
};

/* A thread's memory. */
struct buffers {
    unsigned char *raw; /* [raw_bytes] as in the file */
    size_t raw_bytes;
    float *numbers; /* [n_numbers] */
    size_t n_numbers;
};

static const struct tensor_place *place_of(const struct model_source *source, struct tensor_slot slot)
{
    return slot.layer == MODEL_ITSELF ? &source->model[slot.slot] : &source->layers[slot.layer][slot.slot];
}

static struct lines lines_of(const struct tensor_place *place)
{
    if (place->column_stride == 1)
        return (struct lines){place->rows, place->columns, place->row_stride, false};
    return (struct lines){place->columns, place->rows, place->column_stride, true};
}

static size_t lines_of_piece(const struct lines *lines)
{
    return size_max(PIECE_NUMBERS / lines->stride / LINES_STEP, 1) * LINES_STEP;
}

/* Memory for so many elements in place of `memory`, whose numbers are not kept; NULL when there is none. */
static void *grown(void *memory, size_t *held, size_t wanted, size_t element)
{
    size_t bytes;
    if (wanted <= *held)
        return memory;
    free(memory);
    *held = 0;
    memory = size_multiply(wanted, element, &bytes) ? malloc(bytes) : NULL;
    if (memory)
        *held = wanted;
    return memory;
}

static bool not_finite(const struct tensor_place *place, const struct lines *lines, size_t line, size_t at,
                       struct error *error)
{
    const bool vector = place->rows == 1;
    char where[64];
    if (vector)
        snprintf(where, sizeof where, "[%zu]", at);
    else
        snprintf(where, sizeof where, "[%zu, %zu]", line, place->first % lines->stride + at);
    return error_set(error, ERROR_NOT_FINITE, "tensor \"%s\" holds a number at %s that is not a finite float32",
                     place->entry->name, where);
}

/* Whether numbers stay finite in a set's precision: bfloat16 rounds what is near the end of float32 to infinity. */
static bool check_precision(const struct loading *loading, const struct tensor_place *place, const float *numbers,
                            size_t count, struct error *error)
{
    const float least_infinite = 0x1.ffp127f;
    unsigned beyond = 0;
    if (loading->source->shape.precision != PRECISION_BF16 || place->entry->dtype == DTYPE_BF16)
        return true;
    for (size_t i = 0; i < count; i++) /* without a way out: in vectors */
        beyond |= fabsf(numbers[i]) >= least_infinite;
    for (size_t i = 0; beyond && i < count; i++)
        if (fabsf(numbers[i]) >= least_infinite)
            return error_set_at(error, ERROR_NOT_FINITE, "/precision",
                                "tensor \"%s\" holds %.9g, which is beyond bfloat16; use \"precision\": \"f32\"",
                                place->entry->name, (double)numbers[i]);
    return true;
}

/* Lines first .. first + count - 1, to buffers->numbers one behind the other. */
static bool read_piece(const struct tensor_place *place, const struct lines *lines, size_t first, size_t count,
                       struct buffers *buffers, struct error *error)
{
    const size_t number = dtype_bytes(place->entry->dtype), span = (count - 1) * lines->stride + lines->length;
    buffers->raw = grown(buffers->raw, &buffers->raw_bytes, span * number, 1);
    buffers->numbers = grown(buffers->numbers, &buffers->n_numbers, count * lines->length, sizeof *buffers->numbers);
    if (!buffers->raw || !buffers->numbers)
        return error_out_of_memory(error);
    if (!safetensors_file_read(place->file, place->entry, (place->first + first * lines->stride) * number, buffers->raw,
                               span * number, error))
        return false;
    const bool close = lines->stride == lines->length;
    const size_t runs = close ? 1 : count, length = close ? count * lines->length : lines->length;
    for (size_t run = 0; run < runs; run++) {
        const unsigned char *raw = buffers->raw + run * lines->stride * number;
        const size_t finite = dtype_to_f32(place->entry->dtype, raw, buffers->numbers + run * lines->length, length);
        if (finite < length)
            return not_finite(place, lines, first + (close ? finite / lines->length : run), finite % lines->length,
                              error);
    }
    return true;
}

/* Some lines of a tensor, one behind the other: checked, hashed, and put into the model. */
static bool take_lines(const struct loading *loading, struct tensor_slot slot, const struct tensor_place *place,
                       const struct tensor_hash *hash, bool columns, size_t first, size_t count, const float *lines,
                       struct error *error)
{
    const size_t length = columns ? place->rows : place->columns;
    if (!check_precision(loading, place, lines, count * length, error))
        return false;
    tensor_hash_add(hash, columns, first, count, lines);
    if (columns)
        model_put_columns(loading->model, slot, first, count, lines, length);
    else
        model_put_rows(loading->model, slot, first, count, lines, length);
    return true;
}

/* A tensor that the file has head by head is put together first: no piece of it is whole rows. */
static bool load_heads(const struct loading *loading, struct tensor_slot slot, const struct tensor_place *place,
                       const struct tensor_hash *hash, struct error *error)
{
    float *whole = reallocarray(NULL, place->rows * place->columns, sizeof *whole); /* [rows, columns] */
    if (!whole)
        return error_out_of_memory(error);
    const bool read = tensor_place_read(place, whole, place->columns, error) &&
                      take_lines(loading, slot, place, hash, false, 0, place->rows, whole, error);
    free(whole);
    return read;
}

static bool load_pieces(const struct loading *loading, struct tensor_slot slot, const struct tensor_place *place,
                        const struct tensor_hash *hash, struct buffers *buffers, struct error *error)
{
    const struct lines lines = lines_of(place);
    const size_t per_piece = lines_of_piece(&lines);
    for (size_t first = 0, count; first < lines.count; first += count) {
        count = size_min(per_piece, lines.count - first);
        if (atomic_load_explicit(&loading->failed, memory_order_relaxed) ||
            !read_piece(place, &lines, first, count, buffers, error) ||
            !take_lines(loading, slot, place, hash, lines.columns, first, count, buffers->numbers, error))
            return false;
    }
    return true;
}

static bool load_tensor(struct loading *loading, size_t index, struct buffers *buffers, struct error *error)
{
    const struct model_shape *shape = &loading->source->shape;
    const struct tensor_slot slot = model_tensor(shape, index);
    const struct tensor_place *place = place_of(loading->source, slot);
    struct tensor_hash hash;
    if (!tensor_hash_create(place->rows, place->columns, model_slot_extent(shape, slot).matrix, &hash, error))
        return false;
    const bool loaded = place->heads ? load_heads(loading, slot, place, &hash, error)
                                     : load_pieces(loading, slot, place, &hash, buffers, error);
    if (loaded)
        tensor_hash_write(&hash, loading->hashes[index]);
    tensor_hash_free(&hash);
    return loaded;
}

static const struct safetensors_file *file_of(const struct loading *loading, size_t index)
{
    return place_of(loading->source, model_tensor(&loading->source->shape, index))->file;
}

static void *load_tensors(void *argument)
{
    struct loading *loading = argument;
    struct buffers buffers = {0};
    struct error error;
    for (size_t i; (i = atomic_fetch_add(&loading->next, 1)) < loading->n_tensors;) {
        if (load_tensor(loading, loading->order[i], &buffers, &error))
            continue;
        model_files_fault(&loading->source->files, file_of(loading, loading->order[i]), &error);
        pthread_mutex_lock(&loading->lock);
        if (!atomic_exchange(&loading->failed, true))
            *loading->error = error;
        pthread_mutex_unlock(&loading->lock);
        break;
    }
    free(buffers.raw);
    free(buffers.numbers);
    return NULL;
}

/* What a thread holds of a tensor at once. */
static bool tensor_bytes_held(const struct tensor_place *place, size_t *bytes)
{
    const struct lines lines = lines_of(place);
    const size_t count = size_min(lines_of_piece(&lines), lines.count);
    const size_t numbers = place->heads ? place->rows * place->columns : count * lines.length;
    size_t raw, tiles;
    return size_multiply(place->heads ? 0 : count * lines.stride, dtype_bytes(place->entry->dtype), &raw) &&
           tensor_hash_bytes(place->rows, place->columns, &tiles) && size_multiply(numbers, sizeof(float), bytes) &&
           size_add(*bytes, raw, bytes) && size_add(*bytes, tiles, bytes);
}

bool model_load_scratch_bytes(const struct model_source *source, unsigned threads, size_t *bytes)
{
    const struct model_shape *shape = &source->shape;
    size_t most = 0;
    for (size_t i = 0; i < model_tensors(shape); i++) {
        const struct tensor_place *place = place_of(source, model_tensor(shape, i));
        size_t tensor;
        if (!place->file)
            continue;
        if (!tensor_bytes_held(place, &tensor))
            return false;
        most = size_max(most, tensor);
    }
    return size_multiply(most, size_min(threads, LOAD_THREADS_MOST), bytes);
}

struct sized_tensor {
    size_t index, numbers;
};

static int by_size(const void *left, const void *right)
{
    const struct sized_tensor *a = left, *b = right;
    if (a->numbers != b->numbers)
        return a->numbers < b->numbers ? 1 : -1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Lists the tensors that are there. */
static bool put_in_order(struct loading *loading, struct error *error)
{
    const struct model_shape *shape = &loading->source->shape;
    const size_t all = model_tensors(shape);
    struct sized_tensor *sized = calloc(all, sizeof *sized);
    loading->order = calloc(all, sizeof *loading->order);
    loading->hashes = calloc(all, sizeof *loading->hashes);
    if (!sized || !loading->order || !loading->hashes) {
        free(sized);
        return error_out_of_memory(error);
    }
    for (size_t i = 0; i < all; i++) {
        const struct slot_extent extent = model_slot_extent(shape, model_tensor(shape, i));
        if (extent.rows)
            sized[loading->n_tensors++] = (struct sized_tensor){i, extent.rows * extent.columns};
    }
    qsort(sized, loading->n_tensors, sizeof *sized, by_size);
    for (size_t i = 0; i < loading->n_tensors; i++)
        loading->order[i] = sized[i].index;
    free(sized);
    return true;
}

struct model *model_load(const struct model_source *source, unsigned threads, char digest[DIGEST_TEXT_BYTES],
                         struct error *error)
{
    struct loading loading = {.source = source, .error = error};
    pthread_mutex_init(&loading.lock, NULL);
    loading.model = model_create(&source->shape, error);
    if (!loading.model || !put_in_order(&loading, error))
        goto fail;
    load_threads_run(threads, load_tensors, &loading);
    if (loading.failed || !model_files_unchanged(&source->files, error))
        goto fail;
    model_digest_write(&source->shape, (const uint8_t(*)[TENSOR_HASH_BYTES])loading.hashes, digest);
    goto done;
fail:
    model_free(loading.model);
    loading.model = NULL;
done:
    pthread_mutex_destroy(&loading.lock);
    free(loading.order);
    free(loading.hashes);
    return loading.model;
}
