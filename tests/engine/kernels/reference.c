#include "reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

size_t reference_packed_floats(const struct kernels *k, size_t depth, size_t columns)
{
    return depth * ((columns + k->vector_floats - 1) / k->vector_floats) * k->vector_floats;
}

void reference_pack(const struct kernels *k, const float *b, size_t row_step, size_t column_step, size_t depth,
                    size_t columns, float *packed)
{
    memset(packed, 0, reference_packed_floats(k, depth, columns) * sizeof *packed);
    for (size_t row = 0; row < depth; row++)
        for (size_t column = 0; column < columns; column++) {
            const size_t panel = column / k->panel_columns, first = panel * k->panel_columns;
            const size_t left = reference_packed_floats(k, 1, columns - first);
            const size_t width = left < k->panel_columns ? left : k->panel_columns;
            memcpy(&packed[first * depth + row * width + (column - first)], &b[row * row_step + column * column_step],
                   sizeof *packed); /* not by assignment: a NaN keeps its bits */
        }
}

double reference_element(const float *a, const float *b, size_t b_step, size_t depth, float scale, float bias,
                         double *bound)
{
    double sum = 0, size = 0;
    for (size_t k = 0; k < depth; k++) {
        const double product = (double)a[k] * (double)b[k * b_step];
        sum += product;
        size += fabs(product);
    }
    const double element = (double)scale * sum + (double)bias, factor = fmax(1, fabs((double)scale));
    *bound = FLT_EPSILON / 2 * (((double)depth + 2) * size * fabs((double)scale) + 2 * fabs(element)) +
             (double)FLT_TRUE_MIN * ((double)depth + 2) * factor;
    return element;
}

double reference_softmax(const float *scores, size_t n_keys, const float *bias, const uint8_t *allowed, double *weights)
{
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < n_keys; j++) {
        const float score = bias ? scores[j] + bias[j] : scores[j];
        weights[j] = allowed && !allowed[j] ? -INFINITY : (double)score;
        if (weights[j] > top)
            top = weights[j];
    }
    for (size_t j = 0; j < n_keys; j++)
        sum += weights[j] = top > -INFINITY ? exp(weights[j] - top) : 0;
    return sum;
}
