/* What the benchmarks of heads run: an attention layer with random weights, and inputs. Faults end the program. */
#ifndef ATTND_BENCH_HEADS_LAYER_H
#define ATTND_BENCH_HEADS_LAYER_H

#include "engine/forward.h"

void *allocate(size_t bytes);

/* [count], of a seed. */
float *normals(uint32_t seed, size_t count, double scale);

/* Fills *shape in; attention_layer_free. */
struct attention_layer *random_layer(size_t d_model, size_t num_heads, struct attention_shape *shape);

/* One sequence that attends to itself: x [length, d_model]. */
struct forward_input self_input(const float *x, size_t length);

#endif
