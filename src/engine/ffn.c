/* Rows go through the feed-forward layer in chunks, so that what lies between its products takes memory for a chunk
 * alone. Any lane. */

#include "engine/ffn.h"

#include "base/size.h"

/* Each chunk reads the weights once: at so many rows that is no time. A multiple of what a tile of products takes. */
#define CHUNK_ROWS ((size_t)768)

/* Rows of a tile of norms. */
#define NORM_ROWS ((size_t)16)

static size_t hidden_stride(size_t d_ff)
{
    return kernel_padded(d_ff) + KERNEL_PAD; /* never a multiple of 4 KiB, as rows of scores (batch.c) */
}

bool ffn_scratch_floats(const struct ffn_shape *shape, size_t n_rows, size_t *floats)
{
    *floats = 0;
    if (shape->kind == FFN_NONE)
        return true;
    return shape->d_ff < SIZE_MAX / 4 &&
           size_multiply(size_min(n_rows, CHUNK_ROWS), hidden_stride(shape->d_ff), floats) &&
           size_multiply(*floats, ffn_is_gated(shape->kind) ? 2 : 1, floats);
}

bool ffn_run(const struct kernels *kernels, const struct ffn *ffn, const struct rows_in *from, const struct rows *to,
             size_t n_rows, bool adds, float *scratch, struct work *work)
{
    const size_t stride = hidden_stride(ffn->w_1.columns), chunk = size_min(n_rows, CHUNK_ROWS);
    const bool gated = ffn_is_gated(ffn->kind);
    const struct rows hidden = {scratch, stride}, factor = {scratch + chunk * stride, stride};
    const struct rows_in made = {hidden.data, stride};
    for (size_t first = 0; first < n_rows; first += chunk) {
        const size_t rows = size_min(chunk, n_rows - first);
        const struct rows_in read = {from->data + first * from->stride, from->stride};
        const struct rows written = {to->data + first * to->stride, to->stride};
        if (!project_activated(kernels, ffn_activation(ffn->kind), gated ? &ffn->w_gate : &ffn->w_1,
                               gated ? &ffn->w_1 : NULL, &read, &hidden, &factor, rows, work) ||
            !project_rows(kernels, &ffn->w_2, &made, &written, rows, adds, work))
            return false;
    }
    return true;
}

struct normalized {
    const struct kernels *kernels;
    const struct norm *norm;
    struct rows_in from;
    struct rows to;
    size_t n_rows, d;
};

static void norm_tile(const void *argument, size_t index, unsigned lane)
{
    (void)lane;
    const struct normalized *n = argument;
    const size_t first = index * NORM_ROWS, rows = size_min(NORM_ROWS, n->n_rows - first);
    n->kernels->normalize(n->to.data + first * n->to.stride, n->to.stride, n->from.data + first * n->from.stride,
                          n->from.stride, rows, n->d, n->norm->kind == NORM_LAYER, n->norm->eps, n->norm->gain,
                          n->norm->bias);
}

bool norm_rows(const struct kernels *kernels, const struct norm *norm, const struct rows_in *from,
               const struct rows *to, size_t n_rows, size_t d, struct work *work)
{
    const struct normalized n = {kernels, norm, *from, *to, n_rows, d};
    return work_split(work, (n_rows + NORM_ROWS - 1) / NORM_ROWS, (double)n_rows * (double)d * SPLIT_FLOP_PER_FLOAT / 4,
                      norm_tile, &n);
}
