/* What one head adds to the output: its Z times its rows of W_O, without bias. output = sum of it over the heads, each
 * times its head_mask, + b_O. */
#ifndef ATTND_ENGINE_HEAD_OUTPUT_H
#define ATTND_ENGINE_HEAD_OUTPUT_H

#include "engine/attention.h"

#include <stddef.h>

/* The columns of the output that one head reaches: d_model; without projections d_v, other ones for each head. */
size_t head_output_columns(const struct attention_shape *shape);

/* b_O [d_model], and zeros up to a multiple of KERNEL_PAD; NULL: none. */
const float *head_output_bias(const struct attention_layer *layer);

/* out [n_rows, head_output_columns], rows out_stride apart, = scale * z W_O[head]. Without projections out = scale * z,
 * the columns head * d_v and on of the output. What lies between the rows is not touched. A row has the same bits
 * whatever rows are computed with it. Any thread. */
void head_output(const struct attention_layer *layer, size_t head, float scale, const float *z /* [n_rows, d_v] */,
                 size_t n_rows, float *out, size_t out_stride);

/* The same of z whose rows are z_stride apart. */
void head_output_strided(const struct attention_layer *layer, size_t head, float scale,
                         const float *z /* [n_rows, d_v] */, size_t z_stride, size_t n_rows, float *out,
                         size_t out_stride);

#endif
