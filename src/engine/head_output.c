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
    head_output_strided(layer, head, scale, z, layer->shape.d_v, n_rows, out, out_stride);
}

void head_output_strided(const struct attention_layer *layer, size_t head, float scale, const float *z, size_t z_stride,
                         size_t n_rows, float *out, size_t out_stride)
{
    const struct kernels *kernels = layer->kernels;
    const size_t d_v = layer->shape.d_v;
    if (!layer->shape.projected) {
        for (size_t row = 0; row < n_rows; row++)
            kernels->scale(out + row * out_stride, z + row * z_stride, d_v, scale);
        return;
    }
    /* Of all heads' rows of W_O [num_heads * d_v, d_model] this head's begin at head * d_v. */
    const struct product product = {
        .depth = d_v,
        .columns = layer->output.columns,
        .a = z,
        .a_stride = z_stride,
        .b = layer->output.panels,
        .pairs = layer->output.pairs,
        .b_depth = layer->output.depth,
        .b_first = head * d_v,
        .scale = scale,
        .c = out,
        .c_stride = out_stride,
    };
    kernels->multiply(&product, 0, n_rows, 0, product.columns);
}
