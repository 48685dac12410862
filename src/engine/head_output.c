/* The output projection of one head, from the panels in which all heads' W_O is packed. Pure: any thread. */

#include "engine/head_output.h"

#include "engine/layer.h"

size_t head_output_columns(const struct attention_shape *shape)
{
    return shape->projected ? shape->d_model : shape->d_v;
}

const float *head_output_bias(const struct attention_layer *layer)
{
    return layer->shape.projected ? layer->output.bias : NULL;
}

void head_output(const struct attention_layer *layer, size_t head, float scale, const float *z /* [n_rows, d_v] */,
                 size_t n_rows, float *out, size_t out_stride)
{
    const struct kernels *kernels = layer->kernels;
    const size_t d_v = layer->shape.d_v;
    if (!layer->shape.projected) {
        for (size_t row = 0; row < n_rows; row++)
            kernels->scale(out + row * out_stride, z + row * d_v, d_v, scale);
        return;
    }
    /* Each panel holds its columns of all heads' rows, [depth][width]: head h begins at row h * d_v of it. The last
     * panel may be narrower, so that its rows are nearer to each other: it is a product of its own. */
    const struct packed_matrix *w_o = &layer->output; /* [num_heads * d_v, d_model] */
    const size_t panel = kernels->panel_columns, full = w_o->columns / panel * panel, rest = w_o->columns - full;
    struct product product = {
        .depth = d_v,
        .columns = w_o->columns,
        .a = z,
        .a_stride = d_v,
        .b = w_o->panels + head * d_v * panel,
        .b_depth = w_o->depth,
        .scale = scale,
        .c = out,
        .c_stride = out_stride,
    };
    if (full)
        kernels->multiply(&product, 0, n_rows, 0, full);
    if (rest) {
        const size_t width = (rest + kernels->vector_floats - 1) / kernels->vector_floats * kernels->vector_floats;
        product.columns = rest;
        product.b = w_o->panels + full * w_o->depth + head * d_v * width;
        product.c = out + full;
        kernels->multiply(&product, 0, n_rows, 0, rest);
    }
}
