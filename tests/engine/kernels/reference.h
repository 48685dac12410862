/* What the kernels must compute, in plain C. */
#ifndef ATTND_TESTS_ENGINE_KERNELS_REFERENCE_H
#define ATTND_TESTS_ENGINE_KERNELS_REFERENCE_H

#include "engine/kernels/kernels.h"

/* Floats of the packed form of [depth, columns], by the description in kernels.h. */
size_t reference_packed_floats(const struct kernels *k, size_t depth, size_t columns);
/* Packs a matrix whose element (row, column) is b[row * row_step + column * column_step]. */
void reference_pack(const struct kernels *k, const float *b, size_t row_step, size_t column_step, size_t depth,
                    size_t columns, float *packed);

/* One element of C in float64, and in *bound how far a float32 chain of `depth` multiply-adds, fused or not, may be
 * away from it: half a unit in the last place, or half the least subnormal, for every operation (Higham, Accuracy and
 * Stability of Numerical Algorithms, 2002, section 3.1). */
double reference_element(const float *a /* [depth] */, const float *b /* [depth], b_step apart */, size_t b_step,
                         size_t depth, float scale, float bias, double *bound);

/* exp(score + bias - maximum) in float64 for the keys that are allowed, 0 for the others; the sum score + bias is that
 * of float32. Returns the sum; 0 when no key is left. */
double reference_softmax(const float *scores, size_t n_keys, const float *bias, const uint8_t *allowed,
                         double *weights /* [n_keys] */);

/* bfloat16 of a finite number: the nearest, of two that are as near the even one. */
uint16_t reference_bf16(float x);
float reference_bf16_value(uint16_t number);

/* The panels of narrow_panel, of b [depth, columns], one after the other; how many numbers they are. */
size_t reference_pairs_count(const struct kernels *k, size_t depth, size_t columns);
void reference_pairs(const struct kernels *k, const float *b, size_t depth, size_t columns, uint32_t *pairs);

#endif
