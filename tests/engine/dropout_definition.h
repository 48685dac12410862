/* Dropout of attention weights by its definition, in float64 with the scalar generator. Needs no libcheck. */
#ifndef ATTND_TESTS_ENGINE_DROPOUT_DEFINITION_H
#define ATTND_TESTS_ENGINE_DROPOUT_DEFINITION_H

#include "problem.h"

/* The joined heads of row i of sequence b in one sample, from the sequence's maps and values. */
void drop_row(const struct problem *p, size_t b, size_t i, size_t sample, const float *maps /* [H, Tq, Tk] */,
              const float *values /* [H, Tk, d_v] */, const uint8_t *used /* [H] */, double *joined /* [H * d_v] */);

/* What the output projection makes of the joined heads. */
void project_heads(const struct problem *p, const double *joined /* [H * d_v] */, double *outputs /* [d_model] */);

#endif
