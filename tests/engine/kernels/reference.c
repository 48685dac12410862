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

float reference_bf16_value(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint16_t reference_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t below = (uint16_t)(bits >> 16); /* towards zero */
    const uint32_t rest = bits & 0xffff;
    return below + (rest > 0x8000 || (rest == 0x8000 && below % 2 == 1));
}

size_t reference_pairs_count(const struct kernels *k, size_t depth, size_t columns)
{
    const size_t pair = 2 * k->vector_floats;
    return depth * ((columns + pair - 1) / pair) * k->vector_floats;
}

void reference_pairs(const struct kernels *k, const float *b, size_t depth, size_t columns, uint32_t *pairs)
{
    const size_t vector = k->vector_floats;
    memset(pairs, 0, reference_pairs_count(k, depth, columns) * sizeof *pairs);
    for (size_t row = 0; row < depth; row++)
        for (size_t column = 0; column < columns; column++) {
            const size_t first = column / k->panel_columns * k->panel_columns, in_panel = column - first;
            const size_t left = columns - first < k->panel_columns ? columns - first : k->panel_columns;
            uint32_t *to = pairs + reference_pairs_count(k, depth, first) + row * reference_pairs_count(k, 1, left) +
                           in_panel / (2 * vector) * vector + in_panel % vector;
            *to |= (uint32_t)reference_bf16(b[row * columns + column]) << (in_panel / vector % 2 ? 16 : 0);
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
